"""Combine the work of many threads in few transactions, because a transaction takes equally long for any amount."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from dpensemble.errors import DPEnsembleError, LedgerError
from dpensemble.ledger.store import LockedLedgerError
from dpensemble.ledger.transaction import Transaction

Result = TypeVar("Result")


class _Piece:
    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work, self.is_done = work, False
        self.result: Any = None
        self.error: Exception | None = None


class GroupCommit:
    """The first thread commits all pending work. The others wait for it.

    `writing` returns a block with a transaction, which is on the disk at the end of the block. `patience` returns the
    seconds that work waits for the work of other threads to begin.
    """

    def __init__(
        self, writing: Callable[[], AbstractContextManager[Transaction]], patience: Callable[[], float]
    ) -> None:
        self._writing, self._patience = writing, patience
        self._queue, self._turn = threading.Lock(), threading.Lock()
        self._waiting: list[_Piece] = []

    def run(self, work: Callable[[Transaction], Result], again: Callable[[], bool] = lambda: False) -> Result:
        """Return the result of a piece of work once it is on the disk, or raise its error.

        While another program holds the lock of the ledger and `again` returns True, the work is tried again.
        """
        while True:
            try:
                return self._run_once(work)
            except LockedLedgerError:
                if not again():
                    raise

    def _run_once(self, work: Callable[[Transaction], Result]) -> Result:
        piece = _Piece(work)
        with self._queue:
            self._waiting.append(piece)
        if not self._turn.acquire(timeout=self._patience()):
            self._withdraw(piece)
            # Another thread has begun the piece, so its outcome comes.
            self._turn.acquire()
        try:
            if not piece.is_done:
                with self._queue:
                    pieces, self._waiting = self._waiting, []
                self._commit(pieces)
        finally:
            self._turn.release()
        if piece.error is not None:
            raise piece.error
        result: Result = piece.result
        return result

    def _withdraw(self, piece: _Piece) -> None:
        """Take back a piece and raise, unless the piece has begun."""
        with self._queue:
            if piece in self._waiting:
                self._waiting.remove(piece)
                raise LockedLedgerError("the ledger is busy with other requests: try again.")

    def _commit(self, pieces: list[_Piece]) -> None:
        try:
            with self._writing() as transaction:
                for piece in pieces:
                    _try(piece, transaction)
        except LedgerError as error:
            _fail(pieces, error)
        except BaseException:
            _fail(pieces, LedgerError("the ledger was not written: try again."))
            raise
        finally:
            for piece in pieces:
                piece.is_done = True


def _fail(pieces: list[_Piece], error: LedgerError) -> None:
    """Give every piece an error, so that no caller believes that unwritten work reached the disk."""
    for piece in pieces:
        # A thread each raises one, and each adds its own traceback.
        piece.error = type(error)(str(error))


def _try(piece: _Piece, transaction: Transaction) -> None:
    """Do one piece of work. If it raises, only its own changes are undone."""
    try:
        with transaction.apart():
            piece.result = piece.work(transaction)
    except DPEnsembleError as error:
        piece.error = error
