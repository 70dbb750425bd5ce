"""The entries of a ledger. Reading and adding begin with a check that nothing is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from dpensemble._checks import integer_between
from dpensemble._state_home import state_home
from dpensemble.errors import LedgerError, TamperedLedgerError
from dpensemble.ledger.chain import Entry
from dpensemble.ledger.group_commit import GroupCommit
from dpensemble.ledger.keys import SigningKey, checked
from dpensemble.ledger.names import now
from dpensemble.ledger.places import Places
from dpensemble.ledger.signed import SignedStanding
from dpensemble.ledger.standing import SCHEMAS
from dpensemble.ledger.store import Store
from dpensemble.ledger.transaction import Transaction
from dpensemble.ledger.verify import Verified, require_tables, verified
from dpensemble.ledger.watch import Watch
from dpensemble.ledger.witness import Witness

Result = TypeVar("Result")


class EntryLog:
    """The entries of a ledger in a database, the witness of the newest entry, and the signing key.

    `Ledger` describes the parameters.
    """

    def __init__(
        self, where: str | Path, *, signing_key: str | Path | None = None, witness: str | Path | None = None
    ) -> None:
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
        for place in self._store.identities:
            self._places.require(place, self.id)
        self._key: SigningKey | None = None
        self._key_path = Path(signing_key) if signing_key is not None else state_home() / f"{self.id}.key"
        self._witness = Witness(Path(witness) if witness is not None else state_home() / f"{self.id}.witness")
        self._commits = GroupCommit(self.writing, lambda: self._store.patience)
        self._signed = SignedStanding(folder_of(witness) / f"{self.id}.checkpoint", self.id, self.public_key)
        self._standing = self._signed.load()
        self._watch = Watch(self._verify_all)
        is_signed = self._standing.number > 0
        with self.reading():
            pass
        if is_signed:
            # What the signature covers is read afterwards.
            self._watch.start()

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
        """Add within the block, after a check that nothing is missing. The new entries are witnessed at the end."""
        self._watch.require()
        key = self.key
        for place in self._store.identities:
            self._places.remember(place, self.id)
        with self._store.writing() as transaction:
            self._follow(transaction)
            before = transaction.last()
            yield transaction
            last = transaction.last()
        if last is not None and last != before and not self._witness.note(last):
            # Another process charged meanwhile. It must have charged this ledger, and not a copy of the ledger.
            with self._store.reading() as later:
                self._witness.check(later)
        self._standing = transaction.standing
        self._signed.save(self._standing, key)

    def _follow(self, transaction: Transaction) -> None:
        """Check the entries that are new since this process's last check."""
        # Known before the snapshot begins. Another thread may learn of later entries, which the snapshot lacks.
        known = self._standing
        self._witness.check(transaction)
        transaction.catch_up(known)
        self._standing = transaction.standing

    def together(self, work: Callable[[Transaction], Result], *, is_charged: bool = False) -> Result:
        """Run `work` in a transaction that it shares with the simultaneous work of other threads.

        When this returns, the work is on the disk and witnessed, as with `writing`. If the work raises, the work of
        others is not affected. Many threads need few writes to the disk. Work of a request that `is_charged` waits for
        the ledger's lock until the end of `kept_open`, so that no deadline lies between a charge and its answer.
        """
        return self._commits.run(work, lambda: is_charged and self._store.is_kept_open)

    def kept_open(self, *patience: float) -> AbstractContextManager[None]:
        """Return a block within which many transactions are faster. Do not fork within the block.

        With `patience`, transactions in the block wait that many seconds for locks of others, and not a minute.
        """
        return self._store.kept_open(*patience)

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first."""
        with self.reading() as transaction:
            return list(transaction.all_entries())

    def head(self) -> Entry:
        """Return the newest entry."""
        with self.reading() as transaction:
            last = transaction.last()
        assert last is not None  # noqa: S101
        return last

    def checkpoint(self) -> dict[str, Any]:
        """Return a signed statement about the newest entry, to be stored elsewhere.

        Returns
        -------
        dict
            Plain values. With it, `verify` can show that nothing before it was changed or cut off.
        """
        last = self.head()
        stands = {"ledger": self.id, "number": last.number, "hash": last.hash, "time": now()}
        return self.key.signed(stands)

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
        """Look for problems in milliseconds: newest entries, small tables, triggers, and the background verification.

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
            schema = transaction.standing.schema
        self._watch.resume()
        removed, newer = self._store.missing()
        if removed or (newer and schema > 1):
            raise TamperedLedgerError(
                f"triggers {', '.join(sorted(removed | newer))} of the ledger were removed: run 'dpensemble ledger "
                "verify' with a checkpoint, then restore the triggers with 'dpensemble ledger protect'."
            )
        if newer:
            return [
                "An earlier version made this ledger; 'dpensemble ledger protect' adds the triggers of this version."
            ]
        return []

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
