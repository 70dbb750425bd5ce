"""The entries of a ledger. Reading and adding begin with a check that nothing is missing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from dpensemble._checks import integer_between
from dpensemble._state_home import state_home
from dpensemble.errors import LedgerError, TamperedLedgerError
from dpensemble.ledger.chain import Entry, Fields
from dpensemble.ledger.group_commit import GroupCommit
from dpensemble.ledger.keys import SigningKey, checked
from dpensemble.ledger.names import now
from dpensemble.ledger.places import Places
from dpensemble.ledger.signed import SignedStanding
from dpensemble.ledger.standing import SCHEMAS, Standing
from dpensemble.ledger.store import Store
from dpensemble.ledger.tables import METADATA
from dpensemble.ledger.transaction import Transaction
from dpensemble.ledger.verify import Verified, require_tables, verified
from dpensemble.ledger.watch import Watch
from dpensemble.ledger.witness import Witness

Result = TypeVar("Result")
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
        self._places = Places(folder_of(witness))
        self._places.require(self._store, self.id)
        self._key: SigningKey | None = None
        self._key_path = Path(signing_key) if signing_key is not None else state_home() / f"{self.id}.key"
        where_witness = Path(witness) if witness is not None else state_home() / f"{self.id}.witness"
        self._witness = Witness(where_witness, self._store.place)
        self._commits = GroupCommit(self.writing, lambda: self._store.patience)
        self._signed = SignedStanding(folder_of(witness) / f"{self.id}.checkpoint", self.id, self.public_key)
        self._standing = Standing()
        self._watch: Watch = Watch(self._verify_all)

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
                verified(transaction)
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
                verified(transaction)
                transaction.append("moved", {"to": to, "time": now()})
        elif moved_to != to:
            raise LedgerError(f"the ledger in {self.place} moved to {moved_to} before: use the ledger there.")

    def copy_to(self, store: Store) -> None:
        """Copy every row into a database, in one transaction, and verify the copy before anybody can use it."""

        def fill(there: Transaction) -> None:
            with self.reading() as here:
                for table in METADATA.sorted_tables:
                    there.add_all(table, here.rows(table))
            verified(there)

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

    def together(self, work: Callable[[Transaction], Result], *, is_charged: bool = False) -> Result:
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

    def checkpoint(self) -> Fields:
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
        stands = {"ledger": self.id, "number": standing.number, "hash": standing.hash, "time": now()}
        return self.key.signed(stands | {"accounts": standing.to_dict()["accounts"]})

    def verify(self, checkpoints: Sequence[Fields] = ()) -> Verified:
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
        stated = [checked(one, self.public_key) for one in checkpoints]
        with self.reading() as transaction:
            for one in stated:
                entry = transaction.entry(integer_between("number", one.get("number"), 1, 2**62))
                if one.get("ledger") != self.id or entry is None or entry.hash != one.get("hash"):
                    raise TamperedLedgerError(
                        f"the ledger lacks entry {one['number']:,} of a signed checkpoint: it was cut off or "
                        "rewritten; restore the newest copy."
                    )
            return verified(transaction)

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
            require_tables(transaction)
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
            verified(transaction)


def folder_of(witness: str | Path | None) -> Path:
    """Return the folder of a ledger's files outside the database."""
    return state_home() if witness is None else Path(witness).absolute().parent
