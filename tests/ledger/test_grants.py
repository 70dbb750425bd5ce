"""Answers whose book is a ledger: paid for once, continued after a restart, and repeated by their keys."""

import json
import re

import pytest

from dpensemble.errors import BudgetError, DataError, LedgerError
from dpensemble.server import Ledger

from .conftest import votes


def test_a_grant_is_charged_once_and_gone_on_with(patients, where):
    first = votes(patients.grant("october"))
    assert patients.state().spent.loss == 0
    told = [first.answer(counts=[50, 50], key=str(i)).label for i in range(12)]
    spent = patients.state().spent
    assert spent.loss > 0
    # Another process, later.
    later = votes(Ledger(where).account("patients").grant("october"))
    assert later.remaining() == 18
    again = [later.answer(counts=[50, 50], key=str(i)) for i in range(12)]
    assert [one.label for one in again] == told
    assert all(one.replayed for one in again)
    assert later.remaining() == 18
    assert patients.state().spent == spent
    with pytest.raises(DataError, match="other votes"):
        later.answer(counts=[51, 49], key="3")
    with pytest.raises(BudgetError, match="19 answers were requested, and 18 are left"):
        later.answer(counts=[[50, 50]] * 19)
    assert later.remaining() == 18
    assert patients.ledger.verify().requests == 12


def test_a_seeded_answer_keeps_its_mark(patients, where):
    assert not votes(patients.grant("october"), seed=1).answer(counts=[50, 50], key="1").for_release
    later = votes(Ledger(where).account("patients").grant("october"))
    replayed, fresh = (later.answer(counts=[50, 50], key=key) for key in ("1", "2"))
    assert (replayed.replayed, replayed.for_release) == (True, False)
    assert fresh.for_release


def test_what_can_never_fit_charges_no_grant(patients):
    for account in (patients, patients.grant("october")):
        asked = votes(account)
        with pytest.raises(BudgetError, match="31 answers were requested, and 30 are left"):
            asked.answer(counts=[[50, 50]] * 31)
        with pytest.raises(BudgetError, match="31 answers"):
            asked.answer_to(b"rows", 31, ask=lambda: pytest.fail("teachers were asked"))
    assert patients.state().spent.loss == 0
    assert patients.ledger.verify().grants == 0


def test_further_settings_belong_to_a_grant(patients):
    votes(patients.grant("october", {"ensemble": "a"})).answer(counts=[50, 50])
    assert votes(patients.grant("october", {"ensemble": "a"})).remaining() == 29
    for more in ({"ensemble": "b"}, {}):
        with pytest.raises(LedgerError, match="other settings"):
            votes(patients.grant("october", more))


def test_a_grant_with_other_settings_is_refused(patients):
    votes(patients.grant("october")).answer(counts=[50, 50])
    with pytest.raises(LedgerError, match="other settings"):
        votes(patients.grant("october"), sigma=61.0)
    with pytest.raises(LedgerError, match="other settings"):
        votes(patients.grant("october"), answers=29)


def test_two_that_begin_at_once_share_a_grant(patients):
    one, two = (votes(patients.grant("october")) for _ in range(2))
    one.answer(counts=[50, 50])
    two.answer(counts=[50, 50])
    assert one.remaining() == two.remaining() == 28
    assert patients.ledger.verify().grants == 1


def test_a_grant_that_the_account_does_not_allow_is_refused_at_the_first_answer(ledger):
    account = ledger.open_account("few", epsilon=0.3, delta=1e-6)
    asked = votes(account.grant("october"))
    with pytest.raises(BudgetError, match="nothing was charged"):
        asked.answer(counts=[50, 50])
    assert account.state().spent.loss == 0


def test_without_a_name_every_aggregator_has_a_grant_of_its_own(patients):
    for _ in range(2):
        asked = votes(patients)
        asked.answer(counts=[50, 50])
        assert asked.remaining() == 29
    assert patients.ledger.verify().grants == 2


def test_what_was_told_is_in_the_ledger_and_what_was_voted_is_not(patients, where):
    votes(patients.grant("october")).answer(counts=[37, 63], key="row 5")
    text = "".join(entry.body for entry in patients.ledger.entries())
    assert "row 5" in text
    told = [entry.fields for entry in patients.ledger.entries() if entry.kind in ("request", "answer")]
    # Hashes and nonces may hold any digits.
    plain = [re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[\d:.+]*", "", json.dumps(fields)) for fields in told]
    assert len(told) == 2
    assert not any(re.search(r"\b(37|63)\b", text) for text in plain), plain
    # The same votes have another hash under another key.
    other = Ledger.create(where.with_name("other.db")).open_account("patients", epsilon=3, delta=1e-5)
    votes(other.grant("october")).answer(counts=[37, 63], key="row 5")
    hashes = [next(e for e in a.ledger.entries() if e.kind == "request").fields["votes"] for a in (patients, other)]
    assert hashes[0] != hashes[1]
