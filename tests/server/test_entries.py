"""Entries and their rows. Names that people take for each other share a budget, or one of them is refused."""

from dataclasses import replace

import pytest

from dpensemble import Budget
from dpensemble.errors import InvalidParameterError, LedgerError
from dpensemble.server import Ledger
from dpensemble.server.entries import look_alike

from .conftest import votes

ALIKE = ["Patients", "PATIENTS", "patIents"]
FOREIGN = {
    "Cyrillic": "p\u0430tients",
    "full width": "\uff50\uff41\uff54\uff49\uff45\uff4e\uff54\uff53",
    "an accent": "patie\u0301nts",
    "an accent in one": "pati\u00e9nts",
    "a joiner that shows nothing": "pat\u034fients",
    "a ligature": "of\ufb01ce",
}


def open_as_before(ledger, data_set):
    """Open an account of any name as earlier releases did."""
    terms = replace(ledger.account("patients").state().terms, budget=Budget(epsilon=3, delta=1e-5)).to_dict()
    with ledger.writing() as transaction:
        transaction.append("account", {"data_set": data_set, "whom": "everyone", "terms": terms, "time": ""})


@pytest.mark.parametrize("name", ALIKE)
def test_a_name_in_other_case_opens_no_second_budget(ledger, patients, name):
    head = ledger.head()
    with pytest.raises(LedgerError, match="looks like 'patients'"):
        ledger.open_account(name, epsilon=3, delta=1e-5)
    assert ledger.head() == head


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("ward 10", "ward l0"),
        ("ward 10", "ward 1O"),
        ("ward Il", "ward ll"),
        ("ward  a", "ward a"),
        ("modem", "modern"),
    ],
)
def test_look_alike_letters_open_no_second_budget(ledger, there, new):
    ledger.open_account(there, epsilon=3, delta=1e-5)
    with pytest.raises(LedgerError, match="looks like"):
        ledger.open_account(new, epsilon=3, delta=1e-5)
    ledger.open_account("staff", epsilon=3, delta=1e-5)


@pytest.mark.parametrize("name", FOREIGN.values(), ids=FOREIGN)
def test_new_names_are_in_ascii(ledger, patients, name):
    with pytest.raises(InvalidParameterError, match="contains more than ASCII") as caught:
        ledger.open_account(name, epsilon=3, delta=1e-5)
    # A reader could not distinguish it from the other name.
    assert str(caught.value).isascii()
    assert [one.data_set for one in ledger.accounts()] == ["patients"]


@pytest.mark.parametrize("name", [name for name in FOREIGN.values() if "of" not in name])
def test_a_ledger_with_such_names_opens_and_goes_on(ledger, patients, where, name):
    open_as_before(ledger, name)
    open_as_before(ledger, "PATIENTS")
    again = Ledger(where)
    assert {one.data_set for one in again.accounts()} == {"patients", "PATIENTS", name}
    again.account(name).charge_budget("a histogram", Budget(epsilon=0.5, delta=1e-9))
    assert again.account(name).state().share_left < again.account("patients").state().share_left
    again.verify()
    # A new name is compared with theirs.
    with pytest.raises(LedgerError, match="looks like"):
        again.open_account("Patients", epsilon=3, delta=1e-5)


def test_a_new_name_is_compared_with_foreign_ones(ledger, patients):
    open_as_before(ledger, FOREIGN["a ligature"])
    open_as_before(ledger, "\u0441\u043e\u0440")
    for name in ("office", "cop", "COP"):
        with pytest.raises(LedgerError, match="looks like"):
            ledger.open_account(name, epsilon=3, delta=1e-5)


def test_a_new_grant_looks_like_no_other_of_its_data_set(ledger, patients, where):
    votes(patients.grant("october 10")).answer(counts=[[50, 50]], key="a")
    for name in ("October 10", "october lO"):
        with pytest.raises(LedgerError, match=r"grant='.*' looks like 'october 10'"):
            votes(patients.grant(name))
    with pytest.raises(InvalidParameterError, match="contains more than ASCII"):
        votes(patients.grant("\u043ectober"))
    spent = patients.state().spent
    others = ledger.open_account("staff", epsilon=3, delta=1e-5)
    votes(others.grant("October 10")).answer(counts=[[50, 50]], key="a")
    assert patients.state().spent == spent


def test_two_new_grants_that_look_alike_are_not_both_charged(patients):
    first, second = votes(patients.grant("october")), votes(patients.grant("October"))
    first.answer(counts=[[50, 50]], key="a")
    spent = patients.state().spent
    with pytest.raises(LedgerError, match="looks like 'october'"):
        second.answer(counts=[[50, 50]], key="a")
    assert patients.state().spent == spent


@pytest.mark.parametrize(("one", "other"), [("mail", "mall"), ("ward 1", "ward 2"), ("a-b", "a_b"), ("east", "west")])
def test_names_that_differ_are_told_apart(one, other):
    assert look_alike(one, [other, one]) is None
    assert look_alike(other, [one]) is None


def test_an_entry_brings_its_rows_and_its_time(ledger, patients):
    votes(patients.grant("october")).answer(counts=[20, 80], key="one")
    patients.charge_budget("a histogram", Budget(epsilon=0.1, delta=1e-9))
    # Verification compares every row with the entries.
    assert ledger.verify().requests == 1
    # The entry of a request has the time of its answer.
    timed = {entry.kind for entry in ledger.entries() if "time" in entry.fields}
    assert timed == {"ledger", "account", "grant", "request"}
    with ledger.reading() as transaction:
        assert transaction.request(request="one").total == 1
        assert transaction.answer(request="one") is not None
        assert transaction.answer(request="two") is None
