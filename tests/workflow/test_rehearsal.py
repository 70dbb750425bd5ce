"""A rehearsal takes the branches of the run that it stands for, and changes nothing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpensemble._work
import dpensemble.moments.learning
import dpensemble.releases
from dpensemble import LabelMomentsClassifier, PATEClassifier
from dpensemble._spending import listen
from dpensemble._work import Way
from dpensemble.methods import AutoClassifier
from dpensemble.workflow import Tables, train
from dpensemble.workflow.private_rows import PrivateStream
from dpensemble.workflow.rehearsal import rehearse

SETTINGS = {"epsilon": 1.0, "delta": 1e-4, "insecure_release_seed": 0, "on_bad_record": "zero"}


pytestmark = pytest.mark.filterwarnings("ignore::dpensemble.errors.UnlikeRowsWarning")


def rows(n, n_columns=4, *, mixed=False, seed=0):
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(draw.normal(size=(n, n_columns)), columns=[f"c{place}" for place in range(n_columns)])
    if mixed:
        table["c0"] = draw.choice(["a", "b", "c"], n)
    return table


def tables(n_public, n_records=600, *, n_classes=2, mixed=False, **more):
    X = rows(n_records, mixed=mixed, seed=1)
    y = pd.Series(pd.qcut(X["c1"], n_classes, labels=[f"k{place}" for place in range(n_classes)]).astype(str))
    return Tables(
        name="made up",
        X_private=X,
        y_private=y,
        X_public=rows(n_public, mixed=mixed),
        y_public=None,
        X_test=None,
        y_test=None,
        classes=[f"k{place}" for place in range(n_classes)],
        **more,
    )


class Branches:
    """What the real run and its rehearsals did, each as a list of maps, of sums with their shapes and of fits."""

    def __init__(self, monkeypatch):
        self.done = {}
        releaser, rounds, learned = (
            dpensemble.releases.SumReleaser,
            dpensemble.moments.learning._Rounds,
            dpensemble.moments.learning.Learned,
        )
        charge, run, of = releaser.charge_and_draw, rounds.run, learned.of.__func__

        def charged(releaser, query, total, *given, **named):
            # How many bins the histograms of quality have depends on the published student.
            by_student = type(query).__name__ == "_QualitySum"
            self.note((type(query).__name__, None if by_student else total.shape))
            return charge(releaser, query, total, *given, **named)

        def ran(rounds, *given):
            self.note((type(rounds.feature_map).__name__, len(rounds.feature_map.blocks_)))
            rows = rounds.rows
            self.note((type(rows.features).__name__, rows.released is not None, rows.features.shape[1]))
            return run(rounds, *given)

        def made(cls, *given, **named):
            one = of(cls, *given, **named)
            self.note((one.synthetic, one.readable is not None, len(one.model.effects_)))
            return one

        monkeypatch.setattr(releaser, "charge_and_draw", charged)
        monkeypatch.setattr(rounds, "run", ran)
        monkeypatch.setattr(learned, "of", classmethod(made))

    def note(self, what):
        self.done.setdefault(dpensemble._work._WAY.get() or "run", []).append(what)


def distinct(steps):
    """Return steps without repetitions, since a rehearsal takes fewer rounds.

    How many cells have features, and so the numbers of features, depends on the noise where cells are released.
    """
    by_cells = ("SnappedMap" in {step[0] for step in steps}) and [step[0] for step in steps]
    return list(dict.fromkeys(by_cells or steps))


GRID = [
    *((n_public, 2, mixed, 0.5) for n_public in (199, 200, 999, 1000) for mixed in (False, True)),
    *((n_public, 3, False, 4.0) for n_public in (50, 600, 1500)),
    (3000, 2, False, 4.0),
]


@pytest.mark.parametrize(("n_public", "n_classes", "mixed", "epsilon"), GRID)
def test_a_rehearsal_takes_the_branches_of_its_run(monkeypatch, n_public, n_classes, mixed, epsilon):
    branches = Branches(monkeypatch)
    model = LabelMomentsClassifier(**SETTINGS | {"epsilon": epsilon})
    train(tables(n_public, n_classes=n_classes, mixed=mixed), model, rehearsal=rehearse)
    assert distinct(branches.done[Way.AS_PLANNED]) == distinct(branches.done["run"])


@pytest.mark.parametrize("n_records", [300, 2500, 6000])
def test_the_map_of_a_rehearsal_follows_from_all_records(monkeypatch, n_records):
    branches = Branches(monkeypatch)
    train(tables(1000, n_records), LabelMomentsClassifier(**SETTINGS), rehearsal=rehearse)
    assert distinct(branches.done[Way.AS_PLANNED]) == distinct(branches.done["run"])


@pytest.mark.parametrize("n_public", [300, 1000])
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_what_follows_an_alarm_is_rehearsed(monkeypatch, n_public, relation):
    branches = Branches(monkeypatch)
    given = tables(n_public)
    given = replace(given, X_private=given.X_private + 3.0)
    model = LabelMomentsClassifier(**SETTINGS | {"epsilon": 5.0, "relation": relation})
    train(given, model, rehearsal=rehearse)
    assert branches.done["run"][-1][0]
    assert {one[0] for one in branches.done[Way.UNLIKE_ROWS]} == {one[0] for one in branches.done["run"]}
    assert not branches.done[Way.AS_PLANNED][-1][0]


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_what_follows_rare_cases_is_rehearsed(monkeypatch, relation):
    branches, given = Branches(monkeypatch), tables(1000, 3000)
    rare = pd.Series(np.where(np.arange(3000) % 60, "k0", "k1"))
    model = LabelMomentsClassifier(**SETTINGS | {"epsilon": 3.0, "relation": relation})
    train(replace(given, y_private=rare), model, rehearsal=rehearse)
    assert distinct(branches.done[Way.RARE_CASES]) == distinct(branches.done["run"])
    assert distinct(branches.done[Way.AS_PLANNED]) != distinct(branches.done["run"])


@pytest.mark.parametrize("shape", ["units", "groups", "blocks", "holdout"])
def test_a_rehearsal_takes_units_groups_blocks_and_held_back_records(monkeypatch, shape):
    branches, given, share = Branches(monkeypatch), tables(1000), None
    if shape == "units":
        given = replace(given, units=np.arange(600) // 3)
    elif shape == "groups":
        entries = pd.DataFrame({"sex": np.where(np.arange(600) % 2, "f", "m")})
        given, share = replace(given, groups={"sex": ["f", "m"]}, private_groups=entries), 0.5
    elif shape == "blocks":
        given = replace(given, stream=PrivateStream.in_memory(given.X_private, given.y_private, None, None))
    else:
        share = 0.5
    train(given, LabelMomentsClassifier(**SETTINGS), holdout_score=share, rehearsal=rehearse)
    assert distinct(branches.done[Way.AS_PLANNED]) == distinct(branches.done["run"])


def test_a_selected_method_is_rehearsed(monkeypatch):
    """With few records and public rows a private majority is selected, for any number of stand-ins."""
    chosen = []
    of = AutoClassifier._fitted_majority
    monkeypatch.setattr(
        AutoClassifier, "_fitted_majority", lambda *given: chosen.append(dpensemble._work.is_rehearsal()) or of(*given)
    )
    train(tables(150, 400), AutoClassifier(**SETTINGS), rehearsal=rehearse)
    assert chosen == [False, True]
    chosen.clear()
    train(tables(150, 700), AutoClassifier(**SETTINGS), rehearsal=rehearse)
    assert chosen == []


@pytest.mark.parametrize(
    "model", [LabelMomentsClassifier(**SETTINGS), PATEClassifier(n_teachers=200, random_state=0, **SETTINGS)]
)
def test_a_rehearsal_announces_nothing_and_moves_no_outcome(model):
    given, announced = tables(1000), []
    with listen(announced.extend):
        rehearsed = train(given, model, rehearsal=rehearse)
    assert len(announced) == 1
    plain = train(given, model)
    assert rehearsed.labels.equals(plain.labels)
    assert rehearsed.record.statement() == plain.record.statement()


def test_a_rehearsal_repeats_little_and_a_run_all_of_it():
    assert dpensemble._work.fewer(12) == 12
    with dpensemble._work.rehearsing(Way.AS_PLANNED):
        assert (dpensemble._work.fewer(12), dpensemble._work.fewer(12, 3), dpensemble._work.fewer(2, 3)) == (1, 3, 2)
