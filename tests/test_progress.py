"""Bars of passes over private records: on the screen of their owner, and in no event."""

import numpy as np
import pytest

from dpensemble import LabelMomentsClassifier, show_progress
from dpensemble._progress import ShownPasses, pass_bar, pass_named, progress_bar, progress_heard_by
from dpensemble.clusters.base import results_of
from dpensemble.moments import learning

class Rows:
    def __init__(self, n):
        self.n = n

    def tables(self):
        yield range(self.n)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_pass_counts_its_parts(capsys):
    with show_progress(), pass_named("Round 2 of 3"):
        assert list(results_of(lambda tables: sum(map(len, tables)), [Rows(3), Rows(4)])) == [3, 4]
    assert "Round 2 of 3: 2 of 2 parts" in capsys.readouterr().err


@pytest.mark.usefixtures("few_synthetic_rows")
def test_the_first_pass_over_blocks_counts_for_the_next_ones(capsys):
    passes = ShownPasses()
    with show_progress():
        for _ in range(2):
            assert len(list(passes.over(iter([([1, 2], [0, 1]), ([3], [0])])))) == 2
    shown = capsys.readouterr().err
    assert "Checking records: 3 records" in shown
    assert "Checking records: 3 of 3 records" in shown


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_pass_within_other_work_is_shown_below_it(capsys):
    with show_progress(), progress_bar("Releasing moments", 3), pass_bar(5, "parts") as advance:
        advance(1)
    shown = capsys.readouterr().err
    assert "Releasing moments" in shown
    # It is removed when it ends.
    assert "1 of 5 parts" not in shown.splitlines()[-1]


@pytest.mark.usefixtures("few_synthetic_rows")
def test_nothing_is_shown_by_default_and_programs_hear_nothing(capsys):
    heard = []
    with progress_heard_by(lambda *event: heard.append(event)), pass_bar(5, "parts") as advance:
        advance(5)
    with show_progress(), progress_heard_by(lambda *event: heard.append(event)), pass_bar(7, "parts") as advance:
        advance(7)
    shown = capsys.readouterr().err
    assert heard == []
    assert "of 5 parts" not in shown
    assert "7 of 7 parts" in shown


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_fit_to_blocks_shows_its_passes_and_reports_rounds_only(capsys, monkeypatch):
    titles = []
    monkeypatch.setattr(learning, "pass_named", lambda title: titles.append(title) or pass_named(title))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(137, 2))
    y = (X[:, 0] > 0).astype(int)
    events = []
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, rounds=2, insecure_release_seed=0)
    with show_progress(), progress_heard_by(lambda *event: events.append(event)):
        public = rng.normal(size=(40, 2))
        model.fit_blocks(lambda: iter([(X[:100], y[:100]), (X[100:], y[100:])]), X_public=public)
    # Bars of rounds vanish when the round ends.
    assert "Checking records: 137 records" in capsys.readouterr().err
    assert [title for title in titles if title != "Statistics"] == ["Round 1 of 2", "Round 2 of 2"]
    assert events
    assert "137" not in str(events)
