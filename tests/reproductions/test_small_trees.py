"""Trees in blocks are those of a plain implementation, row by row and split by split."""

import numpy as np
import pytest

from reproductions.small_trees import BoostedTrees, thresholds_of

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(300, 2)), RNG.integers(0, 2, (300, 3))])
Y = (X[:, 0] + X[:, 2] * X[:, 1] + 0.5 * RNG.normal(size=300) > 0).astype(np.int64)
SPLITS = thresholds_of(X, 6)


def grown(rows, slopes, curvatures, depth, fewest):
    """Return a function of a row: greedy splits, and Newton's step in each leaf."""
    best, found = -1.0, None
    for column, threshold in SPLITS if depth else ():
        high = X[rows, column] > threshold
        gain = 0.0
        for side in (rows[high], rows[~high]):
            if len(side) < fewest or curvatures[side].sum() <= 1e-3:
                break
            gain += slopes[side].sum() ** 2 / curvatures[side].sum()
        else:
            if gain > best + 1e-9:
                best, found = gain, (column, threshold, high)
    if found is None:
        step = slopes[rows].sum() / max(curvatures[rows].sum(), 1e-3)
        return lambda row: step
    column, threshold, high = found
    low_side, high_side = (grown(part, slopes, curvatures, depth - 1, fewest) for part in (rows[~high], rows[high]))
    return lambda row: (high_side if row[column] > threshold else low_side)(row)


def boosted(shard, asked, depth, rounds, rate, fewest):
    share = Y[shard].mean()
    scores, answers = np.full(len(X), np.log(share / (1 - share))), np.full(len(asked), np.log(share / (1 - share)))
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(-scores))
        tree = grown(shard, Y - chance, chance * (1 - chance), depth, fewest)
        scores += rate * np.array([tree(row) for row in X])
        answers += rate * np.array([tree(row) for row in asked])
    return answers > 0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_trees_are_those_of_a_plain_implementation(depth):
    shards = [np.arange(0, 60), np.arange(60, 103), np.arange(103, 200), np.arange(200, 215)]
    asked = X[200:]
    learner = BoostedTrees(SPLITS, depth=depth, rounds=4, rate=0.3, fewest=4)
    constants = np.full(4, -1)
    fitted = learner.fit_together(
        X, Y, shards, classes=np.array([0, 1]), constant_votes=constants, seeds=[0] * 4, on_done=lambda n: None
    )
    for t, votes in enumerate(fitted.vote(asked).T):
        np.testing.assert_array_equal(votes, boosted(shards[t], asked, depth, 4, 0.3, 4))


def test_constant_teachers_vote_their_constant_and_progress_counts_all():
    done = []
    shards = [np.arange(40), np.arange(0), np.flatnonzero(Y == 1)[:9]]
    fitted = BoostedTrees(SPLITS, rounds=2).fit_together(
        X,
        Y,
        shards,
        classes=np.array([0, 1]),
        constant_votes=np.array([-1, 0, 1]),
        seeds=[0] * 3,
        on_done=done.append,
    )
    votes = fitted.vote(X)
    assert not votes[:, 1].any()
    assert votes[:, 2].all()
    assert 0 < votes[:, 0].mean() < 1
    assert done == [3]


def test_shards_without_a_split_vote_for_their_majority():
    shard = np.concatenate([np.flatnonzero(Y == 1)[:3], np.flatnonzero(Y == 0)[:2]])
    fitted = BoostedTrees(SPLITS, rounds=3, fewest=5).fit_together(
        X, Y, [shard], classes=np.array([0, 1]), constant_votes=np.array([-1]), seeds=[0]
    )
    assert fitted.vote(X).all()


def test_thresholds_lie_between_values():
    assert thresholds_of(np.array([[0.0, 7.0], [1.0, 7.0], [0.0, 7.0]]), 3) == ((0, 0.5),)
    many = thresholds_of(np.arange(1000.0)[:, None], 8)
    assert len(many) == 8
    assert all(0 < threshold < 999 for _, threshold in many)
