"""Entries of a ledger, chained by hashes, and the balances of accounts and grants that follow from entries alone.

Each entry contains the hash of the previous one, so that no change, removal or insertion goes unnoticed. The balances
decide what may be charged. The other tables of the database only help to find rows. A new name of an account or a grant
must not look like another one.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NoReturn

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


def now() -> str:
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
Fields = dict[str, Any]
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
    def fields(self) -> Fields:
        """The content of the text."""
        fields: Fields = json.loads(self.body)
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


def following(last: Entry | None, kind: str, fields: Fields) -> Entry:
    """Return the next entry."""
    number, previous = (1, _START) if last is None else (last.number + 1, last.hash)
    body = canonical(fields)
    return Entry(number, kind, body, previous, _entry_hash(number, kind, body, previous))


def canonical(fields: Fields) -> str:
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
Name = tuple[str, str]


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


@dataclass(frozen=True, slots=True)
class Standing:
    """A ledger after an entry: the entry's number (0 before the first) and hash, and the version of the entries.

    Accounts are by data set and person or group, grants by data set and name. A ledger that was moved from a file to
    PostgreSQL states where to.
    """

    number: int = 0
    hash: str = _START
    schema: int = 0
    accounts: Mapping[Name, AccountStanding] = field(default_factory=dict)
    grants: Mapping[Name, GrantStanding] = field(default_factory=dict)
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

    def to_dict(self) -> Fields:
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
    def from_dict(cls, fields: Fields) -> Standing:
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


def follow(standing: Standing, entries: Iterable[Entry]) -> Standing:
    """Return the standing after further entries."""
    for entry in entries:
        standing = standing.after(entry)
    return standing


def _refuse(number: int, why: str) -> NoReturn:
    raise TamperedLedgerError(
        f"entry {number:,} of the ledger {why}: restore the newest copy, or find out who changed it. Nothing is "
        "charged until then."
    )


def _first(_before: Standing, fields: Fields) -> Standing:
    if fields["schema"] not in SCHEMAS:
        raise ValueError
    return Standing(schema=fields["schema"])


def _account(before: Standing, fields: Fields) -> Standing:
    name = (_text(fields["data_set"]), _text(fields["whom"]))
    if name in before.accounts or (name[1] != EVERYONE and (name[0], EVERYONE) not in before.accounts):
        raise ValueError
    # Raises if no account has such terms.
    Terms.from_dict(fields["terms"])
    return replace(before, accounts={**before.accounts, name: AccountStanding(canonical(fields["terms"]))})


def _grant(before: Standing, fields: Fields) -> Standing:
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


def _with_grant(before: Standing, data_set: str, fields: Fields) -> Mapping[Name, GrantStanding]:
    if "name" not in fields:
        return before.grants
    name, settings = (data_set, _text(fields["name"])), fields["settings"]
    if name in before.grants:
        raise ValueError
    return {**before.grants, name: GrantStanding(canonical(settings), _count(settings["answers"]))}


def _request(before: Standing, fields: Fields) -> Standing:
    name, total = (fields["data_set"], fields["grant_name"]), _count(fields["total"])
    grant = before.grants[name]
    if grant.is_closed or not grant.used < total <= grant.answers:
        raise ValueError
    return replace(before, grants={**before.grants, name: replace(grant, used=total)})


def _answer(before: Standing, fields: Fields) -> Standing:
    if (fields["data_set"], fields["grant_name"]) not in before.grants:
        raise ValueError
    return before


def _restored(before: Standing, fields: Fields) -> Standing:
    if not isinstance(fields["closes"], bool):
        raise TypeError
    if not fields["closes"]:
        return before
    # What was asked since the copy is unknown, so nothing else may be drawn under the same charge.
    return replace(before, grants={name: replace(one, is_closed=True) for name, one in before.grants.items()})


def _moved(before: Standing, fields: Fields) -> Standing:
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
