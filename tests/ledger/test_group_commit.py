"""Work of many threads in few transactions, while another program holds the lock."""

import threading
from contextlib import contextmanager

import pytest

from dpensemble.errors import LedgerError
from dpensemble.server.entry_log import GroupCommit
from dpensemble.server.store import LockedLedgerError

from ..deadline import GUARD, until


class Database:
    """A database whose lock the test holds and frees."""

    def __init__(self):
        self.is_locked, self.go, self.begun, self.done = False, threading.Event(), 0, []
        self.go.set()

    @contextmanager
    def writing(self):
        self.begun += 1
        assert self.go.wait(GUARD)
        if self.is_locked:
            raise LockedLedgerError("held")
        yield self

    @contextmanager
    def apart(self):
        yield


@pytest.fixture
def database():
    return Database()


def test_a_held_lock_fails_the_whole_group(database):
    database.is_locked = True
    commits = GroupCommit(database.writing, lambda: GUARD)
    with pytest.raises(LockedLedgerError, match="held"):
        commits.run(lambda one: one.done.append(1))
    assert database.done == []


def test_work_that_must_be_done_is_tried_again(database):
    database.is_locked = True

    def again():
        database.is_locked = database.begun < 3
        return True

    assert GroupCommit(database.writing, lambda: GUARD).run(lambda one: one.done.append(1), again) is None
    assert (database.begun, database.done) == (4, [1])


def test_other_errors_are_not_tried_again(database):
    def failing(_):
        raise LedgerError("other")

    with pytest.raises(LedgerError, match="other"):
        GroupCommit(database.writing, lambda: GUARD).run(failing, lambda: True)
    assert database.begun == 1


def test_work_that_waits_too_long_for_its_turn_is_withdrawn(database):
    database.go.clear()
    commits = GroupCommit(database.writing, lambda: 0.05)
    first = threading.Thread(target=commits.run, args=(lambda one: one.done.append("first"),))
    first.start()
    until(lambda: database.begun)
    with pytest.raises(LockedLedgerError, match="busy with other requests"):
        commits.run(lambda one: one.done.append("second"))
    database.go.set()
    first.join()
    commits.run(lambda one: one.done.append("third"))
    assert database.done == ["first", "third"]
