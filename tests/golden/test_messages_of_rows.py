"""What private and public rows are refused for, and warned of, by each route: types and texts, to the letter.

``messages_of_rows.json`` holds, for each provocation in plain words, each outcome and the routes that have it. An
outcome is the type and the text of an error, or "accepted", and the texts of warnings. A text may only change on
purpose: `python -m tests.golden.test_messages_of_rows` writes the file again, to be read in a diff. The file also lists
the texts of `MODULES` that no provocation reaches. Readers of files and workers that fail have tests of their own.
"""

import ast
import json
import re
import warnings
from collections import defaultdict
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from dpensemble import (
    AutoClassifier,
    EncodedClassifier,
    LabelMomentsClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
)
from dpensemble.engine.voting import VotingSteps
from dpensemble.methods import label_moments as moments_module
from dpensemble.methods.soft_votes import _AveragesSteps
from dpensemble.moments.maps.base import BoundedMap
from dpensemble.releases import SumReleaser
from dpensemble.rows.passes import PROBLEMS

pl = pytest.importorskip("polars")
FILE = Path(__file__).with_name("messages_of_rows.json")
N = 20


class _Accepted(Exception):  # noqa: N818
    pass


@dataclass
class Given:
    """What a fit gets. `numbers` are two columns of numbers, for methods that take no texts."""

    X: Any
    y: Any
    public: Any
    units: Any = None
    settings: dict = field(default_factory=dict)
    more: dict = field(default_factory=dict)


def tables(*, texts):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"size": rng.normal(size=N + 12), "ward": rng.choice(["a", "b"], N + 12)})
    if not texts:
        rows["ward"] = rng.normal(size=N + 12)
    y = pd.Series(np.array(["p", "q"])[np.arange(N) % 2], dtype=object)
    return Given(rows[:N].copy(), y, rows[N:].reset_index(drop=True))


# Provocations change what is given. Each gets it with rows of texts and numbers, or with rows of numbers.


def entry(column, value):
    def change(given):
        X, entries = given.X.copy(), np.empty(N, dtype=object)
        entries[:] = X[column]
        entries[3] = value
        X[column] = pd.Series(entries, dtype=object)
        return replace(given, X=X)

    return change


def of_rows(change):
    return lambda given: replace(given, X=change(given.X))


def of_labels(change):
    return lambda given: replace(given, y=change(given.y))


def label(value):
    def change(y):
        entries = np.empty(N, dtype=object)
        entries[:] = y
        entries[3] = value
        return entries

    return of_labels(change)


def of_units(units):
    return lambda given: replace(given, units=units)


def of_public(change):
    return lambda given: replace(given, public=change(given.public))


def settings(**values):
    return lambda given: replace(given, settings=given.settings | values)


def more(**values):
    return lambda given: replace(given, more=given.more | values)


def both(*changes):
    def change(given):
        for one in changes:
            given = one(given)
        return given

    return change


def named(columns):
    return lambda X: X.set_axis(columns, axis=1)


def arrays(given):
    public = None if given.public is None else given.public.to_numpy()
    return replace(given, X=given.X.to_numpy(), public=public)


def unit_with(value):
    units = np.empty(N, dtype=object)
    units[:] = [f"person {place // 2}" for place in range(N)]
    units[3] = value
    return of_units(units)


def replaced(values, place, value):
    result = list(values)
    result[place] = value
    return result


UNITS = [f"person {place // 2}" for place in range(N)]
DATES = pd.Series(pd.date_range("2020-01-01", periods=N))
ROWS = {
    "nothing is wrong": lambda given: given,
    "a blank number": entry("size", np.nan),
    "a blank text": entry("ward", None),
    "an infinite number": entry("size", np.inf),
    "a text among numbers": entry("size", "Zaphod"),
    "a number with a decimal comma": entry("size", "1,5"),
    "a complex entry": entry("size", 8.5j),
    "an integer beyond floats": entry("size", 10**400),
    "a signaling NaN": entry("size", Decimal("sNaN")),
    "a masked entry": entry("size", np.ma.masked),
    "a masked array as an entry": entry("size", np.ma.masked_array([1.0], mask=[True])),
    "a list as an entry": entry("size", [1.0]),
    "an unknown text": entry("ward", "Zaphod"),
    "numbers where public rows have texts": of_rows(lambda X: X.assign(ward=1.0)),
    "a column of complex numbers": of_rows(lambda X: X.assign(size=X["size"] * 1j)),
    "a column more": of_rows(lambda X: X.assign(more=1.0)),
    "a column fewer": of_rows(lambda X: X[["size"]]),
    "columns in another order": of_rows(lambda X: X[["ward", "size"]]),
    "other names": of_rows(named(["size", "Zaphod"])),
    "a name twice": of_rows(named(["size", "size"])),
    "no name": of_rows(named(["size", None])),
    "names of several types": of_rows(named(["size", 1])),
    "names that are numbers": of_rows(named([0, 1])),
    "no columns": of_rows(lambda X: X[[]]),
    "no records": both(of_rows(lambda X: X[:0]), of_labels(lambda y: y[:0])),
    "one record": both(of_rows(lambda X: X[:1]), of_labels(lambda y: y[:1])),
    "fewer labels than rows": of_labels(lambda y: y[:-1]),
    "more labels than rows": of_rows(lambda X: X[:-1]),
    "a sparse matrix": of_rows(lambda X: sparse.csr_matrix(np.ones((N, 2)))),
    "no rows at all": of_rows(lambda X: None),
    "a column alone": of_rows(lambda X: X["size"].to_numpy()),
    "three dimensions": of_rows(lambda X: np.zeros((N, 2, 2))),
    "a masked matrix": of_rows(lambda X: np.ma.masked_array(np.zeros((N, 2)), mask=np.ones((N, 2)))),
    "complex rows": of_rows(lambda X: np.ones((N, 2)) * 1j),
    "an array of texts": of_rows(lambda X: np.array([["1.5", "a"]] * N)),
    "an array of objects": of_rows(lambda X: X.to_numpy(dtype=object)),
    "lists": lambda given: replace(given, X=given.X.to_numpy().tolist(), y=given.y.tolist()),
    "lists of other lengths": lambda given: replace(
        given, X=replaced(given.X.to_numpy().tolist(), 3, [1.0]), y=given.y.tolist()
    ),
    "a list of numbers": of_rows(lambda X: [1.0] * N),
    "a list of masked arrays": of_rows(lambda X: [np.ma.masked_array([1.0, 2.0], mask=[1, 0])] * N),
    "a frame of Polars": of_rows(lambda X: pl.DataFrame({name: X[name].tolist() for name in X})),
    "a lazy frame": of_rows(lambda X: pl.DataFrame({name: X[name].tolist() for name in X}).lazy()),
    "objects in Polars": of_rows(
        lambda X: pl.DataFrame({"size": pl.Series([{1}] * N, dtype=pl.Object), "ward": [1.0] * N})
    ),
    "nested columns in Arrow": of_rows(lambda X: pa.table({"size": [[1.0]] * N, "ward": [1.0] * N})),
    "arrays": arrays,
    "arrays with other public columns": lambda given: replace(arrays(given), public=np.zeros((5, 3))),
    "arrays of one row": lambda given: replace(arrays(given), X=given.X.to_numpy()[:1], y=given.y[:1]),
}
LABELS = {
    "no labels": of_labels(lambda y: None),
    "a label that is NaN": label(np.nan),
    "a label that is None": label(None),
    "an undeclared label": label("Zaphod"),
    "a label that is a list": label(["p"]),
    "a label of two names": label(["p", "q"]),
    "a complex label": label(1j),
    "a label beyond floats": label(10**400),
    "a masked label": label(np.ma.masked),
    "missing dates": of_labels(lambda y: np.array(["NaT"] * N, dtype="datetime64[D]")),
    "missing numbers": of_labels(lambda y: np.full(N, np.nan)),
    "numbers for texts": of_labels(lambda y: np.arange(N) % 2),
    "texts for numbers": both(settings(classes=[0, 1]), of_labels(lambda y: y)),
    "fractions for whole numbers": both(settings(classes=[0, 1]), of_labels(lambda y: np.arange(N) / 2)),
    "two columns of labels": of_labels(lambda y: np.array([["p", "q"]] * N, dtype=object)),
    "one column of labels": of_labels(lambda y: y.to_numpy()[:, None]),
    "masked labels": of_labels(lambda y: np.ma.masked_array(np.zeros(N), mask=np.ones(N))),
    "complex labels": of_labels(lambda y: np.ones(N) * 1j),
    "sparse labels": of_labels(lambda y: sparse.csr_matrix(np.ones((N, 2)))),
    "lists of labels": of_labels(lambda y: [["p", "q"]] * N),
    "uneven lists of labels": of_labels(lambda y: [["p"], ["p", "q"]] * (N // 2)),
}
OF_UNITS = {
    "units": of_units(UNITS),
    "fewer units": of_units(UNITS[:-1]),
    "more units": of_units([*UNITS, "one more"]),
    "units of two columns": of_units(np.array([UNITS, UNITS], dtype=object).T),
    "a missing unit": unit_with(None),
    "a unit that is NaN": unit_with(np.nan),
    "an empty unit": unit_with(""),
    "a unit that is a fraction": unit_with(1.5),
    "a unit that is a list": unit_with([1]),
    "a complex unit": unit_with(1j),
    "a unit beyond floats": unit_with(10**400),
    "no unit at all": of_units([None] * N),
    "units that are fractions": of_units(np.arange(N) / 2),
    "units that are dates": of_units(DATES),
    "masked units": of_units(np.ma.masked_array(np.arange(N), mask=np.ones(N))),
    "complex units": of_units(np.arange(N) * 1j),
}
PUBLIC = {
    "no public rows": of_public(lambda rows: None),
    "an empty public table": of_public(lambda rows: rows[:0]),
    "public rows that are the records": lambda given: replace(given, public=given.X),
    "public rows that are a part of the records": lambda given: replace(given, public=given.X[:5]),
    "an infinite public number": of_public(lambda rows: rows.assign(size=np.inf)),
    "blank public numbers": of_public(lambda rows: rows.assign(size=np.nan)),
    "a public text among numbers": of_public(lambda rows: rows.assign(size=["Zaphod", *range(11)])),
    "complex public rows": of_public(lambda rows: rows.assign(size=1j)),
    "sparse public rows": of_public(lambda rows: sparse.csr_matrix(np.ones((12, 2)))),
    "masked public rows": of_public(lambda rows: np.ma.masked_array(np.ones((12, 2)), mask=np.ones((12, 2)))),
    "a public column fewer": of_public(lambda rows: rows[["size"]]),
    "a public column more": of_public(lambda rows: rows.assign(more=1.0)),
    "other public names": of_public(named(["size", "other"])),
    "a public name twice": of_public(named(["size", "size"])),
    "public names of several types": of_public(named(["size", 1])),
    "public rows without names": of_public(lambda rows: rows.to_numpy()),
    "records without names": of_rows(lambda X: X.to_numpy()),
    "one public row": of_public(lambda rows: rows[:1]),
    "a public column of numbers that names every row": of_public(lambda rows: rows.assign(size=range(1000, 1012))),
    "a public column of one value": of_public(lambda rows: rows.assign(size=1.0)),
}


class Forgetful(TransformerMixin, BaseEstimator):
    """A map that keeps the last row."""

    def fit(self, X, y=None):
        self.n_seen_ = 0
        return self

    def transform(self, X):
        self.n_seen_ += 1
        return np.ones((len(X), 1))


class Choosy(Forgetful):
    """A map that cannot read a row with a large number."""

    def transform(self, X):
        if (np.asarray(X["size"]) > 50).any():
            raise ValueError("row 4711 is too large")
        return np.ones((len(X), 1))


COLUMNS = {"size": (-3, 3), "ward": ["a", "b"]}
SETTINGS = {
    "an unknown treatment of bad records": settings(on_bad_record="skip"),
    "an unknown relation": settings(relation="swap-two"),
    "add or remove one": settings(relation="add-or-remove-one"),
    "no classes": settings(classes=None),
    "one class": settings(classes=["p"]),
    "classes that are fractions": settings(classes=[0.5, 1.5]),
    "a large delta": settings(delta=0.4),
    "a large delta when the number is private": settings(delta=0.1, relation="add-or-remove-one"),
    "fewest_units where the number is public": more(fewest_units=5),
    "more fewest_units than 1 / delta": both(settings(relation="add-or-remove-one", delta=0.1), more(fewest_units=50)),
    "weights of records": more(sample_weight=np.ones(N)),
    "an unknown argument": more(zaphod=1),
    "a ledger that is none": more(ledger="clinic"),
}
OF_MOMENTS = {
    "fewer public units": more(public_units=UNITS[:3]),
    "a missing public unit": more(public_units=[None, *range(11)]),
    "a complex public unit": more(public_units=[1j, *range(11)]),
    "public units": more(public_units=list(range(12))),
    "public units of declared columns": both(
        settings(declared_columns=COLUMNS), of_public(lambda _: None), more(public_units=[1])
    ),
    "public rows and declared columns": settings(declared_columns=COLUMNS),
    "declared columns": both(settings(declared_columns=COLUMNS), of_public(lambda _: None)),
    "declared columns and a list of objects": both(
        settings(declared_columns=COLUMNS),
        of_public(lambda _: None),
        of_rows(lambda X: X.to_numpy(dtype=object).tolist()),
    ),
    "declared columns and a column fewer": both(
        settings(declared_columns=COLUMNS), of_public(lambda _: None), of_rows(lambda X: X[["size"]])
    ),
    "a map and declared columns": both(
        settings(declared_columns=COLUMNS, feature_map=BoundedMap(Choosy())), of_public(lambda _: None)
    ),
    "a map that cannot read a row": both(settings(feature_map=BoundedMap(Choosy())), entry("size", 99.0)),
    "a map that changes its state": settings(feature_map=BoundedMap(Forgetful())),
    "a student that takes no blanks": both(
        settings(student=LogisticRegression()), of_public(lambda rows: rows.assign(size=[np.nan, *range(11)]))
    ),
}
ONLY_IN_MEMORY = {
    "epsilons of persons": more(personal_epsilons=[1.0, 2.0] * (N // 2)),
    "fewer epsilons": more(personal_epsilons=[1.0, 2.0]),
    "a missing epsilon": more(personal_epsilons=replaced([1.0] * N, 3, None)),
    "an epsilon that is a text": more(personal_epsilons=replaced([1.0] * N, 3, "Zaphod")),
    "a negative epsilon": more(personal_epsilons=replaced([1.0] * N, 3, -1.0)),
    "masked epsilons": more(personal_epsilons=np.ma.masked_array(np.ones(N), mask=np.ones(N))),
    "epsilons when records are added": both(settings(relation="add-or-remove-one"), more(personal_epsilons=[1.0] * N)),
    "epsilons of one person that differ": both(of_units(UNITS), more(personal_epsilons=[1.0, 2.0] * (N // 2))),
    "epsilons beside a missing unit": both(
        settings(on_bad_record="zero"), unit_with(None), more(personal_epsilons=[1.0] * (N - 1))
    ),
}
BUDGETS = {name: both(change, budgets_of := lambda given: replace(
    given, more={("budgets" if key == "personal_epsilons" else key): value for key, value in given.more.items()}
)) for name, change in ONLY_IN_MEMORY.items()} | {
    "levels without budgets": more(levels={"low": 1.0}),
    "shares of groups that are no mapping": more(budgets=[1.0] * N, group_shares=[1.0]),
    "an unknown level": more(budgets=["low"] * N, levels={"high": 1.0}),
}  # fmt: skip
OF_BLOCKS = {
    "a wrong number of records": more(n_records=7),
    "the number of records": more(n_records=N),
    "a number of records that is no number": more(n_records="many"),
}
OF_VOTES = {
    "no workers": settings(n_jobs=0),
    "more teachers than records": settings(n_teachers=1000),
}


# Routes of what is given in memory.

MOMENTS = {"classes": ["p", "q"], "epsilon": 3.0, "delta": 1e-3, "insecure_release_seed": 1, "random_state": 0}
VOTES = MOMENTS | {"n_teachers": 3, "epsilon": 50.0}


def moments(given):
    return LabelMomentsClassifier(**MOMENTS | given.settings)


def votes(given, kind=SubsampleAggregateClassifier):
    return kind(GaussianNB(), GaussianNB(), **VOTES | given.settings)


def auto(given):
    return AutoClassifier(**MOMENTS | given.settings)


def encoded(given):
    return EncodedClassifier(votes(given))


def in_memory(given, model):
    units = {} if given.units is None else {"units": given.units}
    return model.fit(given.X, given.y, X_public=given.public, **units, **given.more)


def cut(values, size):
    if values is None or hasattr(values, "tocsr") or isinstance(values, pl.LazyFrame):
        return [values] * (N // size)
    return [values[start : start + size] for start in range(0, N, size)]


def in_blocks(given, model):
    units = {} if given.units is None else {"units": given.units}
    read = partial(zip, cut(given.X, 5), cut(given.y, 5), strict=False)
    return model.fit_blocks(read, X_public=given.public, **units, **given.more)


class InParts:
    target = "y"

    def __init__(self, table, unit):
        self.unit, self.table = unit, table

    def results(self, work):
        return (work(iter([self.table[start : start + 5]])) for start in range(0, max(len(self.table), 1), 5))


def as_one_table(given):
    """Return one table of rows, labels and units, or raise if these are none."""
    X = given.X if isinstance(given.X, pd.DataFrame) else pd.DataFrame(given.X)
    own = [given.y] if given.units is None else [given.y, given.units]
    columns = [pd.Series(np.asarray(one) if isinstance(one, np.ma.MaskedArray) else one) for one in own]
    table = pd.concat([X.reset_index(drop=True), *(one.reset_index(drop=True) for one in columns)], axis=1)
    return table.set_axis([*X.columns, *["y", "who"][: len(own)]], axis=1), None if given.units is None else "who"


def in_parts(given, model):
    try:
        table, unit = as_one_table(given)
    except Exception:
        # Only tables can be in parts.
        return None
    return model.fit_blocks(InParts(table, unit), X_public=given.public, **given.more)


GROUPS = {
    "label moments": (
        True,
        {
            "memory": lambda given: in_memory(given, moments(given)),
            "blocks": lambda given: in_blocks(given, moments(given)),
            "parts": lambda given: in_parts(given, moments(given)),
            "auto": lambda given: in_memory(given, auto(given)),
        },
        [ROWS, LABELS, OF_UNITS, PUBLIC, SETTINGS, OF_MOMENTS],
    ),
    "votes": (
        False,
        {
            "memory": lambda given: in_memory(given, votes(given)),
            "blocks": lambda given: in_blocks(given, votes(given)),
            "soft votes": lambda given: in_memory(given, votes(given, SoftVotesClassifier)),
        },
        [ROWS, LABELS, OF_UNITS, PUBLIC, SETTINGS, OF_VOTES],
    ),
    "votes behind an encoder": (
        True,
        {"memory": lambda given: in_memory(given, encoded(given))},
        [ROWS, LABELS, OF_UNITS, PUBLIC],
    ),
    "budgets": (
        True,
        {
            "label moments": lambda given: in_memory(given, moments(given)),
            "blocks": lambda given: in_blocks(given, moments(given)),
        },
        [ONLY_IN_MEMORY],
    ),
    "budgets of votes": (
        False,
        {
            "soft votes": lambda given: in_memory(given, votes(given, SoftVotesClassifier)),
            "weighting": lambda given: in_memory(given, votes(given, WeightingPATEClassifier)),
        },
        [ONLY_IN_MEMORY, BUDGETS],
    ),
    "numbers of records": (
        True,
        {
            "blocks": lambda given: in_blocks(given, moments(given)),
            "parts": lambda given: in_parts(given, moments(given)),
        },
        [OF_BLOCKS],
    ),
}


def outcome(action):
    """Return how an action ends, in words: the type and text of its error, or "accepted", and its warnings."""

    def accepted(*_, **__):
        raise _Accepted

    def described(error):
        return f"{type(error).__name__}: {error}"

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        patch.setattr(SumReleaser, "charge_and_draw", accepted)
        patch.setattr(VotingSteps, "charge_and_release", accepted)
        patch.setattr(_AveragesSteps, "charge_and_release", accepted)
        try:
            action()
            text = "accepted"
        except _Accepted:
            text = "accepted"
        except Exception as error:
            text = "accepted" if "_Accepted" in str(error) else described(error)
    own = [described(one.message) for one in seen if one.category.__module__.startswith("dpensemble")]
    return " | ".join([text, *dict.fromkeys(own)])


def of_group(name):
    """Return the outcomes of all provocations of a group, each with its routes."""
    texts, routes, provocations = GROUPS[name]
    result = {}
    for what, change in (pair for some in provocations for pair in some.items()):
        for bad in ("raise", "zero"):
            by_outcome = defaultdict(list)
            for route, fit in routes.items():
                given = tables(texts=texts)
                given.settings["on_bad_record"] = bad
                by_outcome[outcome(lambda fit=fit, given=given, change=change: fit(change(given)))].append(route)
            result[f"{name}, {bad}: {what}"] = {text: ", ".join(those) for text, those in sorted(by_outcome.items())}
    return result


# Where private and public rows are refused. A module that moves is renamed here.
SOURCE = Path(moments_module.__file__).parents[1]
MODULES = [
    *("_entries", "_units", "engine/records", "methods/label_moments", "engine/voting", "methods/pate"),
    *("methods/soft_votes", "rows/arguments", "rows/checked", "rows/passes", "rows/source"),
    *("allocation/partition", "teachers/ensemble", "releases/answers", "releases/sums", "datasets/partitions"),
    *("datasets/arrow", "datasets/arrow_sources", "datasets/frames", "datasets/tables"),
    *("workflow/private_rows", "workflow/table_files", "workflow/tables", "cli/train"),
]
ERRORS = {"DataError", "FileError", "InvalidParameterError", "BudgetError", "TypeError"}


def texts_of(module):
    """Return the texts of errors that a module makes, with * for what it fills in."""
    for node in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS and node.args:
            parts = getattr(node.args[0], "values", [node.args[0]])
            if all(isinstance(one, ast.Constant | ast.FormattedValue) for one in parts):
                yield "".join(str(one.value) if isinstance(one, ast.Constant) else "*" for one in parts)


def not_provoked(outcomes):
    """Return the texts of errors that no provocation reaches."""
    seen = [text for by_outcome in outcomes.values() for text in by_outcome]
    known = sorted({*(text for module in MODULES for text in texts_of(module)), *PROBLEMS.values()})
    patterns = {text: re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL) for text in known}
    return [text for text, pattern in patterns.items() if not any(pattern.search(one) for one in seen)]


def written():
    outcomes = {what: texts for group in GROUPS for what, texts in of_group(group).items()}
    return {"outcomes": outcomes, "not provoked": not_provoked(outcomes)}


@pytest.fixture(scope="module")
def golden():
    return json.loads(FILE.read_text())


@pytest.mark.parametrize("group", GROUPS)
def test_every_outcome_is_the_same(golden, group):
    wanted = {what: texts for what, texts in golden["outcomes"].items() if what.startswith(f"{group}, ")}
    result = of_group(group)
    assert {what: texts for what, texts in result.items() if texts != wanted.get(what)} == {}
    assert set(wanted) == set(result)


def test_every_text_is_provoked_or_listed(golden):
    assert not_provoked(golden["outcomes"]) == golden["not provoked"]


if __name__ == "__main__":
    FILE.write_text(json.dumps(written(), indent=1) + "\n")
