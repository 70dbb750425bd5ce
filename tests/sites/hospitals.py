"""Whole runs of several sites in one process, on made-up tables in folders."""

from contextlib import suppress

import numpy as np
import pandas as pd

from dpensemble.errors import DataError
from dpensemble.sites import SiteRun
from dpensemble.sites.messages import StillWaiting


def table(n, seed, *, target=True):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n)
    rows = pd.DataFrame({"age": age, "kind": rng.choice(["north", "south", "west"], n)})
    if target:
        rows["sick"] = np.where(age / 50 + rng.normal(size=n) > 1.2, "yes", "no")
    return rows


def priced(n, seed, *, target=True):
    """Return rows with a number to predict. Some prices are beyond the range of `PRICED`."""
    rows = table(n, seed, target=False)
    if target:
        noise = np.random.default_rng(seed + 1000).normal(size=n)
        rows["price"] = np.round(2 * rows["age"] + 30 * (rows["kind"] == "south") + 15 * noise, 2)
    return rows


def timed(n, seed, *, target=True):
    """Return times until an event, which are later with a drug. Some are beyond the horizon of `TIMED`."""
    del target
    rng = np.random.default_rng(seed)
    arm = rng.choice(["drug", "placebo"], n)
    days, left = rng.exponential(np.where(arm == "drug", 90, 40)), rng.uniform(20, 150, n)
    status = np.where(days <= left, rng.choice([1, 1, 2], n), 0)
    return pd.DataFrame({"days": np.round(np.minimum(days, left), 1), "status": status, "arm": arm, "note": "x"})


def risky(n, seed, *, target=True):
    """Return rows with a time until an event, which is later for the young, and the code of the event."""
    rows = table(n, seed, target=False)
    if target:
        rng = np.random.default_rng(seed + 2000)
        days, left = rng.exponential(6000 / rows["age"]), rng.uniform(20, 150, n)
        rows["status"] = np.where(days <= left, rng.choice([1, 1, 2], n), 0)
        rows["days"] = np.round(np.minimum(days, left), 1)
    return rows


#: Terms for these rows.
LABELLED = {"classes": ["no", "yes"], "target": "sick", "rounds": 1}
TIMED = {"target": "status", "times": {"time": "days", "events": [1], "bins": [30, 60, 90], "competing": [2]}}
#: The same times, where a competing event is a censoring.
ONE_EVENT = {"times": {**TIMED["times"], "censored": [0, 2], "competing": []}}
PRICED = {"range": (0.0, 200.0), "target": "price"}

#: Columns of the tables. Some records have other ages and kinds.
DECLARED = {"kind": ["north", "west"], "age": [25, 80]}


class Hospitals:
    """Folders of a run with three or more sites. With `declared_columns` no rows are public."""

    def __init__(self, root, sizes=(60, 80, 100), rows=table, **settings):
        self.root, self.messages = root, root / "messages"
        self.messages.mkdir()
        self.names = [f"h{number}" for number in range(len(sizes))]
        self.public = rows(220, 99, target=False)
        self.tables = {name: rows(n, place) for place, (name, n) in enumerate(zip(self.names, sizes, strict=True))}
        for name, own in self.tables.items():
            own.to_csv(self.file(name), index=False)
        own = {table: LABELLED, priced: PRICED, timed: TIMED, risky: TIMED}[rows]
        given = {"epsilon": 2.0, **own, **settings}
        if rows is not timed and "declared_columns" not in given:
            given["public"] = self.public
        self.parties = {"coordinator": SiteRun.new(self.messages, root / "c", sites=self.names, **given)}

    def file(self, name):
        return self.root / f"{name}.csv"

    def own(self, name):
        return self.root / f"own-{name}"

    def own_of(self, name):
        """Return the folder of a party, which may be the coordinator."""
        return self.root / "c" if name == "coordinator" else self.own(name)

    def join(self, names=None, **more):
        for name in names or self.names:
            self.parties[name] = SiteRun.join(self.messages, self.own(name), name=name, private=self.file(name), **more)

    def trust(self):
        marks = {name: self.parties[name].fingerprint for name in self.names}
        for name in self.names:
            self.parties[name].trust({other: one for other, one in marks.items() if other != name})

    def step(self, name, **more):
        """Let a party act once. Return whether it has the model."""
        with suppress(StillWaiting):
            self.parties[name].run(None if name == "coordinator" else self.file(name), patience=0, **more)
            return True
        return False

    def play(self, turns=40, **more):
        done = set()
        for _ in range(turns):
            for name in self.parties:
                if name not in done and self.step(name, **more.get(name, {})):
                    done.add(name)
            if len(done) == len(self.parties):
                return self
        raise AssertionError(f"only {done} have a model")

    def all_join(self):
        self.join()
        self.trust()
        return self


class Account:
    """Stands for a ledger's account: it stores keys, and may refuse."""

    def __init__(self, refuses=False):
        self.keys, self.epsilons, self.drawn, self.refuses = [], [], [], refuses

    def has_release(self, key):
        return key in (*self.keys, *self.drawn)

    def one_release(self, what, *, release=None):
        def charge(spendings):
            if self.refuses:
                raise DataError("the account is empty.")
            if spendings[0].epsilon == 0:
                # A note of a draw, which costs nothing.
                self.drawn.append(release)
            elif release not in self.keys:
                self.keys.append(release)
                self.epsilons.append(spendings[0].epsilon)

        return charge


def a_folder(path):
    path.mkdir()
    return path
