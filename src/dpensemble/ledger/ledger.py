"""The ledger: what was ever spent on a data set, and the refusal of what would be too much."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from dpensemble._checks import integer_between, member
from dpensemble.budget import Budget
from dpensemble.errors import LedgerError
from dpensemble.ledger.accounts import LedgerAccount
from dpensemble.ledger.chain import Entry, canonical
from dpensemble.ledger.filters import Filter, Terms
from dpensemble.ledger.keys import SigningKey, checked
from dpensemble.ledger.names import EVERYONE, check_name, now
from dpensemble.ledger.pieces import Pieces
from dpensemble.ledger.store import SCHEMA, Store, Transaction, accounts
from dpensemble.ledger.verify import Verified, verified
from dpensemble.ledger.witness import Witness, state_home
from dpensemble.relations import Relation

Result = TypeVar("Result")


class Ledger:
    """A book of what was spent on data sets; it lasts, and only ever grows.

    Every release is charged in it before any noise is drawn, in one transaction that has reached the disk. Entries are
    chained by hashes. The newest entry is also kept in a file outside the database, the witness, so that an old copy
    that is put back is refused.

    Parameters
    ----------
    where : str or path
        A file (SQLite), or an address ``postgresql://user@host/name``; made by `create`.
    signing_key : path, optional
        Key file; by default in the user's state folder (``DPENSEMBLE_STATE``, else ``~/.local/state/dpensemble``).
    witness : path, optional
        Witness file; by default beside the key.

    Raises
    ------
    LedgerError
        If there is no ledger, it is of another version, or lacks what the witness has seen.

    Notes
    -----
    What may be spent is decided by a filter (`dpensemble.ledger.filters` has the theorems): releases may be chosen one
    after the other, each by the answers before it.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory(); os.environ["DPENSEMBLE_STATE"] = folder.name
    >>> ledger = Ledger.create(folder.name + "/ledger.db")
    >>> patients = ledger.open_account("patients", epsilon=3, delta=1e-5)
    >>> patients.charge_budget("a histogram", Budget(epsilon=0.5, delta=1e-9))
    >>> round(patients.state().share_left, 2), ledger.verify().entries
    (0.76, 3)
    >>> del os.environ["DPENSEMBLE_STATE"]; folder.cleanup()
    """

    def __init__(
        self, where: str | Path, *, signing_key: str | Path | None = None, witness: str | Path | None = None
    ) -> None:
        self._store = Store(where)
        if not self._store.exists():
            raise LedgerError(
                f"there is no ledger in {self._store.place}; make one with Ledger.create or 'dpensemble ledger create'."
            )
        with self._store.reading() as transaction:
            first = transaction.entry(1)
        if first is None or first.kind != "ledger" or first.fields.get("schema") != SCHEMA:
            raise LedgerError(f"{self._store.place} holds no ledger of version {SCHEMA}; use the release that made it.")
        #: Random name of this ledger, and the public key of its checkpoints.
        self.id: str = first.fields["id"]
        self.public_key: str = first.fields["public_key"]
        self._key_path = Path(signing_key) if signing_key is not None else state_home() / f"{self.id}.key"
        self._witness = Witness(Path(witness) if witness is not None else state_home() / f"{self.id}.witness")
        self._pieces = Pieces(self.writing)
        with self.reading():
            pass

    @classmethod
    def create(
        cls, where: str | Path, *, signing_key: str | Path | None = None, witness: str | Path | None = None
    ) -> Self:
        """Make a new, empty ledger, and its signing key.

        Parameters
        ----------
        where, signing_key, witness
            As for the class; the key must not exist yet.

        Raises
        ------
        LedgerError
            If there is a ledger already, or something cannot be written.
        """
        store, name = Store(where), str(uuid.uuid4())
        if store.exists():
            raise LedgerError(f"there is a ledger in {store.place} already; open it with Ledger(...).")
        key = SigningKey.made(Path(signing_key) if signing_key is not None else state_home() / f"{name}.key")
        store.create()
        with store.writing() as transaction:
            if transaction.last() is not None:
                raise LedgerError(f"there is a ledger in {store.place} already; open it with Ledger(...).")
            fields = {"id": name, "schema": SCHEMA, "public_key": key.public, "time": now()}
            entry = transaction.append("ledger", fields)
        Witness(Path(witness) if witness is not None else state_home() / f"{name}.witness").note(entry)
        return cls(where, signing_key=signing_key, witness=witness)

    @property
    def place(self) -> str:
        """Where the ledger is, without any password."""
        return self._store.place

    @property
    def key_path(self) -> Path:
        """Where the signing key is."""
        return self._key_path

    @property
    def witness_path(self) -> Path:
        """Where the newest entry is kept, to tell an old copy."""
        return self._witness.path

    @property
    def key(self) -> SigningKey:
        """The signing key."""
        found = SigningKey.read(self._key_path)
        if found.public != self.public_key:
            raise LedgerError(f"the signing key {self._key_path} is that of another ledger; name the right one.")
        return found

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Read within the block, after a check that nothing is missing."""
        with self._store.reading() as transaction:
            self._witness.check(transaction)
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Add within the block, after a check that nothing is missing; witnessed when the block is left."""
        with self._store.writing() as transaction:
            self._witness.check(transaction)
            before = transaction.last()
            yield transaction
            last = transaction.last()
        if last is not None and last != before:
            self._witness.note(last)

    def together(self, work: Callable[[Transaction], Result]) -> Result:
        """Do a piece of work in a transaction that it shares with those of other threads that wait at the same time.

        On the disk and witnessed when this returns, as with `writing`; a piece that is refused leaves the others alone.
        Many threads pay for few trips to the disk.

        Parameters
        ----------
        work : callable
            Takes the transaction; whatever it returns is returned.
        """
        return self._pieces.done(work)

    def kept_open(self) -> AbstractContextManager[None]:
        """Return a block within which many transactions are faster; not to be left open over a fork."""
        return self._store.kept_open()

    def open_account(
        self,
        data_set: str,
        *,
        epsilon: float,
        delta: float,
        filter: str = "renyi",
        order: float | None = None,
        approximate: float = 0.1,
        relation: str = "replace-one",
    ) -> LedgerAccount:
        """Open the account of a data set; its terms never change.

        Parameters
        ----------
        data_set : str
            Name of the data set. Whoever uses another name for the same records has one budget more: name them once.
        epsilon, delta : float
            Budget of everything that is ever released of it.
        filter : {"renyi", "gdp", "zcdp", "basic"}, default="renyi"
            How costs add up. ``"gdp"`` is for noisy sums (label moments, soft votes) alone, of which it admits most;
            ``"zcdp"`` needs no order; ``"basic"`` adds epsilons, and is for one or two releases.
        order : float, optional
            Renyi order of the filter; by default that at which Gaussian noise costs least.
        approximate : float, default=0.1
            Share of delta for releases of which no Renyi curve is known.
        relation : str, default="replace-one"
            Neighbouring relation of all releases; others are refused, because their losses do not add up.

        Raises
        ------
        LedgerError
            If the account is open already.
        """
        terms = Terms(
            budget=Budget(epsilon=epsilon, delta=delta),
            filter=member("filter", filter, Filter),
            order=order,
            approximate=approximate,
            relation=member("relation", relation, Relation),
        )
        return self._open(check_name("data_set", data_set), EVERYONE, terms)

    def open_group(self, data_set: str, whom: str, *, epsilon: float) -> LedgerAccount:
        """Open the account of a person or group in a data set, with an epsilon of its own; the rest is everyone's.

        What is charged to everyone is charged to each of them, too. Who is in which group is taken to be public.

        Parameters
        ----------
        data_set : str
            Name of the data set.
        whom : str
            Name of the group, as fits with budgets by group have it.
        epsilon : float
            Budget of everything that is ever released of its records.
        """
        terms = self.account(data_set).state().terms
        own = replace(terms, budget=Budget(epsilon=epsilon, delta=terms.budget.delta))
        return self._open(data_set, check_name("whom", whom), own)

    def _open(self, data_set: str, whom: str, terms: Terms) -> LedgerAccount:
        with self.writing() as transaction:
            if transaction.row(accounts, data_set=data_set, whom=whom) is not None:
                raise LedgerError(f"the account of {whom} in {data_set!r} is open already; its terms never change.")
            fields = {"data_set": data_set, "whom": whom, "terms": terms.to_dict(), "time": now()}
            transaction.append("account", fields)
            transaction.add(accounts, data_set=data_set, whom=whom, terms=canonical(terms.to_dict()))
        return LedgerAccount(self, data_set)

    def account(self, data_set: str) -> LedgerAccount:
        """Return the account of a data set.

        Raises
        ------
        LedgerError
            If it is not open.
        """
        check_name("data_set", data_set)
        with self.reading() as transaction:
            if transaction.row(accounts, data_set=data_set, whom=EVERYONE) is None:
                known = sorted({row.data_set for row in transaction.rows(accounts)})
                told = f"; there are {', '.join(map(repr, known))}" if known else ""
                raise LedgerError(f"data_set={data_set!r} has no account in {self.place}{told}; open it first.")
        return LedgerAccount(self, data_set)

    def accounts(self) -> list[LedgerAccount]:
        """Return the accounts of all data sets, by name."""
        with self.reading() as transaction:
            names = sorted({row.data_set for row in transaction.rows(accounts)})
        return [LedgerAccount(self, name) for name in names]

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
        """Return a signed statement of where the chain stands, to be kept elsewhere.

        Returns
        -------
        dict
            Plain values. Whoever has it can tell with `verify` that nothing before it was changed or cut off.
        """
        last = self.head()
        stands = {"ledger": self.id, "number": last.number, "hash": last.hash, "time": now()}
        return self.key.signed(stands)

    def verify(self, checkpoints: Sequence[dict[str, Any]] = ()) -> Verified:
        """Check every hash, every sum, and that the chain holds what checkpoints say.

        Parameters
        ----------
        checkpoints : sequence of dict, optional
            Signed statements that were kept elsewhere.

        Returns
        -------
        Verified
            Numbers of entries and of what they hold.

        Raises
        ------
        LedgerError
            If anything does not hold; the message says what, and where.
        """
        stated = [checked(one, self.public_key) for one in checkpoints]
        with self.reading() as transaction:
            for one in stated:
                entry = transaction.entry(integer_between("number", one.get("number"), 1, 2**62))
                if one.get("ledger") != self.id or entry is None or entry.hash != one.get("hash"):
                    raise LedgerError(
                        f"the ledger lacks entry {one['number']:,} as a signed checkpoint has it: it was cut off, or "
                        "written anew."
                    )
            return verified(transaction)
