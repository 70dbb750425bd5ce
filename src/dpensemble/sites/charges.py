"""What one site was charged, in its own folder and in its ledger, before it drew anything."""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dpensemble._files import JSON, parse_json, sync_folder
from dpensemble._spending import Spending, announce, listen
from dpensemble.accounting import EVERYONE, Group
from dpensemble.cost import GaussianCost
from dpensemble.cost.gaussian import PROMISED_SLACK
from dpensemble.errors import file_errors
from dpensemble.guarantee import Budget
from dpensemble.relations import Relation
from dpensemble.releases.parts import SiteSumsMeter
from dpensemble.sites.exchange import CoordinatorExchange, SiteExchange
from dpensemble.sites.terms import COORDINATOR

# Entry of a charge that is for held-back units.
_HELD = "held"


class Journal:
    """A file of one line of JSON for each attempt that a site joined, and for each charge, written before the draw.

    `records` returns what identifies the site's records, or raises. The first attempt binds the site to it.
    """

    def __init__(self, path: Path, records: Callable[[], str] = str) -> None:
        self._path, self._records = path, records
        self._lines: list[dict[str, JSON]] = []
        if path.exists():
            with file_errors(lambda reason: f"{path} cannot be read ({reason}): repair the file system."):
                text = path.read_text(encoding="utf-8")
            # A line that a killed process left unfinished has no effect: nothing was drawn after it.
            self._lines = [parse_json(line) for line in text.split("\n")[:-1]]

    def add(self, line: dict[str, JSON]) -> None:
        """Write a line to the disk."""
        with file_errors(lambda reason: f"{self._path} cannot be written ({reason}): free the disk."):
            is_new = not self._path.exists()
            handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "ab+") as file:
                self._end_line(file)
                file.write(json.dumps(line).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_folder(self._path.parent)
        self._lines.append(line)

    @staticmethod
    def _end_line(file: JSON) -> None:
        """Drop an unfinished line of a killed process."""
        file.seek(0)
        content = file.read()
        if content and not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)

    def join(self, attempt: int) -> None:
        """Record that this site joins an attempt."""
        if attempt not in self.used():
            self.add({"joined": attempt} if self.begun else {"joined": attempt, "records": self._records()})

    @property
    def begun(self) -> bool:
        """Whether the site began an attempt."""
        return bool(self._lines)

    @property
    def records(self) -> str | None:
        """What identifies the records of the first attempt. Private."""
        return next((line["records"] for line in self._lines if "records" in line), None)

    def used(self) -> set[int]:
        """Return the attempts that this site ever joined."""
        return {line["joined"] for line in self._lines if "joined" in line}

    def draw(self, number: int, history: str) -> None:
        """Record that this site draws for a sum after the sums with some digest."""
        self.add({"draws": number, "after": history})

    def drawn(self) -> dict[int, str]:
        """Return the digest of the opened sums before each sum that this site drew for."""
        return {line["draws"]: line["after"] for line in self._lines if "draws" in line}

    def charges(self) -> list[dict[str, JSON]]:
        """Return all charges of this site."""
        return [line for line in self._lines if "sigma" in line]


class Payer:
    """Charges a site's own ledger and journal before noise is drawn, and knows the public charges of the run.

    Parameters
    ----------
    exchange : SiteExchange or CoordinatorExchange
        What this party sends and receives. The coordinator draws nothing, so nothing is charged to it.
    journal : Journal
        Of this party.
    ledger : LedgerAccount or None
        Account of the site's data set.

    Attributes
    ----------
    meter : SiteSumsMeter
        Charges of this site, those of earlier processes included.
    held : SiteSumsMeter
        Charges of units that are held back. No unit is charged by both meters.
    number : int
        Number of the sum that is drawn next.
    """

    def __init__(self, exchange: SiteExchange | CoordinatorExchange, journal: Journal, ledger: JSON) -> None:
        self._exchange, self._journal, self._ledger = exchange, journal, ledger
        terms, charges = exchange.terms, journal.charges()
        self.meter = SiteSumsMeter(terms.budget, terms.attempts, partial(self._record, {}))
        self.held = SiteSumsMeter(terms.budget, terms.attempts, partial(self._record, {_HELD: True}))
        self.number = 0
        self._opened: dict[int, dict[str, JSON]] = {}
        self._held_numbers: set[int] = set()
        for one in charges:
            meter = self.held if _HELD in one else self.meter
            meter.charge_again([{name: one[name] for name in ("sigma", "variance", "entries")}])
        self._base = f"sites {terms.run} {exchange.post.name}"
        # A ledger that knows of a run which the own folder does not know: the folder was restored.
        self._restored = ledger is not None and not charges and ledger.has_release(self._base)

    def _record(self, part: dict[str, JSON], charge: dict[str, JSON]) -> None:
        """Write a charge to the journal, then charge the ledger, which may refuse.

        What the run costs covers both parts, since a unit is in one of them. The ledger also keeps which sums were
        drawn for, at no cost. So a folder that was restored cannot draw for one again without a charge.
        """
        attempt, number, terms = self._exchange.now, self.number, self._exchange.terms
        again = self._ledger is not None and self._may_be_drawn_again(number)
        self._journal.add({"attempt": attempt, "number": number, **part, **charge})
        if self._ledger is None:
            return
        if again:
            # Two processes that were restored from one copy may be at the same attempt.
            key = f"{self._base} {attempt} {number} {secrets.token_hex(8)}"
            cost = GaussianCost(charge["sigma"] ** -2, PROMISED_SLACK)
            budget = Budget(epsilon=cost.epsilon(terms.delta), delta=terms.delta)
        else:
            key, cost, budget = self._base, GaussianCost(self.meter.mu**2, PROMISED_SLACK), terms.budget
        with listen(self._ledger.one_release("sites", release=key)):
            announce([Group(EVERYONE, budget)], lambda: [cost], relation=Relation(terms.relation))
        drawn = self._ledger.one_release(f"sites: noise of sum {number}", release=self._key_of_draw(number))
        drawn([Spending(name=EVERYONE, epsilon=0.0, delta=0.0, relation=Relation(terms.relation))])

    def _key_of_draw(self, number: int) -> str:
        return f"{self._base} drew {number}"

    def _may_be_drawn_again(self, number: int) -> bool:
        """Return whether the run that the ledger was charged for may not cover a sum, because it was drawn before.

        The ledger knows each sum that was drawn for, also where a folder that was restored does not show this.
        """
        if self._restored or any(one["number"] == number for one in self._journal.charges()):
            return True
        return bool(self._ledger.has_release(self._key_of_draw(number)))

    def opened(self, number: int, charge: dict[str, JSON], *, of_held: bool = False) -> None:
        """Remember what an opened sum cost, perhaps one of held-back units. Public."""
        self._opened[number] = charge
        if of_held:
            self._held_numbers.add(number)

    @property
    def next_number(self) -> int:
        """Number of the sum after those that are open."""
        return max(self._opened, default=0) + 1

    def public_charges(self, *, of_held: bool = False) -> list[dict[str, JSON]]:
        """Return a charge for each opened sum, and one more for each lost attempt, as if all sites had drawn then.

        There are never fewer than this site drew, even if the coordinator changes its messages later. Sums of held-back
        units are apart from those of others.
        """
        own = {number for number in self._opened if (number in self._held_numbers) is of_held}
        once = sorted(own)
        numbers = Counter(once)
        for attempt in range(2, self._exchange.terms.attempts + 1):
            start = self._exchange.post.read("start", COORDINATOR, attempt)
            if start is not None and len(start[0]) in own:
                numbers[len(start[0])] += 1
        numbers |= Counter(one["number"] for one in self._journal.charges() if one["number"] in own)
        again = sorted((numbers - Counter(once)).elements())
        return [self._opened[number] for number in (*once, *again)]
