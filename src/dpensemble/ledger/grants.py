"""A fixed number of answers of one law, paid for at once, and taken one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpensemble._spending import Spending
from dpensemble.aggregation.answers import other_payload, require_left
from dpensemble.errors import LedgerError
from dpensemble.ledger.chain import canonical
from dpensemble.ledger.names import now
from dpensemble.ledger.store import Transaction, answers, grants, requests

if TYPE_CHECKING:
    from dpensemble.ledger.accounts import LedgerAccount


class LedgerGrant:
    """A grant by its name: charged when its first answer is asked for, and gone on with afterwards.

    Parameters
    ----------
    account : LedgerAccount
        Whose.
    name : str
        Name of the grant.
    more : dict, optional
        Further public settings that the name stands for.
    """

    def __init__(self, account: LedgerAccount, name: str, more: Mapping[str, Any] | None = None) -> None:
        self.account, self.name, self._more = account, name, dict(more or {})

    def resumed(self, design: Any) -> LedgerBook | None:
        """Return the grant's book if it was charged before; None if it was not.

        Raises
        ------
        LedgerError
            If it was charged with other settings.
        """
        with self.account.ledger.reading() as transaction:
            found = transaction.row(grants, data_set=self.account.data_set, name=self.name)
        if found is None:
            return None
        self._require_same(found, design)
        return LedgerBook(self, found.answers)

    def book(self, design: Any) -> LedgerBook:
        """Charge the grant unless it was charged before, and return its book.

        Parameters
        ----------
        design : GivenVotes
            Law, voters, number of answers and budget.

        Raises
        ------
        BudgetError
            If the account does not allow it.
        LedgerError
            If the name stands for other settings.
        """
        settings, account = self._settings(design), self.account
        (group,) = design.groups
        curve = design.cost.renyi(design.most_answers)
        spending = Spending(
            name=group.name,
            epsilon=design.spent,
            delta=group.budget.delta,
            find_cost=lambda: curve,
            relation=design.relation,
        )
        with account.ledger.writing() as transaction:
            found = transaction.row(grants, data_set=account.data_set, name=self.name)
            if found is None:
                about = {"what": "answers", "name": self.name, "settings": settings}
                account.charge_in(transaction, [spending], about)
                transaction.add(
                    grants,
                    data_set=account.data_set,
                    name=self.name,
                    settings=canonical(settings),
                    answers=design.most_answers,
                )
        if found is not None:
            self._require_same(found, design)
        return LedgerBook(self, design.most_answers)

    def _settings(self, design: Any) -> dict[str, Any]:
        return {**design.settings(), **self._more}

    def _require_same(self, found: Any, design: Any) -> None:
        if found.settings != canonical(self._settings(design)):
            raise LedgerError(
                f"grant {self.name!r} of data set {self.account.data_set!r} was charged with other settings; use them, "
                "or another name."
            )


class LedgerBook:
    """The book of one grant: answers by key, as `dpensemble.aggregation` uses it.

    Parameters
    ----------
    grant : LedgerGrant
        Which.
    most : int
        Number of answers that were paid for.
    """

    def __init__(self, grant: LedgerGrant, most: int) -> None:
        self._ledger, self._most = grant.account.ledger, most
        self._where = {"data_set": grant.account.data_set, "grant_name": grant.name}
        self._key = self._ledger.key

    @property
    def answered(self) -> int:
        """Number of answers that were taken."""
        with self._ledger.reading() as transaction:
            return transaction.largest(requests, "total", **self._where)

    def charge(self, key: str, payload: bytes, answers_: int) -> str | None:
        """Take answers for a payload, on the disk before this returns, or return what was told by this key."""
        votes = self._key.hash_votes(payload)

        def work(transaction: Transaction) -> str | None:
            known = transaction.row(requests, request=key, **self._where)
            if known is not None:
                if known.votes != votes:
                    raise other_payload(key)
                told = transaction.row(answers, request=key, **self._where)
                # None where the process ended before anything was told.
                return None if told is None else str(told.told)
            total = transaction.largest(requests, "total", **self._where)
            require_left(answers_, self._most, total)
            total += answers_
            fields = {**self._where, "request": key, "votes": votes, "total": total, "time": now()}
            transaction.append("request", fields)
            transaction.add(requests, request=key, votes=votes, total=total, **self._where)
            return None

        return self._ledger.together(work)

    def store(self, key: str, text: str) -> str:
        """Keep what was drawn for a key, unless another process did first; return what is to be told."""

        def work(transaction: Transaction) -> str:
            told = transaction.row(answers, request=key, **self._where)
            if told is not None:
                return str(told.told)
            transaction.append("answer", {**self._where, "request": key, "told": text})
            transaction.add(answers, request=key, told=text, **self._where)
            return text

        return self._ledger.together(work)
