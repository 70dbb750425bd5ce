"""Parties of made-up runs in one process: their folders are dictionaries, and each acts when a test lets it."""

from contextlib import suppress

import numpy as np

from dpensemble._random import SystemNoise
from dpensemble.guarantee import Budget
from dpensemble.moments.whole import RecordsQuery
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser
from dpensemble.releases.parts import SiteSumsMeter
from dpensemble.sites.exchange import CoordinatorExchange, Patience, SiteExchange, coming_sum
from dpensemble.sites.messages import Post, SigningKey, StillWaiting
from dpensemble.sites.terms import RunTerms

ZERO_WORDS = 255


class ZeroNoise:
    """Bits with which every draw of `DiscreteNoise.gaussian` is 0, for scales below 2**63.

    A draw takes five words. The first three are the start of the Laplace draw (0), the end of its blocks (the highest
    bit) and its sign (0). Two words of a number accept it (the highest bit, then 0). The buffer is read from its end.
    """

    for_release = True

    def uniform_bits(self, size):
        assert size >= ZERO_WORDS
        top = 2**62
        words = [0, top, 0, top, 0] * (ZERO_WORDS // 5)
        return np.array(words[::-1], dtype=np.uint64)


class Box:
    """A transport in memory. `seen_by` may show a party other messages than the rest sees."""

    def __init__(self, messages=None):
        self.messages = {} if messages is None else messages

    def put(self, name, content):
        self.messages[name] = content

    def get(self, name, largest):
        content = self.messages.get(name)
        if content is not None and len(content) > largest:
            raise OSError(0, "it is too large")
        return content


class Memory:
    """A journal in memory."""

    def __init__(self):
        self.attempts, self.draws = set(), {}

    def draw(self, number, history):
        self.draws[number] = history

    def drawn(self):
        return self.draws

    def used(self):
        return self.attempts

    def join(self, attempt):
        self.attempts.add(attempt)


class Number(RecordsQuery):
    """A sum of some numbers that one unit moves by 1."""

    description = "made-up numbers"

    def bounded_factors(self, features, targets, weights):
        raise NotImplementedError

    def read(self, sums, spread):
        return sums, spread


QUERY = Number()


class Party:
    """A site with made-up numbers, or the coordinator. `charged` counts its draws by number of the sum."""

    def __init__(self, crew, name, box=None, key=None, journal=None, roster="roster"):
        self.crew, self.name = crew, name
        self.box = crew.box if box is None else box
        self.post = Post(self.box, crew.terms.run, name, crew.keys[name] if key is None else key)
        self.post.keys.update({one: other.public for one, other in crew.keys.items()})
        self.charged = []
        self.meter = SiteSumsMeter(crew.terms.budget, crew.terms.attempts, self.charged.append)
        self.noise = crew.terms.noise()
        self.sums = SumReleaser(relation=Relation.REPLACE_ONE, meter=self.meter, noise=crew.source(), parts=self.noise)
        patience = Patience(0.0)
        if name == "coordinator":
            self.exchange = CoordinatorExchange(crew.terms, self.post, roster, patience)
            self.exchange.resume()
        else:
            self.journal = Memory() if journal is None else journal
            self.exchange = SiteExchange(
                crew.terms, self.post, roster, patience, noise=self.noise, journal=self.journal
            )

    def open(self, number, share=0.25):
        """Take part in a sum. Raise `StillWaiting` if others must act first."""
        coming, crew = coming_sum(QUERY, number), self.crew
        spread = float(self.meter.sigma(share) * QUERY.replacing) * 2
        if self.name == "coordinator":
            return self.exchange.open(coming, QUERY, spread, 1000.0)

        def contribute():
            total = crew.numbers[self.name].astype(object)
            return self.sums.charge_and_draw_part(QUERY, total, share, site=self.exchange.place)

        return self.exchange.open(coming, QUERY, spread, 1000.0, contribute)


class Crew:
    """Sites `a`, `b`, ... and a coordinator of one run."""

    def __init__(self, n_sites=3, colluding=1, attempts=3, source=SystemNoise, entries=4, epsilon=1.0):
        names = [chr(ord("a") + place) for place in range(n_sites)]
        self.terms = RunTerms.of(
            sites=names,
            classes=["no", "yes"],
            target="y",
            public=b"",
            attempts=attempts,
            colluding=colluding,
            epsilon=epsilon,
        )
        assert self.terms.budget == Budget(epsilon=epsilon, delta=1e-6)
        self.source, self.box = source, Box()
        self.keys = {name: SigningKey(SigningKey.new_secret()) for name in (*names, "coordinator")}
        generator = np.random.default_rng(n_sites)
        self.numbers = {name: generator.integers(-(2**36), 2**36, entries) for name in names}
        self.parties = {name: Party(self, name) for name in self.keys}

    def __getitem__(self, name):
        return self.parties[name]

    def restart(self, name, **other):
        """Replace a party's process by a new one with the same folder."""
        if name != "coordinator":
            other = {"journal": self.parties[name].journal, **other}
        self.parties[name] = Party(self, name, **other)
        return self.parties[name]

    def total(self):
        return sum(self.numbers.values())

    def draws(self, name):
        return len(self.parties[name].charged)


def play(crew, number, turns=30, names=None):
    """Let all parties act in turn until all of them have the sum. Return it by party."""
    results = {}
    for _ in range(turns):
        for name in crew.parties if names is None else names:
            if name not in results:
                try:
                    results[name] = crew[name].open(number)
                except StillWaiting:
                    continue
        if len(results) == len(crew.parties if names is None else names):
            return results
    raise AssertionError(f"only {list(results)} have the sum")


def until(crew, names, number, *wanted):
    """Let parties act in turn until messages with some names are there."""
    for _ in range(30):
        for name in names:
            with suppress(StillWaiting):
                crew[name].open(number)
            if set(wanted) <= set(crew.box.messages):
                return
    raise AssertionError(f"{wanted} never came")
