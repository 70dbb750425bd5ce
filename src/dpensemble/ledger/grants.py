"""A fixed number of answers of one law, paid for together, and taken one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpensemble._spending import Spending
from dpensemble.aggregation.answers import other_payload, require_left
from dpensemble.errors import BudgetError, LedgerError, TamperedLedgerError
from dpensemble.ledger.chain import canonical
from dpensemble.ledger.charges import DataSetCharges
from dpensemble.ledger.names import now, require_new_name
from dpensemble.ledger.standing import GrantStanding
from dpensemble.ledger.tables import answers, grants, requests
from dpensemble.ledger.transaction import Transaction


class LedgerGrant:
    """A grant by its name: charged when its first answer is requested, and continued afterwards.

    `more` holds further public settings that the name stands for.
    """

    def __init__(self, account: DataSetCharges, name: str, more: Mapping[str, Any] | None = None) -> None:
        self.account, self.name, self._more = account, name, dict(more or {})

    def resumed(self, design: Any) -> LedgerBook | None:
        """Return the book of a grant that was charged before with these settings, or None if its name is new."""
        with self.account.ledger.reading() as transaction:
            standing = self._standing(transaction)
            if standing is None:
                self._require_new_name(transaction)
                return None
        self._require_same(standing, design)
        return LedgerBook(self)

    def book(self, design: Any) -> LedgerBook:
        """Charge the grant unless it was charged before with these settings, and return its book."""
        settings, account = self._settings(design), self.account
        (group,) = design.groups
        curve = (design.cost * design.most_answers).renyi
        spending = Spending(
            name=group.name,
            epsilon=design.spent,
            delta=group.budget.delta,
            find_cost=lambda: curve,
            relation=design.relation,
        )
        with account.ledger.writing() as transaction:
            standing = self._standing(transaction)
            if standing is None:
                self._require_new_name(transaction)
                about = {"what": "answers", "name": self.name, "settings": settings}
                account.charge_in(transaction, [spending], about)
                transaction.add(
                    grants,
                    data_set=account.data_set,
                    name=self.name,
                    settings=canonical(settings),
                    answers=design.most_answers,
                )
        if standing is not None:
            self._require_same(standing, design)
        return LedgerBook(self)

    def _standing(self, transaction: Transaction) -> GrantStanding | None:
        return transaction.standing.grants.get((self.account.data_set, self.name))

    def _require_new_name(self, transaction: Transaction) -> None:
        names = [name for data_set, name in transaction.standing.grants if data_set == self.account.data_set]
        require_new_name("grant", self.name, names)

    def _settings(self, design: Any) -> dict[str, Any]:
        return {**design.settings(), **self._more}

    def _require_same(self, standing: GrantStanding, design: Any) -> None:
        if standing.settings != canonical(self._settings(design)):
            raise LedgerError(
                f"grant {self.name!r} of data set {self.account.data_set!r} was charged with other settings: use them, "
                "or another name."
            )


class LedgerBook:
    """The book of one grant: answers by key, as `dpensemble.aggregation` uses it."""

    def __init__(self, grant: LedgerGrant) -> None:
        self._ledger, self._name = grant.account.ledger, (grant.account.data_set, grant.name)
        self._where = {"data_set": grant.account.data_set, "grant_name": grant.name}
        self._key = self._ledger.key

    @property
    def answered(self) -> int:
        """Number of answers that were taken, or can no longer be taken."""
        with self._ledger.reading() as transaction:
            grant = transaction.standing.grants[self._name]
        return grant.answers if grant.is_closed else grant.used

    def charge(self, key: str, payload: bytes, answers_: int) -> str | None:
        """Take answers for a payload, on the disk before this returns, or return the stored response for this key."""
        plain = self._key.hash_votes(payload)

        def work(transaction: Transaction) -> str | None:
            row = transaction.row(requests, request=key, **self._where)
            if row is not None:
                self._require_charged(transaction, key, row, plain)
                if row.votes not in (self._bound(key, row.total, plain), plain):
                    raise other_payload(key)
                answer = transaction.row(answers, request=key, **self._where)
                if answer is None:
                    # The process ended before the response was stored.
                    self._require_open(transaction)
                    return None
                return str(answer.told)
            grant = self._require_open(transaction)
            require_left(answers_, grant.answers, grant.used)
            total = grant.used + answers_
            votes = self._bound(key, total, plain)
            fields = {**self._where, "request": key, "votes": votes, "total": total, "time": now()}
            transaction.append("request", fields)
            transaction.add(requests, request=key, votes=votes, total=total, **self._where)
            return None

        return self._ledger.together(work)

    def _require_open(self, transaction: Transaction) -> GrantStanding:
        grant = transaction.standing.grants[self._name]
        if grant.is_closed:
            raise BudgetError(
                f"grant {self._name[1]!r} of data set {self._name[0]!r} was closed when the ledger was restored, "
                "because its later answers are lost: use a new grant. Stored answers can still be requested.",
                figures={"unit": "answers", "spent": grant.answers, "remaining": 0, "fits": 0},
            )
        return grant

    def _bound(self, key: str, total: int, plain: str) -> str:
        """Return a hash of votes for one request only, so that a copy of the row is useless for another request."""
        return self._key.bound_votes([*self._name, key, total, plain])

    def _require_charged(self, transaction: Transaction, key: str, row: Any, plain: str) -> None:
        """Raise for a row without an entry in the chain, such as a copy of another request's row."""
        # Only the key's owner can write a bound hash. Hashes of the first version are looked up in the entries.
        if row.votes != plain:
            return
        fields = {**self._where, "request": key, "votes": row.votes, "total": row.total}
        entries = transaction.containing("request", canonical({"request": key})[1:-1])
        if not any(fields.items() <= entry.fields.items() for entry in entries):
            raise TamperedLedgerError(
                f"request {key!r} of grant {self._name[1]!r} is in a table of the ledger but in no entry: restore the "
                "newest copy, or find out who changed it."
            )

    def store(self, key: str, text: str) -> str:
        """Store what was drawn for a key, unless another process did first. Return the stored response."""

        def work(transaction: Transaction) -> str:
            answer = transaction.row(answers, request=key, **self._where)
            if answer is not None:
                return str(answer.told)
            transaction.append("answer", {**self._where, "request": key, "told": text})
            transaction.add(answers, request=key, told=text, **self._where)
            return text

        return self._ledger.together(work, is_charged=True)
