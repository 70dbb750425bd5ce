"""Sums of parts: the release of `fit`, to the last bit, and refusals before anything is drawn."""

import contextvars
import pickle
import threading
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble import LabelMomentsClassifier, LifeTable
from dpensemble.datasets.partitions import ParquetParts, results_of
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments import learning
from dpensemble.releases import SumsMeter
from dpensemble.rows.passes import PROBLEMS, PartReport, UnitCounts

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

SETTINGS = {"classes": [0, 1], "delta": 1e-3, "insecure_release_seed": 5}
COLUMNS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 300
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["x", "y", "z"], n), "c": rng.integers(0, 9, n)})
    table["y"], table["who"] = (table["a"] + 0.3 * rng.normal(size=n) > 0).astype(int), rng.integers(0, 200, n)
    public, private = table.iloc[:100][COLUMNS], table.iloc[100:]
    folder = tmp_path_factory.mktemp("parts")
    for place, part in enumerate((private[:90], private[90:90], private[90:91], private[91:])):
        part.to_parquet(folder / f"{place}.parquet", row_group_size=50, index=False)
    return private, public, folder


def values(model):
    return [one.values.tolist() for one in model.moments_]


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("on_bad_record", ["raise", "zero"])
def test_parts_release_what_the_whole_releases(world, relation, unit, on_bad_record):
    private, public, folder = world
    model = LabelMomentsClassifier(**SETTINGS, relation=relation, on_bad_record=on_bad_record)
    more = {"fewest_units": 100} if relation == "add-or-remove-one" else {}
    whole = model.fit(
        private[COLUMNS], private["y"], X_public=public, units=None if unit is None else private[unit], **more
    )
    expected, guarantee = values(whole), whole.guarantee_
    columns = (*COLUMNS, "y") if unit is None else None
    parts = ParquetParts(folder, "y", unit=unit, columns=columns)
    assert values(model.fit_blocks(parts, X_public=public, **more)) == expected
    assert model.guarantee_ == guarantee


def test_several_processes_release_what_one_releases(world):
    _, public, folder = world
    one, two, all_cores = (
        LabelMomentsClassifier(**SETTINGS).fit_blocks(ParquetParts(folder, "y", unit="who", n_jobs=n), X_public=public)
        for n in (1, 2, -1)
    )
    assert values(one) == values(two) == values(all_cores)


class Faulty(ParquetParts):
    """Parts, some of which come twice, not at all or with a problem from one pass on."""

    fault, since, passes = None, 1, 0

    def results(self, work):
        self.passes += 1
        reports = list(results_of(work, self.parts))
        yield from reports if self.passes < self.since else self.fault(reports)


@pytest.mark.parametrize("since", [1, 2, 3])
@pytest.mark.parametrize(
    "fault",
    [lambda parts: [*parts, parts[0]], lambda parts: parts[1:], lambda parts: [*parts[1:], parts[-1]]],
    ids=["twice", "lost", "swapped"],
)
def test_parts_that_change_are_refused(world, fault, since):
    _, public, folder = world
    parts = Faulty(folder, "y", unit="who")
    parts.fault, parts.since = fault, since
    model = LabelMomentsClassifier(**SETTINGS)
    if since == 1:
        # What changes in the same way in every pass is another table.
        model.fit_blocks(parts, X_public=public)
        return
    with pytest.raises(DataError, match="changed between two passes"):
        model.fit_blocks(parts, X_public=public)
    assert not hasattr(model, "result_")


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_problem_of_a_part_is_one_sentence(world, problem):
    _, public, folder = world
    parts = Faulty(folder, "y", unit="who")
    parts.fault = lambda reports: [*reports[1:], PartReport(reports[0].sums, problem=problem)]
    with pytest.raises(DataError) as found:
        LabelMomentsClassifier(**SETTINGS).fit_blocks(parts, X_public=public)
    assert str(found.value) == PROBLEMS[problem]
    assert not any(letter.isdigit() for letter in PROBLEMS[problem])


def _of_sums(**changes):
    return lambda report: replace(report, sums=replace(report.sums, **changes))


def _of_total(change):
    return lambda report: replace(report, sums=replace(report.sums, total=change(report.sums.total)))


def _of_units(change):
    return lambda report: replace(report, units=change(report.units))


IMPOSSIBLE_SUMS = {
    "a thousand times": _of_total(lambda total: total * 1000),
    "fifteen times": _of_total(lambda total: total * 15),
    "one large entry": _of_total(lambda total: total + 2**60 * np.eye(*total.shape, dtype=int).astype(object)),
    "negative": _of_total(lambda total: -total),
    "floats": _of_total(lambda total: total.astype(float)),
    "NaN": _of_total(lambda total: total * np.nan),
    "texts": _of_total(lambda total: total.astype(str).astype(object)),
    "a list": _of_total(lambda total: total.tolist()),
    "one dimension": _of_total(np.ravel),
    "another shape": _of_total(lambda total: total[:-1]),
    "nothing": _of_sums(total=None),
    "fewer than no rows": _of_sums(rows=-1),
    "a fraction of a row": _of_sums(rows=90.0),
    "a truth": _of_sums(rows=True),
    "more rows than can be": _of_sums(rows=2**62),
    "a negative checksum": _of_sums(checksum=-1),
    "a long checksum": _of_sums(checksum=2**128),
    "another round": _of_sums(round=7),
    "units": lambda report: replace(report, units=UnitCounts(np.array([b"x" * 16]), np.array([1]))),
    "no sums": lambda report: replace(report, sums=None),
    "no report": lambda _: None,
    "an unknown problem": lambda report: replace(report, problem="other"),
    "a problem that is no text": lambda report: replace(report, problem=["file"]),
}
IMPOSSIBLE_UNITS = {
    "no units": _of_units(lambda _: None),
    "a count of 0": _of_units(lambda units: UnitCounts(units.hashes, units.counts * 0)),
    "negative counts": _of_units(lambda units: UnitCounts(units.hashes, -units.counts)),
    "counts beyond the rows": _of_units(lambda units: UnitCounts(units.hashes, units.counts + 1)),
    "fractions": _of_units(lambda units: UnitCounts(units.hashes, units.counts.astype(float))),
    "objects": _of_units(lambda units: UnitCounts(units.hashes.astype(object), units.counts)),
    "short hashes": _of_units(lambda units: UnitCounts(units.hashes.astype("S8"), units.counts)),
    "a hash twice": _of_units(lambda units: UnitCounts(np.repeat(units.hashes[:1], len(units.counts)), units.counts)),
    "not sorted": _of_units(lambda units: UnitCounts(units.hashes[::-1], units.counts)),
    "fewer counts": _of_units(lambda units: UnitCounts(units.hashes, units.counts[1:])),
    "a sum": _of_sums(total=np.zeros((1, 1), dtype=object)),
    "fewer than no rows": _of_sums(rows=-1),
}


def refused_report(world, fault, since, unit="who"):
    _, public, folder = world
    parts = Faulty(folder, "y", unit=unit, columns=None if unit else (*COLUMNS, "y"))
    parts.since, parts.fault = since, lambda reports: [fault(reports[0]), *reports[1:]]
    model = LabelMomentsClassifier(**SETTINGS)
    with pytest.raises(DataError) as found:
        model.fit_blocks(parts, X_public=public)
    assert not hasattr(model, "result_")
    return str(found.value)


@pytest.mark.parametrize("fault", IMPOSSIBLE_SUMS)
def test_sums_that_no_rows_give_are_refused(world, fault):
    message = refused_report(world, IMPOSSIBLE_SUMS[fault], since=2)
    # Shapes are compared with those of other parts.
    assert message == PROBLEMS["report"] or (fault == "another shape" and "different shapes" in message)


@pytest.mark.parametrize("fault", IMPOSSIBLE_UNITS)
def test_units_that_no_rows_have_are_refused(world, fault):
    assert refused_report(world, IMPOSSIBLE_UNITS[fault], since=1) == PROBLEMS["report"]


IMPOSSIBLE_RANKS = {
    "none": {"ranks": None, "sharing": None},
    "no ranks": {"ranks": None},
    "no numbers": {"sharing": None},
    "none share": {"sharing": lambda units: units.sharing * 0},
    "more share than there are": {"sharing": lambda units: units.counts + 1},
    "fractions": {"sharing": lambda units: units.sharing.astype(float)},
    "short ranks": {"ranks": lambda units: units.ranks.astype("S8")},
    "fewer ranks": {"ranks": lambda units: units.ranks[1:]},
}


def table_of_faults(folder, fault):
    """Fit a life table to parts, the first of which reports other units."""
    parts = Faulty(folder, ("y", "c"), unit="who")
    parts.since, parts.fault = 1, lambda reports: [fault(reports[0]), *reports[1:]]
    return LifeTable([2, 4, 8], delta=1e-3, insecure_release_seed=5).fit_blocks(parts)


@pytest.mark.parametrize("name", IMPOSSIBLE_RANKS)
def test_ranks_that_no_rows_have_are_refused(world, name):
    changes = IMPOSSIBLE_RANKS[name]

    def fault(units):
        return replace(units, **{field: one(units) if callable(one) else one for field, one in changes.items()})

    with pytest.raises(DataError) as found:
        table_of_faults(world[2], _of_units(fault))
    assert str(found.value) == PROBLEMS["report"]
    assert table_of_faults(world[2], _of_units(lambda units: units)).life_table_.total[0] > 50
    # Labels have no ranks.
    ranked = _of_units(lambda units: replace(units, ranks=units.hashes, sharing=units.counts))
    assert refused_report(world, ranked, since=1) == PROBLEMS["report"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=15))
def test_parts_of_units_in_any_order_have_the_shares_of_the_whole(rows):
    units, ranks, part = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    written = np.zeros((len(units), 16), dtype=np.uint8)
    written[:, 3] = ranks
    whole, parts = UnitCounts.of(units, written), [np.flatnonzero(part == one) for one in sorted(set(part.tolist()))]
    counted = [UnitCounts.of(units[own], written[own]) for own in parts]
    for merged in (UnitCounts.merged(counted), UnitCounts.merged([UnitCounts.merged(counted[::-1])])):
        for name in ("hashes", "counts", "ranks", "sharing"):
            np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))
        weights = merged.of_several.weights(units, written)
        for unit in set(units.tolist()):
            least = ranks == ranks[units == unit].min()
            own = np.where((units == unit) & least, 1 / ((units == unit) & least).sum(), 0)
            np.testing.assert_array_equal(weights[units == unit], own[units == unit])
        of_parts = [merged.shares_of(one).sum() for one in counted]
        np.testing.assert_allclose(of_parts, [weights[own].sum() for own in parts])


@pytest.mark.parametrize("since", [2, 3])
@pytest.mark.parametrize("unit", [None, "who"])
def test_a_sum_is_refused_in_every_pass(world, since, unit):
    assert refused_report(world, IMPOSSIBLE_SUMS["a thousand times"], since, unit) == PROBLEMS["report"]


def test_a_part_is_compared_with_its_units_and_not_with_its_rows(tmp_path):
    """Ten units of twenty records each have the weight of ten records."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.normal(size=200), "y": np.arange(200) % 2, "who": np.arange(200) // 20})
    table.to_parquet(tmp_path / "all.parquet", index=False)
    parts = Faulty(tmp_path, "y", unit="who")
    # Features are up to 1 long, so that fifteen times a sum is no longer than all rows.
    parts.since, parts.fault = 2, lambda reports: [IMPOSSIBLE_SUMS["fifteen times"](one) for one in reports]
    with pytest.raises(DataError, match="no rows could give"):
        LabelMomentsClassifier(**SETTINGS).fit_blocks(parts, X_public=table[["a"]])


def test_what_was_charged_stays_charged(world, plant):
    """A worker fails in the second round, after the first one was charged and drawn."""
    _, public, folder = world
    charges = []
    charge = SumsMeter.charge
    plant(SumsMeter, "charge", lambda *given, **named: (charges.append(given[1]), charge(*given, **named))[1])
    parts = Faulty(folder, "y", unit="who")
    parts.since, parts.fault = 3, lambda reports: [IMPOSSIBLE_SUMS["a thousand times"](reports[0]), *reports[1:]]
    with pytest.raises(DataError, match="what was charged stays charged"):
        LabelMomentsClassifier(**SETTINGS).fit_blocks(parts, X_public=public)
    assert len(charges) == 1


def test_a_worker_that_no_longer_bounds_labels_is_refused(world, plant):
    _, public, folder = world
    plant(learning, "bounded_answers", lambda answers, _: np.trunc(answers * 2.0**24))
    with pytest.raises(DataError) as found:
        LabelMomentsClassifier(**SETTINGS).fit_blocks(ParquetParts(folder, "y", unit="who"), X_public=public)
    assert str(found.value) == PROBLEMS["report"]


def test_the_refusal_states_no_figure():
    assert not any(letter.isdigit() for letter in PROBLEMS["report"])


def test_records_that_cannot_be_used_are_refused_by_code(world, tmp_path):
    private, public, _ = world
    private.assign(y=private["y"].replace({1: 777})).to_parquet(tmp_path / "bad.parquet", index=False)
    with pytest.raises(DataError) as found:
        LabelMomentsClassifier(**SETTINGS).fit_blocks(ParquetParts(tmp_path, "y", unit="who"), X_public=public)
    assert str(found.value) == PROBLEMS["record"]


@pytest.mark.parametrize("change", ["removed", "longer"])
def test_a_file_that_is_no_longer_the_same_is_refused_by_code(world, tmp_path, change):
    private, public, _ = world
    private.to_parquet(tmp_path / "records.parquet", index=False)
    parts = ParquetParts(tmp_path, "y", unit="who")
    if change == "removed":
        (tmp_path / "records.parquet").unlink()
    else:
        pd.concat([private, private]).to_parquet(tmp_path / "records.parquet", index=False)
    with pytest.raises(DataError) as found:
        LabelMomentsClassifier(**SETTINGS).fit_blocks(parts, X_public=public)
    assert str(found.value) == PROBLEMS["file"]


@pytest.mark.parametrize(
    ("error", "problem"),
    [(OSError, "file"), (DataError, "record"), (ValueError, "error"), (ZeroDivisionError, "error")],
)
def test_a_worker_reports_the_code_of_an_error(world, error, problem):
    """A worker has no guard around its task, which would hide what kind of error there was."""
    _, public, folder = world

    class Alone(ParquetParts):
        def results(self, work):
            def broken():
                raise error("row 4711")
                yield

            context = contextvars.Context()
            yield context.run(work, broken())

    with pytest.raises(DataError) as found:
        LabelMomentsClassifier(**SETTINGS).fit_blocks(Alone(folder, "y", unit="who"), X_public=public)
    assert str(found.value) == PROBLEMS[problem]


def test_units_are_a_column_of_a_table_in_parts(world):
    private, public, folder = world
    with pytest.raises(InvalidParameterError, match="column of units"):
        LabelMomentsClassifier(**SETTINGS).fit_blocks(ParquetParts(folder, "y"), X_public=public, units=private["who"])
    with pytest.raises(DataError, match="not a column"):
        ParquetParts(folder, "z")


def test_a_report_can_travel(world):
    _, _, folder = world
    for part in ParquetParts(folder, "y").parts:
        assert pickle.loads(pickle.dumps(part)).groups == part.groups  # noqa: S301


@dataclass(frozen=True)
class Waiting:
    """A part that gives its rows at once, or never."""

    answers: bool

    def tables(self):
        if not self.answers:
            threading.Event().wait()
        return iter([self.answers])


@pytest.mark.usefixtures("has_a_deadline")
def test_a_pass_that_is_interrupted_leaves_no_warning():
    """joblib would warn of the parts that are under way in that moment, and warnings are errors here."""
    reports = results_of(list, [Waiting(True), *[Waiting(False)] * 5], n_jobs=2)
    assert next(reports) == [True]
    reports.close()
