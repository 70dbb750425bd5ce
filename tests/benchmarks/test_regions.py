"""Tables of regions: sizes, shares of classes, and that reports and development have different ones."""

import numpy as np
import pandas as pd
import pytest

from arena import comparisons, generated, regions, sources, summary
from arena.running import TABLE, Plan
from arena.tables import TABLES, Table

LISTS = (regions.REPORT, regions.DEVELOPMENT)


def test_tables_of_reports_are_not_those_of_development_or_of_the_arena():
    report, development = ({(t.package, t.item, t.seed) for t in regions.tables(one)} for one in LISTS)
    assert not report & development
    real = [{(t.package, t.item) for t in regions.tables(one) if t.package != "generated"} for one in LISTS]
    assert not real[0] & real[1]
    assert not (real[0] | real[1]) & {(table.package, table.item) for table in TABLES}


def test_every_table_has_a_name_of_its_own_and_values_of_epsilon():
    tables = [table for one in LISTS for table in regions.tables(one)]
    assert len({table.name for table in [*tables, *TABLES]}) == len(tables) + len(TABLES) == len(TABLE)
    assert all(table.epsilons for table in tables)


@pytest.mark.parametrize("region", regions.REGIONS, ids=lambda region: region.name)
def test_every_region_has_two_tables_for_reports_and_one_for_development(region):
    assert len(regions.REPORT[region.name]) >= 2
    assert len(regions.DEVELOPMENT[region.name]) >= 1


@pytest.fixture
def frame(monkeypatch):
    draw = np.random.default_rng(0)
    held = pd.DataFrame({"x": draw.normal(size=6_000), "y": draw.choice(["no", "yes"], size=6_000)})
    held.loc[:2, "y"] = np.nan
    monkeypatch.setattr(sources, "_frame", lambda table, folder: held)
    sources.read.cache_clear()
    yield held
    sources.read.cache_clear()


def _table(**more):
    return Table("made", "made", "generated", "rare", "y", "ours", **more)


def test_rows_without_a_target_are_left_out(frame, tmp_path):
    X, _, classes = sources.read(_table(), tmp_path)
    assert (len(X), classes) == (5_997, ("no", "yes"))


def test_a_thinned_class_has_its_share_and_the_others_stay(frame, tmp_path):
    X, y, classes = sources.read(_table(shares=(("yes", 0.02),)), tmp_path)
    assert y.mean() == pytest.approx(0.02, abs=1e-3)
    assert np.count_nonzero(y == 0) == (frame["y"] == "no").sum()
    assert len(X) == len(y)
    assert classes == ("no", "yes")


def test_parts_have_at_most_the_rows_of_the_table(frame, tmp_path):
    rows = sources.rows_of(_table(private=300, public=450), 8, tmp_path)
    assert (len(rows.X_private), len(rows.y_private), len(rows.X_public)) == (300, 300, 450)
    assert len(rows.X_test) == 1_999


def test_a_plan_runs_a_table_at_its_own_values_of_epsilon(frame, tmp_path, monkeypatch):
    monkeypatch.setattr("arena.running.table_packages", lambda home: home)
    from arena.contestants import CONTESTANTS

    tasks = Plan([_table(epsilons=(8.0,))], CONTESTANTS, (0.5, 1.0), (8,), 1, False, tmp_path).tasks()
    assert {task.epsilon for task in tasks} == {None, 8.0}


@pytest.mark.parametrize("kind", ["unequal", "four"])
def test_generated_rows_follow_from_the_seed(kind):
    one, same, other = (generated.rows(kind, seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)
    assert generated.TARGET in one


def test_gaps_name_the_best_rival_and_what_was_chosen_by_test_rows():
    rows = [
        {
            "table": "tree-1",
            "contestant": who,
            "version": summary._BY_NAME[who].version,
            "epsilon": epsilon,
            "split": split,
            "draw": 0,
            "budget": "halved" if who == "dp-ebm" else "nominal",
            **dict.fromkeys(
                ("accuracy", "auroc", "log_loss", "brier", "ece", "zeros", "seconds"), value + 0.01 * split
            ),
        }
        for who, epsilon, value in [
            ("label-moments", 1.0, 0.5),
            ("dp-ebm", 1.0, 0.6),
            ("dp-gd-linear", 1.0, 0.55),
            ("dp-gd-linear-best", 1.0, 0.7),
            ("private-majority", 1.0, 0.9),
            ("boosting", None, 0.8),
        ]
        for split in (8, 9)
    ]
    frame = summary.like_for_like(summary.table_of(rows, [8, 9]))
    text = comparisons.gaps(frame, {"Trees": ["tree-1"]}, [1.0], "label-moments")
    assert "0.585, dp-ebm 0.685 (-0.100 ±0.000) [dp-gd-linear-best 0.785 (-0.200 ±0.000)], no privacy 0.885" in text
    # Less log-loss is better.
    assert "0.585, dp-gd-linear 0.635 (+0.050 ±0.000), no privacy 0.885" in text
    assert "accuracy 0 of 1, AUROC 0 of 1, log-loss (less is better) 1 of 1." in text
