"""The file that reveals an old copy: written over in place, whole after a write that was cut short."""

import json
import shutil

import pytest

from dpensemble.errors import LedgerError, TamperedLedgerError
from dpensemble.ledger import Ledger, LedgerAccount
from dpensemble.ledger.chain import Entry
from dpensemble.ledger.witness import Witness

from .conftest import spend


def entry(number):
    return Entry(number, "request", "{}", "0" * 64, f"{number:064x}")


@pytest.fixture
def witness(tmp_path):
    return Witness(tmp_path / "state" / "witness")


def test_the_newest_entry_is_kept_whichever_way_they_come(witness):
    assert witness.seen() is None
    for number in (1, 2, 5, 3, 6, 6, 7):
        witness.note(entry(number))
    assert witness.seen() == (7, f"{7:064x}")
    # Two places, each a line, so that it can be read by people.
    assert [json.loads(line)["number"] for line in witness.path.read_text().splitlines()] == [7, 6]


def test_a_write_cut_short_anywhere_leaves_what_was_seen_before(witness):
    for number in (1, 2, 3):
        witness.note(entry(number))
    before = witness.path.read_bytes()
    witness.note(entry(4))
    after = witness.path.read_bytes()
    changed = [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    for cut in range(changed[0], changed[-1] + 2):
        witness.path.write_bytes(after[:cut] + before[cut:])
        assert witness.seen() == ((4, f"{4:064x}") if cut > changed[-1] else (3, f"{3:064x}"))
        # The next one goes where nothing is lost.
    witness.path.write_bytes(after[: changed[0] + 3] + before[changed[0] + 3 :])
    witness.note(entry(5))
    assert witness.seen() == (5, f"{5:064x}")


def test_a_file_of_an_earlier_release_is_read_and_gone_on_with(witness):
    witness.path.parent.mkdir()
    witness.path.write_text(json.dumps({"number": 8, "hash": f"{8:064x}"}))
    assert witness.seen() == (8, f"{8:064x}")
    witness.note(entry(7))
    assert witness.seen() == (8, f"{8:064x}")
    witness.note(entry(9))
    witness.note(entry(10))
    assert witness.seen() == (10, f"{10:064x}")


@pytest.mark.parametrize("content", ["", "{", "[]", "x" * 8192, " " * 8192])
def test_a_damaged_file_is_refused(witness, content):
    witness.path.parent.mkdir()
    witness.path.write_text(content)
    with pytest.raises(LedgerError, match="cannot be read"):
        witness.seen()
    with pytest.raises(LedgerError, match="cannot be read"):
        witness.note(entry(1))
    assert witness.path.read_text() == content


def test_of_two_copies_in_use_one_alone_charges(ledger, patients, where, tmp_path):
    """Both pass the look before the charge. The witness has seen one of the two entries, and refuses the other."""
    copy = tmp_path / "copy.db"
    shutil.copy(where, copy)
    first, second = (LedgerAccount(Ledger(path), "patients") for path in (where, copy))
    for account in (first, second):
        # As in a race: the look before the charge found nothing.
        account.ledger._witness.check = lambda _: None
    spend(first, 0.1)
    with pytest.raises(TamperedLedgerError, match="two copies of the ledger are in use"):
        spend(second, 0.1)


def test_another_entry_of_the_same_number_is_refused(witness):
    assert witness.note(entry(3))
    assert witness.note(entry(3))
    # A newer one was seen, which the ledger must then have.
    assert not witness.note(entry(2))
    with pytest.raises(TamperedLedgerError, match="has seen another entry 3"):
        witness.note(Entry(3, "request", "{}", "0" * 64, f"{4:064x}"))
    assert witness.seen()[0] == 3
