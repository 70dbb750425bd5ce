"""The ledger: all spending on data sets, the refusal of releases that exceed a budget, and restored copies.

A copy of a ledger does not know what was charged after it. A signed checkpoint that is newer than the copy states what
every account had spent, so that much is charged exactly. What came later is known to nobody but the owner. By default
all that is left of every account is charged, which is at least as much. Otherwise the owner states the later releases,
and the statement stands in the chain.

Grants that are open in the copy were charged as a whole, so they take nothing more. They are closed, because a lost
answer that was drawn again would be a second release under one charge.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Self

from dpensemble._checks import integer_between
from dpensemble._files import state_home
from dpensemble._spending import Spending
from dpensemble.errors import LedgerError, TamperedLedgerError
from dpensemble.server.account import LedgerAccount
from dpensemble.server.entries import (
    EVERYONE,
    SCHEMAS,
    AccountStanding,
    Standing,
    Transaction,
    check_name,
    require_new_name,
)
from dpensemble.server.entry_log import EntryLog
from dpensemble.server.filters import Amount, Terms
from dpensemble.server.store import Store
from dpensemble.server.witness import KnownLedgers, SigningKey, Witness

_UP_TO, _REST = "charges up to checkpoint {:,}, whose entries are lost", "all that was left, after a restore"

# What stands in the place of a checkpoint if there is none.
_NONE: dict[str, Any] = {"number": 0, "hash": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRelease:
    """A release after the copy of a ledger, as the owner states it.

    Parameters
    ----------
    data_set : str or None
        Name of its data set, or None in a ledger of one data set.
    what : str
        A short public description.
    epsilon, delta : float
        Its budget.
    """

    data_set: str | None
    what: str
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Outcome of a restore.

    Parameters
    ----------
    ledger : str
        Its id.
    entries : int
        Number of entries of the copy.
    checkpoint : int
        Number of the newest checkpoint, or 0 without any.
    is_newer : bool
        Whether the checkpoint states more than the copy.
    spends_rest : bool
        Whether all that was left of every account is charged.
    charged : list of str
        Data sets and what they were charged for.
    closed : list of str
        Grants that are closed.
    """

    ledger: str
    entries: int
    checkpoint: int
    is_newer: bool
    spends_rest: bool
    charged: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def sentences(self, *, joins: bool, stated: Sequence[StatedRelease]) -> list[str]:
        """Return what the owner should know, given what the owner stated."""
        if joins:
            return [f"This machine charges ledger {self.ledger} from entry {self.entries:,} on, beside others."]
        lines = [f"Ledger {self.ledger} goes on from entry {self.entries:,}, the newest of this copy."]
        if not self.checkpoint:
            lines.append("No checkpoint was given, so accounts that were opened after this copy are unknown.")
        elif not self.is_newer:
            lines.append(
                f"The checkpoint (entry {self.checkpoint:,}) is not newer than the copy. A checkpoint out of the same "
                "back-up proves nothing about later answers."
            )
        lines += [f"Charged: {one}." for one in self.charged]
        if self.spends_rest:
            after = "checkpoint" if self.checkpoint else "copy"
            lines.append(f"Nobody knows what was released after the {after}, so no account has anything left.")
        else:
            words = ", ".join(one.what for one in stated) or "nothing"
            lines.append(f"Stated in the ledger: after the checkpoint {words} was released.")
        if self.closed:
            lines.append(f"Closed: {', '.join(self.closed)}. Stored answers can still be requested.")
        return lines


class _Restoring:
    """Charges a restored copy of a ledger within a transaction."""

    def __init__(self, ledger: EntryLog, transaction: Transaction) -> None:
        self._ledger, self._transaction = ledger, transaction
        self._entries = transaction.standing.number
        self._charged: list[str] = []

    def run(
        self,
        checkpoints: Sequence[dict[str, Any]],
        released: Sequence[StatedRelease] | None,
        *,
        joins: bool,
        seen: int = 0,
    ) -> Restored:
        """Charge what is lost and write the statement, or raise. Without `released` the rest is charged.

        `seen` is the number of the newest entry that this machine's witness has seen.
        """
        if not checkpoints and (joins or released is not None):
            raise LedgerError(
                "checkpoint is missing: give the newest one that was stored away from the ledger. Without any, "
                "state no releases, so that all that is left is charged."
            )
        newer = [one for one in checkpoints if self._is_newer(one)]
        newest = max([_NONE, *checkpoints], key=lambda one: int(one["number"]))
        spent = [_spent(one) for one in newer]
        known = max(self._entries, int(newest["number"]))
        if released is not None and not released and seen > known:
            raise LedgerError(
                f"nothing_released cannot hold: this machine has seen entry {seen:,} of the ledger, and the copy and "
                f"the checkpoints end at entry {known:,}; restore the newest copy, state the releases, or leave it "
                "out, so that all that is left is charged."
            )
        if joins and newer:
            raise LedgerError(
                f"joins=True is for a ledger that lacks nothing, but this one lacks entry {newest['number']:,} of a "
                "checkpoint: it is a copy; leave joins out."
            )
        if released is not None and any(one is None for one in spent):
            raise LedgerError(
                f"checkpoint {newest['number']:,} was made by an earlier version and does not state what accounts had "
                "spent: state no releases, so that all that is left is charged."
            )
        grants = self._transaction.standing.grants
        closed = [] if joins else [name for (_, name), one in grants.items() if not one.is_closed]
        self._transaction.append("restored", self._statement(newest, released, joins=joins))
        for one in spent:
            self._charge_up_to(one or {}, int(newest["number"]))
        if not joins:
            self._charge_rest() if released is None else self._charge_stated(released)
        return Restored(
            ledger=self._ledger.id,
            entries=self._entries,
            checkpoint=int(newest["number"]),
            is_newer=bool(newer),
            spends_rest=released is None and not joins,
            charged=self._charged,
            closed=sorted(closed),
        )

    def _is_newer(self, checkpoint: dict[str, Any]) -> bool:
        """Return whether a checkpoint states more than the copy. Raise if the copy contradicts the checkpoint."""
        number = integer_between("number", checkpoint.get("number"), 1, 2**62)
        entry = self._transaction.entry(number)
        if checkpoint.get("ledger") != self._ledger.id or (
            number <= self._entries and (entry is None or entry.hash != checkpoint.get("hash"))
        ):
            raise TamperedLedgerError(
                f"the ledger lacks entry {number:,} of a signed checkpoint, although it has more entries: it was "
                "rewritten, or it is the copy of another branch; restore the newest copy."
            )
        return number > self._entries

    def _statement(
        self, newest: dict[str, Any], released: Sequence[StatedRelease] | None, *, joins: bool
    ) -> dict[str, Any]:
        """Return the entry: what the copy was, and what the owner states about later releases."""
        stated: object = "all that was left of every account"
        if joins:
            stated = "another machine charges this ledger, which was not restored"
        elif released is not None:
            stated = [asdict(one) | {"epsilon": str(one.epsilon), "delta": str(one.delta)} for one in released]
        return {
            "checkpoint": {"number": newest["number"], "hash": newest["hash"]},
            "copy": self._entries,
            "closes": not joins,
            "released": stated,
        }

    def _charge_up_to(self, spent: Mapping[tuple[str, str], AccountStanding], number: int) -> None:
        """Open accounts that the copy lacks, and charge what the checkpoint states beyond the copy."""
        for (data_set, whom), stated in spent.items():
            there = self._transaction.standing.accounts.get((data_set, whom))
            if there is None:
                terms = json.loads(stated.terms)
                self._transaction.append("account", {"data_set": data_set, "whom": whom, "terms": terms})
                there = AccountStanding(stated.terms)
            elif there.terms != stated.terms:
                raise TamperedLedgerError(
                    f"the account of {data_set!r} has other terms than in a signed checkpoint: restore another copy."
                )
            missing = Amount(
                max(0, stated.spent.loss - there.spent.loss), max(0, stated.spent.delta - there.spent.delta)
            )
            self._charge(data_set, missing, _UP_TO.format(number), whom=whom)

    def _charge_rest(self) -> None:
        for data_set in self._data_sets():
            self._charge(data_set, self._left(data_set), _REST)

    def _charge_stated(self, released: Sequence[StatedRelease]) -> None:
        for one in released:
            names = self._data_sets()
            data_set = names[0] if one.data_set is None and len(names) == 1 else one.data_set
            if data_set is None or data_set not in names:
                raise LedgerError(
                    f"data_set={one.data_set!r:.60} is none of the ledger's data sets for {one.what!r:.60}: name one "
                    f"of {', '.join(map(repr, names))}."
                )
            amount = left = self._left(data_set)
            if math.isfinite(one.epsilon) and math.isfinite(one.delta):
                terms = self._account(data_set).everyone(self._transaction).terms
                price = terms.price(Spending(name=EVERYONE, epsilon=one.epsilon, delta=one.delta))
                # The release happened, whether it fits or not. Nothing is left if it does not fit.
                amount = price if price.within(left) else left
            self._charge(data_set, amount, one.what)

    def _charge(self, data_set: str, amount: Amount, what: str, whom: str = EVERYONE) -> None:
        if amount != Amount():
            self._account(data_set).add_charge(self._transaction, amount, {"what": what, "restored": True}, whom)
            self._charged.append(f"{data_set}: {what}")

    def _left(self, data_set: str) -> Amount:
        return self._account(data_set).everyone(self._transaction).left

    def _account(self, data_set: str) -> LedgerAccount:
        return LedgerAccount(self._ledger, data_set)

    def _data_sets(self) -> list[str]:
        return sorted({data_set for data_set, _ in self._transaction.standing.accounts})


def _spent(checkpoint: dict[str, Any]) -> dict[tuple[str, str], AccountStanding] | None:
    """Return what every account had spent by a checkpoint, or None if an earlier version made the checkpoint."""
    # The checkpoint that the ledger writes for itself holds the whole standing.
    rows = checkpoint.get("accounts", checkpoint.get("standing", {}).get("accounts"))
    if rows is None:
        return None
    return {
        (data_set, whom): AccountStanding(terms, Amount(loss, delta), number)
        for data_set, whom, terms, loss, delta, number in rows
    }


class Ledger(EntryLog):
    """A permanent record of spending on data sets, which only grows.

    Every release is charged before any noise is drawn, in one transaction that has reached the disk. Entries are
    chained by hashes. The newest entry is also stored in a file outside the database, the witness. So an old copy
    of the ledger is refused.

    Parameters
    ----------
    where : str or path
        A file (SQLite), or an address ``postgresql://user@host/name``. `create` makes the ledger.
    signing_key : path, optional
        Key file. By default in the user's state folder (``DPENSEMBLE_STATE``, else ``~/.local/state/dpensemble``).
    witness : path, optional
        Witness file. By default beside the key.

    Raises
    ------
    LedgerError
        If the ledger is missing, has another version, or lacks an entry of the witness.
    ReplacedLedgerError
        If another ledger was charged in this place before.
    TamperedLedgerError
        If the entries since the last signed checkpoint do not follow from each other.

    Notes
    -----
    A filter decides what may be spent (`dpensemble.server.filters` has the theorems): releases may be chosen one
    after the other, depending on earlier answers.

    Examples
    --------
    >>> import os, tempfile
    >>> from dpensemble import Budget
    >>> folder = tempfile.TemporaryDirectory(); os.environ["DPENSEMBLE_STATE"] = folder.name
    >>> ledger = Ledger.create(folder.name + "/ledger.db")
    >>> patients = ledger.open_account("patients", epsilon=3, delta=1e-5)
    >>> patients.charge_budget("a histogram", Budget(epsilon=0.5, delta=1e-9))
    >>> round(patients.state().share_left, 2), ledger.verify().entries
    (0.76, 3)
    >>> del os.environ["DPENSEMBLE_STATE"]; folder.cleanup()
    """

    @classmethod
    def create(
        cls, where: str | Path, *, signing_key: str | Path | None = None, witness: str | Path | None = None
    ) -> Self:
        """Create a new, empty ledger and its signing key.

        Parameters
        ----------
        where, signing_key, witness
            As for the class. The key must not exist yet.

        Raises
        ------
        LedgerError
            If there already is a ledger, or if a file cannot be written.
        ReplacedLedgerError
            If a ledger was charged in this place before. See `forget`.
        """
        store, name = Store(where), str(uuid.uuid4())
        places = KnownLedgers(witness)
        if store.exists():
            raise _present(store)
        places.require_fresh(store)
        key = SigningKey.made(Path(signing_key) if signing_key is not None else state_home() / f"{name}.key")
        seen = Witness(Path(witness) if witness is not None else state_home() / f"{name}.witness")

        def begin(transaction: Transaction) -> None:
            if transaction.last() is not None:
                raise _present(store)
            fields = {"id": name, "schema": SCHEMAS[-1], "public_key": key.public}
            # A witness without a ledger harms nobody, but a ledger without its witness could not be charged.
            seen.begin(transaction.append("ledger", fields))

        with seen.locked():
            store.create(begin)
        places.remember(store, name)
        return cls(where, signing_key=signing_key, witness=witness)

    @staticmethod
    def forget(where: str | Path, ledger: str, *, witness: str | Path | None = None) -> None:
        """Give up the ledger of a place for good, so that another ledger can take the place.

        Spending in the old ledger no longer counts. Do this only if nobody uses its data sets any more, or
        if the other ledger contains their charges.

        Parameters
        ----------
        where : str or path
            File or address.
        ledger : str
            Id of the earlier ledger, which the error message contains.
        witness : path, optional
            As for the class.

        Raises
        ------
        LedgerError
            If another ledger, or none, is remembered for this place.
        """
        KnownLedgers(witness).forget(Store(where), ledger)

    @classmethod
    def restored(
        cls,
        where: str | Path,
        checkpoints: Sequence[dict[str, Any]],
        *,
        released: Sequence[StatedRelease] | None = None,
        joins: bool = False,
        signing_key: str | Path | None = None,
        witness: str | Path | None = None,
    ) -> Restored:
        """Let a restored copy of a ledger be charged again, after a charge for what was released since the copy.

        Charges up to the newest checkpoint are restored exactly. What came later is unknown. By default all that is
        left of every account is charged. Open grants are closed. If this is interrupted, do it again: the releases that
        `released` states may be charged twice then, and never less.

        Parameters
        ----------
        where, signing_key, witness
            As for the class.
        checkpoints : sequence of dict
            Signed statements of `checkpoint` that were stored elsewhere. One out of the same back-up proves nothing
            about later releases. Without any, no releases can be stated.
        released : sequence of StatedRelease, optional
            Every release after the newest checkpoint, which may be none. Only these are charged then. The statement
            stands in the ledger.
        joins : bool, default=False
            State instead that nothing was restored: another machine charges this PostgreSQL ledger already, and this
            machine joins. Nothing is charged, and no grant is closed.

        Returns
        -------
        Restored
            What was charged and closed.

        Raises
        ------
        LedgerError
            If this machine knows the ledger already, or a checkpoint is missing or of another ledger.
        TamperedLedgerError
            If the copy contradicts a checkpoint, or does not follow from its entries.

        Examples
        --------
        >>> import os, tempfile
        >>> folder = tempfile.TemporaryDirectory(); os.environ["DPENSEMBLE_STATE"] = folder.name
        >>> ledger = Ledger.create(folder.name + "/ledger.db")
        >>> patients = ledger.open_account("patients", epsilon=3, delta=1e-5)
        >>> checkpoint = ledger.checkpoint()
        >>> ledger.witness_path.unlink()  # as on a new machine
        >>> Ledger.restored(folder.name + "/ledger.db", [checkpoint]).spends_rest
        True
        >>> patients.state().share_left
        0.0
        >>> del os.environ["DPENSEMBLE_STATE"]; folder.cleanup()
        """
        ledger = cls.__new__(cls)
        ledger._locate(where, signing_key, witness)
        stated = [ledger._signed.checked(one) for one in checkpoints]
        if joins and (released is not None or ledger._store.file is not None):
            raise LedgerError(
                "joins=True is for a ledger in PostgreSQL that another machine charges, and states no releases: leave "
                "it out."
            )
        with ledger.restoring() as transaction:
            return _Restoring(ledger, transaction).run(stated, released, joins=joins, seen=ledger.last_seen())

    @classmethod
    def moved(
        cls,
        where: str | Path,
        to: str,
        *,
        signing_key: str | Path | None = None,
        witness: str | Path | None = None,
    ) -> Self:
        """Move a ledger from a file to PostgreSQL. The last entry closes the file, so that both can never be charged.

        The ledger keeps its id, key, witness, checkpoints and entries. If this is interrupted, do it again: the file is
        closed then, and the rest follows.

        Parameters
        ----------
        where, signing_key, witness
            As for the class. The ledger in a file.
        to : str
            Address of the database, ``postgresql://user@host/name``, as the owner of the tables.

        Returns
        -------
        Ledger
            The ledger in PostgreSQL.

        Raises
        ------
        LedgerError
            If there is another ledger in the database, or the file moved elsewhere.
        """
        old, store = cls(where, signing_key=signing_key, witness=witness), Store(to)
        if old._store.file is None or store.file is not None:
            raise LedgerError(f"a ledger moves from a file to PostgreSQL, not from {old.place} to {store.place}.")
        old.close_for(store)
        if not store.exists():
            old.copy_to(store)
        old._places.remember(store, old.id)
        return cls(to, signing_key=signing_key, witness=witness)

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
        """Open the account of a data set. Its terms never change.

        Parameters
        ----------
        data_set : str
            Name of the data set, in ASCII, and not to be confused with an existing name. Using another name for the
            same records gives them a second budget, so name them only once.
        epsilon, delta : float
            Budget of all releases of the data set, now and later.
        filter : {"renyi", "gdp", "zcdp", "basic"}, default="renyi"
            How costs add up. ``"gdp"`` is only for noisy sums (label moments, soft votes), and admits most of them.
            ``"zcdp"`` needs no order. ``"basic"`` adds epsilons, for one or two releases.
        order : float, optional
            Renyi order of the filter. By default the order at which Gaussian noise costs least.
        approximate : float, default=0.1
            Share of delta for releases without a known Renyi curve.
        relation : str, default="replace-one"
            Neighbouring relation of all releases. Others are refused, because their losses do not add up.

        Raises
        ------
        LedgerError
            If the account is already open, or an account has a name that differs only in case, normal form or
            look-alike letters.
        """
        fields = {"epsilon": epsilon, "delta": delta, "filter": filter, "order": order, "approximate": approximate}
        terms = Terms.from_dict(fields | {"relation": relation})
        return self._open(check_name("data_set", data_set), terms)

    def open_group(self, data_set: str, whom: str, *, epsilon: float) -> NoReturn:
        """Raise, because every run charges its largest loss to the account of the data set, not to groups.

        Each fit names its groups itself. With separate accounts, the same records under other names would have another
        budget each time, unless the ledger knew which person is in which group.

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
            f"whom={whom!r:.60} cannot have a separate account in {data_set!r:.60}, because a later fit may name "
            f"the same people otherwise and spend epsilon={epsilon!r:.20} again; every run charges its "
            "largest loss to the account of the data set."
        )

    def _open(self, data_set: str, terms: Terms) -> LedgerAccount:
        with self.writing() as transaction:
            if (data_set, EVERYONE) in transaction.standing.accounts:
                raise LedgerError(
                    f"the account of {data_set!r} is already open; its terms never change, so use Ledger.account."
                )
            require_new_name("data_set", data_set, _data_sets(transaction.standing))
            fields = {"data_set": data_set, "whom": EVERYONE, "terms": terms.to_dict()}
            transaction.append("account", fields)
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
                raise LedgerError(f"data_set={data_set!r} has no account in {self.place}{others}: open it first.")
        return LedgerAccount(self, data_set)

    def accounts(self) -> list[LedgerAccount]:
        """Return the accounts of all data sets, by name."""
        with self.reading() as transaction:
            names = _data_sets(transaction.standing)
        return [LedgerAccount(self, name) for name in names]


def _present(store: Store) -> LedgerError:
    return LedgerError(f"there is a ledger in {store.place} already: open it with Ledger(...).")


def _data_sets(standing: Standing) -> list[str]:
    return sorted({data_set for data_set, _ in standing.accounts})
