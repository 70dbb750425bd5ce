"""The ledger: what was ever spent on a data set, and the refusal of what would be too much."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from dpensemble._checks import integer_between, member
from dpensemble.budget import Budget
from dpensemble.errors import LedgerError, TamperedLedgerError
from dpensemble.ledger.accounts import LedgerAccount
from dpensemble.ledger.chain import Entry, canonical
from dpensemble.ledger.filters import Filter, Terms
from dpensemble.ledger.keys import SigningKey, checked
from dpensemble.ledger.names import EVERYONE, check_name, now, require_new_name
from dpensemble.ledger.pieces import Pieces
from dpensemble.ledger.places import Places
from dpensemble.ledger.signed import SignedStanding
from dpensemble.ledger.standing import SCHEMAS, Standing
from dpensemble.ledger.store import Store, Transaction, accounts
from dpensemble.ledger.verify import Verified, require_tables, verified
from dpensemble.ledger.watch import Watch
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
    ReplacedLedgerError
        If another ledger was charged in this place before.
    TamperedLedgerError
        If the entries since the last signed checkpoint do not follow from each other.

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
        if first is None or first.kind != "ledger" or first.fields.get("schema") not in SCHEMAS:
            versions = " or ".join(map(str, SCHEMAS))
            raise LedgerError(
                f"{self._store.place} holds no ledger of version {versions}; use the release that made it."
            )
        #: Random name of this ledger, and the public key of its checkpoints.
        self.id: str = first.fields["id"]
        self.public_key: str = first.fields["public_key"]
        self._places = Places(_folder(witness))
        for place in self._store.identities:
            self._places.require(place, self.id)
        self._key: SigningKey | None = None
        self._key_path = Path(signing_key) if signing_key is not None else state_home() / f"{self.id}.key"
        self._witness = Witness(Path(witness) if witness is not None else state_home() / f"{self.id}.witness")
        self._pieces = Pieces(self.writing)
        self._signed = SignedStanding(_folder(witness) / f"{self.id}.checkpoint", self.id, self.public_key)
        self._standing = self._signed.load()
        self._watch = Watch(self._verify_all)
        is_signed = self._standing.number > 0
        with self.reading():
            pass
        if is_signed:
            # What the signature vouches for is read afterwards.
            self._watch.start()

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
        ReplacedLedgerError
            If a ledger was charged in this place before; see `forget`.
        """
        store, name = Store(where), str(uuid.uuid4())
        places = Places(_folder(witness))
        if store.exists():
            raise LedgerError(f"there is a ledger in {store.place} already; open it with Ledger(...).")
        for place in store.identities:
            places.require(place, None)
        key = SigningKey.made(Path(signing_key) if signing_key is not None else state_home() / f"{name}.key")
        store.create()
        with store.writing() as transaction:
            if transaction.last() is not None:
                raise LedgerError(f"there is a ledger in {store.place} already; open it with Ledger(...).")
            fields = {"id": name, "schema": SCHEMAS[-1], "public_key": key.public, "time": now()}
            entry = transaction.append("ledger", fields)
        Witness(Path(witness) if witness is not None else state_home() / f"{name}.witness").note(entry)
        for place in store.identities:
            places.remember(place, name)
        return cls(where, signing_key=signing_key, witness=witness)

    @staticmethod
    def forget(where: str | Path, ledger: str, *, witness: str | Path | None = None) -> None:
        """Give up the ledger of a place for good, so that another ledger can take the place.

        What was spent in the old ledger no longer counts. Do this only when nobody uses its data sets any more, or
        when their charges are in the other ledger.

        Parameters
        ----------
        where : str or path
            File or address.
        ledger : str
            Id of the ledger that was there; the error names the id.
        witness : path, optional
            As for the class.

        Raises
        ------
        LedgerError
            If another ledger, or none, is remembered there.
        """
        places = Places(_folder(witness))
        remembered = [place for place in Store(where).identities if places.ledger_in(place) == ledger]
        # When no place remembers the ledger, the first one says so.
        for place in remembered or Store(where).identities[:1]:
            places.forget(place, ledger)

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
        if self._key is None:
            key = SigningKey.read(self._key_path)
            if key.public != self.public_key:
                raise LedgerError(f"the signing key {self._key_path} is that of another ledger; name the right one.")
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
        """Add within the block, after a check that nothing is missing; witnessed when the block is left.

        Raises
        ------
        LedgerError
            If the signing key is not there, or is another ledger's.
        """
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
            # Another process charged since. It must have charged this ledger, and not a copy of the ledger.
            with self._store.reading() as later:
                self._witness.check(later)
        self._standing = transaction.standing
        self._signed.save(self._standing, key)

    def _follow(self, transaction: Transaction) -> None:
        """Check the entries that came since this process looked last."""
        self._witness.check(transaction)
        transaction.catch_up(self._standing)
        self._standing = transaction.standing

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
            Name of the data set, in ASCII, and not like a name that is there already. Whoever uses another name for the
            same records has one budget more: name them once.
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
            If the account is open already, or one is whose name differs only in case, normal form or look-alike
            letters.
        """
        terms = Terms(
            budget=Budget(epsilon=epsilon, delta=delta),
            filter=member("filter", filter, Filter),
            order=order,
            approximate=approximate,
            relation=member("relation", relation, Relation),
        )
        return self._open(check_name("data_set", data_set), terms)

    def open_group(self, data_set: str, whom: str, *, epsilon: float) -> NoReturn:
        """Refuse a separate account for a group; every run charges its largest loss to the account of the data set.

        A fit names its groups itself. The same records under other names would have another budget each time, unless
        the ledger knew which person is in which group.

        Parameters
        ----------
        data_set, whom : str
            Names of the data set and of the group.
        epsilon : float
            Budget of the group.

        Raises
        ------
        LedgerError
            Always.
        """
        raise LedgerError(
            f"whom={whom!r:.60} cannot have an account of its own in {data_set!r:.60}, because a later fit may name "
            f"the same people otherwise and epsilon={epsilon!r:.20} would be spent again; every run charges its "
            "largest loss to the account of the data set."
        )

    def _open(self, data_set: str, terms: Terms) -> LedgerAccount:
        with self.writing() as transaction:
            if (data_set, EVERYONE) in transaction.standing.accounts:
                raise LedgerError(f"the account of {data_set!r} is open already; its terms never change.")
            require_new_name("data_set", data_set, _data_sets(transaction.standing))
            fields = {"data_set": data_set, "whom": EVERYONE, "terms": terms.to_dict(), "time": now()}
            transaction.append("account", fields)
            transaction.add(accounts, data_set=data_set, whom=EVERYONE, terms=canonical(terms.to_dict()))
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
            names = _data_sets(transaction.standing)
            if data_set not in names:
                others = f"; there are {', '.join(map(repr, names))}" if names else ""
                raise LedgerError(f"data_set={data_set!r} has no account in {self.place}{others}; open it first.")
        return LedgerAccount(self, data_set)

    def accounts(self) -> list[LedgerAccount]:
        """Return the accounts of all data sets, by name."""
        with self.reading() as transaction:
            names = _data_sets(transaction.standing)
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
                    raise TamperedLedgerError(
                        f"the ledger lacks entry {one['number']:,} as a signed checkpoint has it: it was cut off, or "
                        "written anew."
                    )
            return verified(transaction)

    def check(self) -> list[str]:
        """Look for problems in milliseconds: newest entries, small tables, triggers, and the work in the background.

        Returns
        -------
        list of str
            What the owner may improve; nothing on it is a sign of a change.

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
                f"triggers {', '.join(sorted(removed | newer))} of the ledger were removed; check it by 'dpensemble "
                "ledger verify' with a checkpoint, then make the triggers by 'dpensemble ledger protect'."
            )
        if newer:
            return [
                "An earlier release made this ledger; 'dpensemble ledger protect' adds the triggers of this release."
            ]
        return []

    def protect(self) -> None:
        """Make the triggers that are missing, after all entries and tables were verified; PostgreSQL wants an owner."""
        self.verify()
        self._store.protect()

    def _verify_all(self) -> None:
        """Verify everything; of a problem only a change counts, and not that the database is away."""
        with self._store.reading() as transaction:
            verified(transaction)


def _folder(witness: str | Path | None) -> Path:
    """Return the folder of what is kept about a ledger outside the database."""
    return state_home() if witness is None else Path(witness).absolute().parent


def _data_sets(standing: Standing) -> list[str]:
    return sorted({data_set for data_set, _ in standing.accounts})
