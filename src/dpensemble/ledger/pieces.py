"""Small pieces of work of many threads, done in few transactions: one reaches the disk as slowly as many together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from dpensemble.errors import DPEnsembleError, LedgerError
from dpensemble.ledger.store import Transaction

Result = TypeVar("Result")


class _Piece:
    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work, self.is_done = work, False
        self.result: Any = None
        self.error: Exception | None = None


class Pieces:
    """Whoever comes first does all the work that waits; the others wait for that.

    Parameters
    ----------
    writing : callable
        Returns a block with a transaction, which is on the disk when the block is left.
    """

    def __init__(self, writing: Callable[[], AbstractContextManager[Transaction]]) -> None:
        self._writing = writing
        self._queue, self._turn = threading.Lock(), threading.Lock()
        self._waiting: list[_Piece] = []

    def done(self, work: Callable[[Transaction], Result]) -> Result:
        """Return the result of a piece of work once it is on the disk, or raise what it raised."""
        piece = _Piece(work)
        with self._queue:
            self._waiting.append(piece)
        with self._turn:
            if not piece.is_done:
                with self._queue:
                    pieces, self._waiting = self._waiting, []
                self._do(pieces)
        if piece.error is not None:
            raise piece.error
        result: Result = piece.result
        return result

    def _do(self, pieces: list[_Piece]) -> None:
        try:
            with self._writing() as transaction:
                for piece in pieces:
                    _try(piece, transaction)
        except BaseException as error:
            # None of them may take for written what did not get there.
            for piece in pieces:
                told = str(error) if isinstance(error, LedgerError) else "the ledger was not written; try again."
                piece.error = LedgerError(told)
            if not isinstance(error, LedgerError):
                raise
        finally:
            for piece in pieces:
                piece.is_done = True


def _try(piece: _Piece, transaction: Transaction) -> None:
    """Do one piece of work; what refuses it undoes it alone."""
    try:
        with transaction.apart():
            piece.result = piece.work(transaction)
    except DPEnsembleError as error:
        piece.error = error
