"""Entries of a ledger, chained by hashes, balances that follow from the entries, and transactions that add entries.

Each entry contains the hash of the previous one, so that no change, removal or insertion goes unnoticed. The balances
decide what may be charged. The other tables of the database only help to find rows. A new name of an account or a grant
must not look like another one.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, NoReturn

import sqlalchemy as sa

from dpensemble.errors import InvalidParameterError, LedgerError, TamperedLedgerError
from dpensemble.server.filters import TOO_MUCH, Amount, Terms

#: The account that every record of a data set shares.
EVERYONE = "everyone"
_LONGEST = 200
# Only earlier versions accepted names with such letters.
_FOREIGN = str.maketrans(
    "асеорхуіјѕһԁԛԝӏАВСЕНІЈКМОРЅТХУӀαινορυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧßıłøđ",
    "aceopxyijshdqwlABCEHIJKMOPSTXYlaivopuxABEZHIKMNOPTYXBilod",
)
_DRAWN_ALIKE = str.maketrans("0I1|", "olll")


def check_name(parameter: str, name: object) -> str:
    """Return a name if it is a printable text that is not too long."""
    if isinstance(name, str) and 0 < len(name) <= _LONGEST and name.isprintable() and name == name.strip():
        return name
    raise InvalidParameterError(
        f"{parameter}={name!r:.60} is not a printable text of 1 to {_LONGEST} characters without blanks around it.",
        parameter=parameter,
    )


def require_new_name(parameter: str, name: str, others: Iterable[str]) -> None:
    """Raise for a new name that people could confuse with another one, which has a separate budget.

    Names that are in a ledger already stay valid, however they look.
    """
    if not name.isascii():
        raise InvalidParameterError(
            f"{parameter}={name!a:.60} is new and contains more than ASCII, although letters of other scripts look "
            "alike: use the letters a to z, digits, blanks and punctuation.",
            parameter=parameter,
        )
    other = look_alike(name, others)
    if other is not None:
        raise LedgerError(
            f"{parameter}={name!r:.60} looks like {other!a:.60}, which exists and has a separate budget: use "
            "that name, or one that cannot be confused with it."
        )


def look_alike(name: str, others: Iterable[str]) -> str | None:
    """Return the first of other names that differs only in case, normal form or look-alike letters, or None."""
    own = _looks(name)
    return next((one for one in others if one != name and not own.isdisjoint(_looks(one))), None)


def _now() -> str:
    """Return date and time, for people. Nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _looks(name: str) -> set[str]:
    """Return the appearance of a name, in letters of either case alike and as they are drawn."""
    parts = unicodedata.normalize("NFKD", name).translate(_FOREIGN)
    plain = "".join(one for one in parts if not unicodedata.combining(one))
    # Blanks of several kinds or widths, and invisible characters.
    words = " ".join("".join(one for one in plain if one.isprintable()).split())
    return {words.casefold(), words.translate(_DRAWN_ALIKE).casefold().replace("rn", "m")}


#: Plain values of an entry or of a signed statement.
_Fields = dict[str, Any]
#: Previous hash of the first entry.
_START = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: a number, a kind, a text, the hash of the previous entry and its own hash."""

    number: int
    kind: str
    body: str
    previous: str
    hash: str

    @property
    def fields(self) -> _Fields:
        """The content of the text."""
        fields: _Fields = json.loads(self.body)
        return fields

    def holds(self) -> bool:
        """Return whether the entry's hash matches its content."""
        return self.hash == _entry_hash(self.number, self.kind, self.body, self.previous)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values."""
        return {
            "number": self.number,
            "kind": self.kind,
            "body": self.fields,
            "previous": self.previous,
            "hash": self.hash,
        }


def _following(last: Entry | None, kind: str, fields: _Fields) -> Entry:
    """Return the next entry."""
    number, previous = (1, _START) if last is None else (last.number + 1, last.hash)
    body = canonical(fields)
    return Entry(number, kind, body, previous, _entry_hash(number, kind, body, previous))


def canonical(fields: _Fields) -> str:
    """Return plain values as a text. Equal values give equal texts."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _entry_hash(number: int, kind: str, body: str, previous: str) -> str:
    """Return the SHA-256 of an entry. Lengths separate its parts."""
    parts = [str(number), kind, body, previous]
    text = "".join(f"{len(part.encode())}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()


#: Versions of entries that can be read. New ledgers have the last one, in which charges state their running totals.
SCHEMAS = (1, 2)

#: A data set, and a person, a group or a grant in it.
_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AccountStanding:
    """Terms of an account as canonical text, the sum of its charges, and their number."""

    terms: str
    spent: Amount = field(default_factory=Amount)
    charges: int = 0


@dataclass(frozen=True, slots=True)
class GrantStanding:
    """Settings of a grant as canonical text, the number of paid answers, and the number of taken answers.

    A closed grant repeats the answers that are stored, and draws no others.
    """

    settings: str
    answers: int
    used: int = 0
    is_closed: bool = False

    def has_settings(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the grant was charged with these settings."""
        return self.settings == canonical(dict(settings))


@dataclass(frozen=True, slots=True)
class Standing:
    """A ledger after an entry: the entry's number (0 before the first) and hash, and the version of the entries.

    Accounts are by data set and person or group, grants by data set and name. A ledger that was moved from a file to
    PostgreSQL states where to.
    """

    number: int = 0
    hash: str = _START
    schema: int = 0
    accounts: Mapping[_Name, AccountStanding] = field(default_factory=dict)
    grants: Mapping[_Name, GrantStanding] = field(default_factory=dict)
    moved_to: str | None = None

    def after(self, entry: Entry) -> Standing:
        """Return the standing after the next entry.

        Raises `TamperedLedgerError` if the entry does not follow, or if no version of the library writes such an entry.
        """
        if entry.number != self.number + 1 or entry.previous != self.hash or not entry.holds():
            _refuse(self.number + 1, "was changed, removed or inserted")
        if entry.kind not in _STEPS or (entry.kind == "ledger") != (entry.number == 1):
            _refuse(entry.number, "has a kind that does not belong there")
        try:
            changed = _STEPS[entry.kind](self, entry.fields)
        except (KeyError, TypeError, ValueError):
            _refuse(entry.number, "does not follow from the entries before")
        return replace(changed, number=entry.number, hash=entry.hash)

    def stated(self, ledger: str) -> _Fields:
        """Return what a checkpoint states of a ledger: its newest entry, and the time."""
        return {"ledger": ledger, "number": self.number, "hash": self.hash, "time": _now()}

    def to_dict(self) -> _Fields:
        """Return plain values, for a signed checkpoint."""
        return {
            "number": self.number,
            "hash": self.hash,
            "schema": self.schema,
            "accounts": [
                [*name, one.terms, one.spent.loss, one.spent.delta, one.charges] for name, one in self.accounts.items()
            ],
            "grants": [
                [*name, one.settings, one.answers, one.used, one.is_closed] for name, one in self.grants.items()
            ],
            "moved_to": self.moved_to,
        }

    @classmethod
    def from_dict(cls, fields: _Fields) -> Standing:
        """Return the standing from the values of `to_dict`."""
        return cls(
            number=fields["number"],
            hash=fields["hash"],
            schema=fields["schema"],
            accounts={
                (data_set, whom): AccountStanding(terms, Amount(loss, delta), number)
                for data_set, whom, terms, loss, delta, number in fields["accounts"]
            },
            grants={
                # Earlier versions closed no grants.
                (data_set, name): GrantStanding(settings, answers, used, *is_closed)
                for data_set, name, settings, answers, used, *is_closed in fields["grants"]
            },
            moved_to=fields.get("moved_to"),
        )


def _follow(standing: Standing, entries: Iterable[Entry]) -> Standing:
    """Return the standing after further entries."""
    for entry in entries:
        standing = standing.after(entry)
    return standing


def _refuse(number: int, why: str) -> NoReturn:
    raise TamperedLedgerError(
        f"entry {number:,} of the ledger {why}: restore the newest copy, or find out who changed it. Nothing is "
        "charged until then."
    )


def _first(_before: Standing, fields: _Fields) -> Standing:
    if fields["schema"] not in SCHEMAS:
        raise ValueError
    return Standing(schema=fields["schema"])


def _account(before: Standing, fields: _Fields) -> Standing:
    name = (_text(fields["data_set"]), _text(fields["whom"]))
    if name in before.accounts or (name[1] != EVERYONE and (name[0], EVERYONE) not in before.accounts):
        raise ValueError
    # Raises if no account has such terms.
    Terms.from_dict(fields["terms"])
    return replace(before, accounts={**before.accounts, name: AccountStanding(canonical(fields["terms"]))})


def _grant(before: Standing, fields: _Fields) -> Standing:
    data_set, accounts = _text(fields["data_set"]), dict(before.accounts)
    totals = {}
    for charge in fields["charges"]:
        whom = _text(charge["whom"])
        account = accounts[data_set, whom]
        spent = account.spent + Amount(_count(charge["loss"]), _count(charge["delta"]))
        accounts[data_set, whom] = replace(account, spent=spent, charges=account.charges + 1)
        totals[whom] = {"whom": whom, "loss": spent.loss, "delta": spent.delta}
    if len(totals) != len(fields["charges"]):
        raise ValueError
    if ("totals" in fields or before.schema > 1) and fields["totals"] != list(totals.values()):
        raise ValueError
    return replace(before, accounts=accounts, grants=_with_grant(before, data_set, fields))


def _with_grant(before: Standing, data_set: str, fields: _Fields) -> Mapping[_Name, GrantStanding]:
    if "name" not in fields:
        return before.grants
    name, settings = (data_set, _text(fields["name"])), fields["settings"]
    if name in before.grants:
        raise ValueError
    return {**before.grants, name: GrantStanding(canonical(settings), _count(settings["answers"]))}


def _request(before: Standing, fields: _Fields) -> Standing:
    name, total = (fields["data_set"], fields["grant_name"]), _count(fields["total"])
    grant = before.grants[name]
    if grant.is_closed or not grant.used < total <= grant.answers:
        raise ValueError
    return replace(before, grants={**before.grants, name: replace(grant, used=total)})


def _answer(before: Standing, fields: _Fields) -> Standing:
    if (fields["data_set"], fields["grant_name"]) not in before.grants:
        raise ValueError
    return before


def _restored(before: Standing, fields: _Fields) -> Standing:
    if not isinstance(fields["closes"], bool):
        raise TypeError
    if not fields["closes"]:
        return before
    # What was asked since the copy is unknown, so nothing else may be drawn under the same charge.
    return replace(before, grants={name: replace(one, is_closed=True) for name, one in before.grants.items()})


def _moved(before: Standing, fields: _Fields) -> Standing:
    if before.moved_to is not None:
        raise ValueError
    return replace(before, moved_to=_text(fields["to"]))


_STEPS = {
    "ledger": _first,
    "account": _account,
    "grant": _grant,
    "request": _request,
    "answer": _answer,
    "restored": _restored,
    "moved": _moved,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _count(value: object) -> int:
    """Return a whole number from 0 up to the largest legitimate figure."""
    if type(value) is not int or not 0 <= value <= TOO_MUCH:
        raise ValueError
    return value


def _not_negative(columns: Iterable[sa.Column[int]]) -> list[sa.CheckConstraint]:
    """Return constraints that forbid negative numbers in a new table."""
    return [sa.CheckConstraint(f"{column.name} >= 0") for column in columns]


METADATA = sa.MetaData()


def _table(name: str, *columns: Any) -> sa.Table:
    return sa.Table(f"dpensemble_{name}", METADATA, *columns)


_KEY, _TEXT, _COUNT = sa.String(200), sa.Text, sa.BigInteger
entries = _table(
    "entries",
    sa.Column("number", _COUNT, primary_key=True, autoincrement=False),
    sa.Column("kind", _KEY, nullable=False),
    sa.Column("body", _TEXT, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False, unique=True),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
)
accounts = _table(
    "accounts",
    sa.Column("data_set", _KEY, primary_key=True),
    sa.Column("whom", _KEY, primary_key=True),
    sa.Column("terms", _TEXT, nullable=False),
)
charges = _table(
    "charges",
    sa.Column("number", _COUNT, primary_key=True),
    sa.Column("data_set", _KEY, primary_key=True),
    sa.Column("whom", _KEY, primary_key=True),
    sa.Column("loss", _COUNT, nullable=False),
    sa.Column("delta", _COUNT, nullable=False),
)
grants = _table(
    "grants",
    sa.Column("data_set", _KEY, primary_key=True),
    sa.Column("name", _KEY, primary_key=True),
    sa.Column("settings", _TEXT, nullable=False),
    sa.Column("answers", _COUNT, nullable=False),
)
requests = _table(
    "requests",
    sa.Column("data_set", _KEY, primary_key=True),
    sa.Column("grant_name", _KEY, primary_key=True),
    sa.Column("request", _KEY, primary_key=True),
    sa.Column("votes", sa.String(64), nullable=False),
    sa.Column("total", _COUNT, nullable=False),
    sa.Index("dpensemble_requests_total", "data_set", "grant_name", "total"),
    sa.UniqueConstraint("data_set", "grant_name", "total"),
)
answers = _table(
    "answers",
    sa.Column("data_set", _KEY, primary_key=True),
    sa.Column("grant_name", _KEY, primary_key=True),
    sa.Column("request", _KEY, primary_key=True),
    sa.Column("told", _TEXT, nullable=False),
)
for _made in METADATA.tables.values():
    for _check in _not_negative(column for column in _made.columns if isinstance(column.type, sa.Integer)):
        _made.append_constraint(_check)

# Statements are built once, because building one takes longer than SQLite takes to run it.
_NEWEST = sa.select(entries).order_by(entries.c.number.desc()).limit(1)
# Number of entries that are read at once.
_BATCH = 1000
_FROM = sa.select(entries).where(entries.c.number >= sa.bindparam("first")).order_by(entries.c.number).limit(_BATCH)


@cache
def _select_statement(table: sa.Table, names: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(table).where(*_conditions(table, names)).order_by(table.columns[0])


@cache
def _insert_statement(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


def _conditions(table: sa.Table, names: tuple[str, ...]) -> list[Any]:
    return [table.c[name] == sa.bindparam(name) for name in names]


_TABLES = (accounts, charges, grants, requests, answers)
_Rows = list[tuple[Any, tuple[Any, ...]]]


def _account_rows(entry: Entry) -> _Rows:
    fields = entry.fields
    return [(accounts, (fields["data_set"], fields["whom"], canonical(fields["terms"])))]


def _grant_rows(entry: Entry) -> _Rows:
    fields = entry.fields
    rows: _Rows = [
        (charges, (entry.number, fields["data_set"], one["whom"], one["loss"], one["delta"]))
        for one in fields["charges"]
    ]
    if "name" in fields:
        settings = fields["settings"]
        rows.append((grants, (fields["data_set"], fields["name"], canonical(settings), settings["answers"])))
    return rows


def _request_rows(entry: Entry) -> _Rows:
    fields = entry.fields
    return [(requests, (fields["data_set"], fields["grant_name"], fields["request"], fields["votes"], fields["total"]))]


def _answer_rows(entry: Entry) -> _Rows:
    fields = entry.fields
    return [(answers, (fields["data_set"], fields["grant_name"], fields["request"], fields["told"]))]


# Rows of the other tables that follow from an entry, by its kind.
_ROWS: dict[str, Callable[[Entry], _Rows]] = {
    "account": _account_rows,
    "grant": _grant_rows,
    "request": _request_rows,
    "answer": _answer_rows,
}


def _rows_of(entry: Entry) -> _Rows:
    return _ROWS[entry.kind](entry) if entry.kind in _ROWS else []


def _changed(table: sa.Table) -> TamperedLedgerError:
    return TamperedLedgerError(
        f"table {table.name} of the ledger does not follow from its entries: restore the newest copy, or find out who "
        "changed it. Nothing is charged until then."
    )


class Transaction:
    """Reads and additions that happen together, or not at all."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        # Nobody else adds meanwhile, so the newest entry stays the newest until this transaction adds one.
        self._last: Entry | None = None
        #: Standing of accounts and grants after all entries so far.
        self.standing = Standing()

    def catch_up(self, standing: Standing) -> None:
        """Follow the entries since `standing`, which this process or a signature has confirmed, or raise."""
        later = self._entries_from(standing.number)
        if standing.number:
            same = next(later, None)
            if same is None or (same.number, same.hash) != (standing.number, standing.hash):
                raise TamperedLedgerError(
                    f"entry {standing.number:,} of the ledger is missing or different: the ledger is an old copy, or "
                    "was changed; restore the newest copy. Nothing is charged until then."
                )
        self.standing = _follow(standing, later)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Undo, within the transaction, what the block added if the block raises."""
        last, standing = self._last, self.standing
        try:
            with self._connection.begin_nested():
                yield
        except BaseException:
            self._last, self.standing = last, standing
            raise

    def verify(self) -> tuple[Standing, Counter[str]]:
        """Check all entries and all tables. Return the last standing, and the number of entries of each kind."""
        standing, kinds = Standing(), Counter[str]()
        rows: dict[str, set[tuple[Any, ...]]] = {table.name: set() for table in _TABLES}
        for entry in self.all_entries():
            standing = standing.after(entry)
            kinds[entry.kind] += 1
            for table, row in _rows_of(entry):
                rows[table.name].add(row)
        for table in _TABLES:
            if {tuple(row) for row in self._rows(table)} != rows[table.name]:
                raise _changed(table)
        return standing, kinds

    def require_tables(self) -> None:
        """Raise if the small tables of a ledger do not follow from its entries. Takes milliseconds."""
        standing = self.standing
        sums = {
            name: (one.spent.loss, one.spent.delta, one.charges)
            for name, one in standing.accounts.items()
            if one.charges
        }
        if self._sums() != sums:
            raise _changed(charges)
        terms = {(row.data_set, row.whom): row.terms for row in self._rows(accounts)}
        if terms != {name: one.terms for name, one in standing.accounts.items()}:
            raise _changed(accounts)
        settings = {(row.data_set, row.name): (row.settings, row.answers) for row in self._rows(grants)}
        if settings != {name: (one.settings, one.answers) for name, one in standing.grants.items()}:
            raise _changed(grants)

    def request(self, **where: str) -> Any:
        """Return the row of a charged request, or None."""
        return self._row(requests, **where)

    def answer(self, **where: str) -> Any:
        """Return the row of the stored answer to a request, or None."""
        return self._row(answers, **where)

    def _rows(self, table: sa.Table, **where: Any) -> list[Any]:
        """Return the rows of a table with these values, in the order of its first column."""
        return list(self._connection.execute(_select_statement(table, tuple(where)), where))

    def _row(self, table: sa.Table, **where: Any) -> Any:
        """Return the one row with these values, or None."""
        rows = self._rows(table, **where)
        return rows[0] if rows else None

    def _sums(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        """Return the sums of losses and deltas, and the number of rows, in the table of charges."""
        columns = (sa.func.sum(charges.c.loss), sa.func.sum(charges.c.delta), sa.func.count())
        query = sa.select(charges.c.data_set, charges.c.whom, *columns).group_by(charges.c.data_set, charges.c.whom)
        return {
            (data_set, whom): (int(loss), int(delta), int(number))
            for data_set, whom, loss, delta, number in self._connection.execute(query)
        }

    def containing(self, kind: str, fields: dict[str, Any]) -> list[Entry]:
        """Return the entries of a kind with some fields, which follow each other. Reads all entries of that kind."""
        text = canonical(fields)[1:-1]
        query = sa.select(entries).where(entries.c.kind == kind, entries.c.body.contains(text, autoescape=True))
        return [Entry(*row) for row in self._connection.execute(query)]

    def of_kind(self, kind: str) -> list[Entry]:
        """Return the entries of a kind, oldest first."""
        return [Entry(*row) for row in self._rows(entries, kind=kind)]

    def last(self) -> Entry | None:
        """Return the newest entry."""
        if self._last is None:
            row = self._connection.execute(_NEWEST).first()
            self._last = None if row is None else Entry(*row)
        return self._last

    def entry(self, number: int) -> Entry | None:
        """Return an entry by its number."""
        row = self._row(entries, number=number)
        return None if row is None else Entry(*row)

    def all_entries(self) -> Iterator[Entry]:
        """Yield all entries in turn."""
        return self._entries_from(0)

    def _entries_from(self, number: int) -> Iterator[Entry]:
        while rows := self._connection.execute(_FROM, {"first": number}).all():
            yield from (Entry(*row) for row in rows)
            if len(rows) < _BATCH:
                return
            number = rows[-1].number + 1

    def _add(self, table: sa.Table, values: Sequence[object]) -> None:
        names = [column.name for column in table.columns]
        self._connection.execute(_insert_statement(table), dict(zip(names, values, strict=True)))

    def copy(self, other: Transaction) -> None:
        """Add every row of another database, in their order."""
        for table in METADATA.sorted_tables:
            rows = [row._asdict() for row in other._rows(table)]
            for start in range(0, len(rows), _BATCH):
                self._connection.execute(_insert_statement(table), rows[start : start + _BATCH])

    def append(self, kind: str, fields: dict[str, Any]) -> Entry:
        """Add an entry to the chain, with the present time, and the rows that follow from the entry."""
        # The entry of a request has the time, and an answer belongs to a request.
        fields = fields if kind == "answer" else {"time": _now()} | fields
        if kind != "ledger" and self.standing.schema > 1:
            # Two copies of a ledger never have the same entry, even for the same charge.
            fields = fields | {"nonce": secrets.token_hex(8)}
        entry = _following(self.last(), kind, fields)
        self.standing = self.standing.after(entry)
        self._add(entries, (entry.number, entry.kind, entry.body, entry.previous, entry.hash))
        for table, row in _rows_of(entry):
            self._add(table, row)
        self._last = entry
        return entry
