"""The entries of a ledger: read, added by many threads together, and verified at once or in the background.

Reading and adding begin with a check that nothing is missing. Verification compares every hash, and every other table
with the entries. If it fails, everything after it is stopped. The work of many threads shares few transactions, because
a transaction takes equally long for any amount.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpensemble._checks import integer_between
from dpensemble._files import state_home
from dpensemble.errors import DPEnsembleError, LedgerError, TamperedLedgerError
from dpensemble.server.entries import SCHEMAS, Entry, Standing, Transaction
from dpensemble.server.store import LockedLedgerError, Store
from dpensemble.server.witness import KnownLedgers, SignedStanding, SigningKey, Witness

_Result = TypeVar("_Result")


class _Piece:
    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work, self.is_done = work, False
        self.result: Any = None
        self.error: Exception | None = None


class _GroupCommit:
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

    def run(self, work: Callable[[Transaction], _Result], again: Callable[[], bool] = lambda: False) -> _Result:
        """Return the result of a piece of work once it is on the disk, or raise its error.

        While another program holds the lock of the ledger and `again` returns True, the work is tried again.
        """
        while True:
            try:
                return self._run_once(work)
            except LockedLedgerError:
                if not again():
                    raise

    def _run_once(self, work: Callable[[Transaction], _Result]) -> _Result:
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
        result: _Result = piece.result
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Contents of a verified ledger.

    Parameters
    ----------
    entries, accounts, grants, requests : int
        Numbers of entries, accounts, grants (all releases) and requests.
    head : str
        Hash of the newest entry.
    """

    entries: int
    accounts: int
    grants: int
    requests: int
    head: str


def _verified(transaction: Transaction) -> Verified:
    """Check all entries and all tables. Raise at the first failed check."""
    standing, kinds = transaction.verify()
    return Verified(
        entries=standing.number,
        accounts=kinds["account"],
        grants=kinds["grant"],
        requests=kinds["request"],
        head=standing.hash,
    )


class _BackgroundVerification:
    """Runs the verification `work` once in a thread, and remembers the `TamperedLedgerError` that it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._problem: str | None = None
        self._thread: threading.Thread | None = None
        self._is_wanted = False

    def start(self) -> None:
        """Start the verification."""
        self._is_wanted = True
        self._thread = threading.Thread(target=self._verify, name="dpensemble ledger", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Start again if the database was unavailable before, or if this is a fork, which has no such thread."""
        if self._is_wanted and (self._thread is None or not self._thread.is_alive()):
            self.start()

    def wait(self) -> None:
        """Return when the work is done, or at once if it was not started."""
        if self._thread is not None:
            self._thread.join()

    def require(self) -> None:
        """Raise if the verification found a problem, with the same error each time."""
        if self._problem is not None:
            raise TamperedLedgerError(self._problem)

    def _verify(self) -> None:
        try:
            self._work()
        except TamperedLedgerError as error:
            self._problem = str(error)
        except LedgerError:
            # The database is unavailable. The next check starts again.
            return
        self._is_wanted = False


# Seconds between two writes of the witness while a service runs.
_RENEWED_EVERY = 10


class EntryLog:
    """The entries of a ledger in a database, the witness of the newest entry, and the signing key.

    `Ledger` describes the parameters.
    """

    def __init__(
        self, where: str | Path, *, signing_key: str | Path | None = None, witness: str | Path | None = None
    ) -> None:
        self._locate(where, signing_key, witness)
        self._standing = self._signed.load()
        is_signed = self._standing.number > 0
        with self.reading():
            pass
        if is_signed:
            # What the signature covers is read afterwards.
            self._watch.start()

    def _locate(self, where: str | Path, signing_key: str | Path | None, witness: str | Path | None) -> None:
        """Find the ledger and its files. Nothing is checked yet."""
        self._store = Store(where)
        if not self._store.exists():
            raise LedgerError(
                f"there is no ledger in {self._store.place}: create one by Ledger.create or 'dpensemble ledger create'."
            )
        with self._store.reading() as transaction:
            first = transaction.entry(1)
        if first is None or first.kind != "ledger" or first.fields.get("schema") not in SCHEMAS:
            versions = " or ".join(map(str, SCHEMAS))
            raise LedgerError(
                f"{self._store.place} holds no ledger of version {versions}: use the library version that made it."
            )
        #: Random name of this ledger, and the public key of its checkpoints.
        self.id: str = first.fields["id"]
        self.public_key: str = first.fields["public_key"]
        self._places = KnownLedgers(witness)
        self._places.require(self._store, self.id)
        self._key: SigningKey | None = None
        self._key_path = Path(signing_key) if signing_key is not None else state_home() / f"{self.id}.key"
        where_witness = Path(witness) if witness is not None else state_home() / f"{self.id}.witness"
        self._witness = Witness(where_witness, self._store.place)
        self._commits = _GroupCommit(self.writing, lambda: self._store.patience)
        self._signed = SignedStanding(self._places.folder / f"{self.id}.checkpoint", self.id, self.public_key)
        self._standing = Standing()
        self._watch: _BackgroundVerification = _BackgroundVerification(self._verify_all)

    @property
    def place(self) -> str:
        """Place of the ledger, without any password."""
        return self._store.place

    @property
    def key_path(self) -> Path:
        """Path of the signing key."""
        return self._key_path

    @property
    def witness_path(self) -> Path:
        """Path of the witness file, which detects an old copy."""
        return self._witness.path

    @property
    def key(self) -> SigningKey:
        """The signing key."""
        if self._key is None:
            key = SigningKey.read(self._key_path)
            if key.public != self.public_key:
                raise LedgerError(f"the signing key {self._key_path} belongs to another ledger: give the right one.")
            self._key = key
        return self._key

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Read within the block, after a check that nothing is missing."""
        self._watch.require()
        with self._store.reading() as transaction:
            self._follow(transaction)
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Add within the block, after a check that nothing is missing.

        When the block ends, the newest entry is on the disk and in the witness, even if the block added nothing.
        Nobody else charges this ledger, or a copy of it with the same witness, within the block.
        """
        self._watch.require()
        key = self.key
        self._places.remember(self._store, self.id)
        with ExitStack() as until_witnessed:
            with self._store.writing() as transaction:
                seen = until_witnessed.enter_context(self._witness.held())
                self._follow(transaction, seen)
                self._require_here(transaction.standing)
                yield transaction
                last = transaction.last()
            if last is not None and seen != (last.number, last.hash):
                self._witness.note(last)
        self._standing = transaction.standing
        self._signed.save(self._standing, key)

    @contextmanager
    def restoring(self) -> Iterator[Transaction]:
        """Add within the block to a copy whose newest entry the witness does not know. Then the witness knows it."""
        _ = self.key
        with ExitStack() as until_witnessed:
            with self._store.writing() as transaction:
                until_witnessed.enter_context(self._witness.locked())
                if self._witness.knows(transaction):
                    raise LedgerError(
                        f"{self._witness.path} knows this ledger, which lacks nothing: there is nothing to restore."
                    )
                _verified(transaction)
                transaction.catch_up(Standing())
                self._require_here(transaction.standing)
                self._signed.forget()
                yield transaction
                last = transaction.last()
                assert last is not None  # noqa: S101
            # A witness of entries that never reached the disk would look like one of lost releases.
            self._witness.accept(last)
        self._standing = transaction.standing
        self._places.remember(self._store, self.id)

    def close_for(self, store: Store) -> None:
        """Add the entry that closes a file which moves to a database, unless the file has that entry already."""
        to = store.identities[0]
        with self.reading() as transaction:
            moved_to = transaction.standing.moved_to
        if moved_to is None:
            if store.exists():
                raise LedgerError(f"there is a ledger in {store.place} already: give an empty database.")
            self._places.require_fresh(store)
            with self.writing() as transaction:
                _verified(transaction)
                transaction.append("moved", {"to": to})
        elif moved_to != to:
            raise LedgerError(f"the ledger in {self.place} moved to {moved_to} before: use the ledger there.")

    def copy_to(self, store: Store) -> None:
        """Copy every row into a database, in one transaction, and verify the copy before anybody can use it."""

        def fill(there: Transaction) -> None:
            with self.reading() as here:
                there.copy(here)
            _verified(there)

        store.create(fill)

    def _follow(self, transaction: Transaction, seen: tuple[int, str] | None = None) -> None:
        """Check the entries that are new since this process's last check."""
        # Known before the snapshot begins. Another thread may learn of later entries, which the snapshot lacks.
        known = self._standing
        self._witness.check(transaction, seen)
        transaction.catch_up(known)
        self._standing = transaction.standing

    def _require_here(self, standing: Standing) -> None:
        """Raise for a file whose ledger was moved to PostgreSQL."""
        if standing.moved_to is not None and self._store.file is not None:
            raise LedgerError(
                f"the ledger in {self.place} was closed when it moved to {standing.moved_to}: charge it there. Nothing "
                "was charged."
            )

    def together(self, work: Callable[[Transaction], _Result], *, is_charged: bool = False) -> _Result:
        """Run `work` in a transaction that it shares with the simultaneous work of other threads.

        When this returns, the work is on the disk and witnessed, as with `writing`. If the work raises, the work of
        others is not affected. Many threads need few writes to the disk. Work of a request that `is_charged` waits for
        the ledger's lock until the end of `kept_open`, so that no deadline lies between a charge and its answer.
        """
        return self._commits.run(work, lambda: is_charged and self._store.is_kept_open)

    @contextmanager
    def kept_open(self, *patience: float) -> Iterator[None]:
        """Make many transactions faster within the block, for a service. Do not fork within the block.

        With `patience`, transactions in the block wait that many seconds for locks of others, and not a minute. The
        witness is written at the start and every ten seconds, so that `check` reports a problem of its disk before a
        charge meets the problem.
        """
        is_over = threading.Event()

        def renew() -> None:
            while True:
                # `check` reports what went wrong.
                with suppress(LedgerError):
                    self._witness.renew()
                if is_over.wait(_RENEWED_EVERY):
                    return

        with self._store.kept_open(*patience):
            renewing = threading.Thread(target=renew, name="dpensemble witness", daemon=True)
            renewing.start()
            try:
                yield
            finally:
                is_over.set()
                renewing.join()

    def last_seen(self) -> int:
        """Return the number of the newest entry that the witness has seen, or 0 if the witness cannot tell."""
        with suppress(LedgerError):
            seen = self._witness.seen()
            return 0 if seen is None else seen[0]
        return 0

    def require_known(self) -> None:
        """Raise `UnknownLedgerError` if `restored` is needed before the next charge. Reads one file."""
        self._witness.require_known()

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first, once the newest one is witnessed, because entries hold answers."""
        with self.reading() as transaction:
            entries, seen = list(transaction.all_entries()), self._witness.seen()
        if seen is not None and entries[-1].number > seen[0]:
            # A charge is under way, or its process ended.
            with self.writing():
                pass
        return entries

    def head(self) -> Entry:
        """Return the newest entry."""
        with self.reading() as transaction:
            last = transaction.last()
        assert last is not None  # noqa: S101
        return last

    def checkpoint(self) -> dict[str, Any]:
        """Return a signed statement about the newest entry and what every account has spent, to be stored elsewhere.

        Returns
        -------
        dict
            Plain values. With it, `verify` can show that nothing before it was changed or cut off, and `restored` can
            charge what was spent up to it.

        Raises
        ------
        UnknownLedgerError
            If `restored` is needed first. A signed statement of a copy would count as the newest one.
        """
        self.require_known()
        with self.reading() as transaction:
            standing = transaction.standing
        return self.key.signed(standing.stated(self.id) | {"accounts": standing.to_dict()["accounts"]})

    def verify(self, checkpoints: Sequence[dict[str, Any]] = ()) -> Verified:
        """Check every hash and every sum, and that the chain contains what the checkpoints state.

        Parameters
        ----------
        checkpoints : sequence of dict, optional
            Signed statements that were stored elsewhere.

        Returns
        -------
        Verified
            Numbers of entries and of their contents.

        Raises
        ------
        LedgerError
            If any check fails. The message names the problem and its place.
        """
        stated = [self._signed.checked(one) for one in checkpoints]
        with self.reading() as transaction:
            for one in stated:
                entry = transaction.entry(integer_between("number", one.get("number"), 1, 2**62))
                if one.get("ledger") != self.id or entry is None or entry.hash != one.get("hash"):
                    raise TamperedLedgerError(
                        f"the ledger lacks entry {one['number']:,} of a signed checkpoint: it was cut off or "
                        "rewritten; restore the newest copy."
                    )
            return _verified(transaction)

    def check(self) -> list[str]:
        """Look for problems in milliseconds: newest entries, witness, small tables, triggers, last verification.

        Writes nothing. Of the witness's disk it reports the outcome of the last write.

        Returns
        -------
        list of str
            What the owner may improve. None of this is a sign of a change.

        Raises
        ------
        LedgerError
            If there is a problem.
        """
        with self.reading() as transaction:
            transaction.require_tables()
            standing = transaction.standing
        self._watch.resume()
        if self._key_path.exists():
            # Without the key nothing is charged here.
            self.require_known()
        if self._witness.problem is not None:
            raise LedgerError(
                f"{self._witness.path}, which detects an old copy of the ledger, could not be written "
                f"({self._witness.problem}): make the file writable. Nothing is charged until then."
            )
        removed, newer = self._store.missing()
        if removed or (newer and standing.schema > 1):
            raise TamperedLedgerError(
                f"triggers {', '.join(sorted(removed | newer))} of the ledger were removed: run 'dpensemble ledger "
                "verify' with a checkpoint, then restore the triggers with 'dpensemble ledger protect'."
            )
        notes = []
        if newer:
            notes.append(
                "An earlier version made this ledger; 'dpensemble ledger protect' adds the triggers of this version."
            )
        if standing.moved_to is not None and self._store.file is not None:
            notes.append(f"This ledger is closed: it moved to {standing.moved_to}.")
        return notes

    def protect(self) -> None:
        """Create missing triggers, after verifying all entries and tables. PostgreSQL requires the owner for this."""
        self.verify()
        self._store.protect()

    def _verify_all(self) -> None:
        """Verify everything. Only a change counts as a problem, not an unavailable database."""
        with self._store.reading() as transaction:
            _verified(transaction)
