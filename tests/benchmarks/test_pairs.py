"""Two checkouts beside each other: turns, differences, flags, and what a worker imports."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from arena import pairs, results, rivals
from arena.encoding import Encoded
from arena.pairs import Checkout, Pairs
from arena.sources import Rows
from arena.tables import TABLES

BEFORE, AFTER = Checkout(Path("/earlier"), "aaa"), Checkout(Path("/own"), "bbb")


def _pairs(**more):
    wanted = {"tables": TABLES[:1], "epsilons": (1.0,), "splits": (8, 9), "draws": 2} | more
    return Pairs(BEFORE, AFTER, **wanted)


def test_the_two_fits_of_a_pair_stand_together_and_take_turns():
    versions = [task.version for task in _pairs().tasks()]
    assert versions == ["aaa", "bbb", "bbb", "aaa", "aaa", "bbb", "bbb", "aaa"]
    tasks = list(_pairs().tasks())
    assert all(one.seed == other.seed for one, other in zip(tasks[::2], tasks[1::2], strict=True))


def test_equal_checkouts_are_refused(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"--against .* has the same library"):
        pairs.two(tmp_path, tmp_path)


def _known(accuracy, log_loss, **more):
    """Outcomes of all pairs: what the second checkout has more of, pair by pair."""
    known, shifts = {}, {"aaa": 0.0, "bbb": 1.0}
    for number, task in enumerate(_pairs(**more).tasks()):
        pair, share = number // 2, shifts[task.version]
        known[task] = {
            "accuracy": 0.8 + share * accuracy[pair],
            "auroc": 0.9,
            "log_loss": 0.4 + share * log_loss[pair],
            "seconds": 1.0 + share,
        }
    return known


def test_differences_above_0_are_better():
    frame = _pairs().differences(_known([0.01, 0.02, 0.01, 0.02], [0.1] * 4))
    assert len(frame) == 4
    assert frame["accuracy"].mean() == pytest.approx(0.015)
    assert frame["log_loss"].tolist() == pytest.approx([-0.1] * 4)


def test_what_got_worse_by_more_than_the_limit_and_chance_is_flagged():
    text = pairs.report(_pairs(), _known([-0.004, -0.005, -0.004, -0.005], [0.004] * 4))
    assert "- adult at epsilon 1: accuracy -0.0045 ±0.0003" in text
    # A log-loss of .004 more is below the limit of .005.
    assert "log_loss" not in text
    assert "| 2.00 |" in text


def test_a_loss_that_chance_can_make_is_not_flagged():
    text = pairs.report(_pairs(), _known([-0.1, 0.09, -0.1, 0.09], [0.0] * 4))
    assert "No table lost more than its limit and two standard errors." in text


def test_a_pair_with_an_error_does_not_count():
    known = _known([0.0] * 4, [0.0] * 4)
    known[next(iter(known))] = {"error": "late"}
    assert len(_pairs().differences(known)) == 3
    assert "1 fits ended in an error" in pairs.report(_pairs(), known)


def test_results_are_kept_by_the_sources_of_the_library(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.py").write_text("x = 1\n")
    first = pairs.checkout(tmp_path).digest
    assert pairs.checkout(tmp_path).digest == first
    (tmp_path / "src" / "one.py").write_text("x = 2\n")
    assert pairs.checkout(tmp_path).digest != first


def test_a_folder_without_sources_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--against"):
        pairs.checkout(tmp_path)


def test_a_stopped_comparison_goes_on(tmp_path):
    path, tasks = tmp_path / "pairs.jsonl", list(_pairs().tasks())
    results.append(path, tasks[0], {"accuracy": 0.5})
    assert set(results.load(path)) == {tasks[0]}


def test_a_worker_imports_only_the_checkout_under_test(tmp_path):
    """The library of the checkout is one line of code, which answers with the shares that the seed gives."""
    library = tmp_path / "src" / "dpensemble"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(_LIBRARY)
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"number": draw.normal(size=12)})
    rows = Rows("made", 8, ("no", "yes"), X, np.arange(12) % 2, X, X, np.arange(12) % 2)
    probabilities, _ = rivals.of_checkout(tmp_path, "label_moments", Encoded(rows), epsilon=1.0, delta=1e-5, seed=3)
    rivals.checkout_worker(tmp_path).stop()
    assert probabilities.tolist() == [[0.25, 0.75]] * 12
    assert str(tmp_path / "src") == rivals.checkout_worker(tmp_path).path.split(os.pathsep)[0]


_LIBRARY = """
import numpy as np
class LabelMomentsClassifier:
    def __init__(self, *, classes, random_state=None, **settings):
        self.classes_, self.seed = np.array(classes), random_state
    def fit(self, X, y, X_public):
        return self
    def predict_proba(self, X):
        return np.tile([0.25, 0.75], (len(X), 1)) if self.seed == 3 else None
"""
