"""What the tables of differentially private bagging run: teachers once, every row's labels from prefixes of them.

The noise and the votes of a row do not depend on epsilon, which only decides how many of the noisy labels the student
sees. Partitions are drawn one by one, so 10 of them are the first 10 of 100. SAA is the first alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from dpensemble._random import SeededNoise
from dpensemble.accounting.published import changeable_votes, laplace_moments
from dpensemble.allocation import partitions
from dpensemble.cost import Conversion
from dpensemble.datasets import fit_encoder, three_way_split
from dpensemble.design import plan
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax, sample
from dpensemble.methods import DPBaggingClassifier, LabelMomentsClassifier
from dpensemble.student import class_probabilities, fit_student
from dpensemble.teachers import TeacherEnsemble
from dpensemble.votes import Votes
from dpensemble.workflow.learners import scores
from reproductions.data import Rows, load_table
from reproductions.declared import Cell, Figures, Settings, figure
from reproductions.small_trees import BoostedTrees, thresholds_of
from reproductions.store import Workplace

LABELS, ACCURACY, AUROC, AUPRC = "Labels", "Accuracy", "AUROC", "AUPRC"
#: The published label counts belong to this delta, although the paper states another. See the pages.
PUBLISHED_DELTA, STATED_DELTA = 1e-3, 1e-5
AS_STATED, EXACT = "stated", "exact"
MOMENTS, NO_PRIVACY = "Label moments", "NPB"
_METRICS = {ACCURACY: "accuracy", AUROC: "auroc", AUPRC: "auprc"}
_CHUNK, _UNITS = 512, 2048
# Fit, votes and account of one teacher, on one core, and the models without teachers.
_SECONDS_A_TEACHER = {
    ("adult", "logistic-regression"): 0.006,
    ("adult", "boosting"): 0.012,
    ("rand-health", "logistic-regression"): 0.0003,
    ("rand-health", "boosting"): 0.007,
}
_SECONDS_ALONE = {"adult": 15, "rand-health": 3}


def column(epsilon: float) -> str:
    """Return how a column of a budget is called."""
    return f"epsilon {epsilon:g}"


def cells(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return one cell a repeat and number of teachers, and one for the models without teachers."""
    each = _SECONDS_A_TEACHER[settings["data"], settings["learner"]]
    for repeat in range(seed, seed + settings["repeats"]):
        for n, ks in settings["sizes"].items():
            cost = each * int(n) * max(ks)
            yield Cell(name=f"n{n}-run{repeat}", seconds=cost, work=partial(_teachers, settings, int(n), ks, repeat))
        yield Cell(
            name=f"alone-run{repeat}", seconds=_SECONDS_ALONE[settings["data"]], work=partial(_alone, settings, repeat)
        )


@dataclass(frozen=True)
class _Labelled:
    """Noisy labels of public rows in turn, and how many of them each budget buys by each account."""

    labels: NDArray[np.int64]
    bought: dict[tuple[float, str], int]


def table_rows(settings: Settings, repeat: int) -> Rows:
    """Return a split of a table: a third private, a third public and a third for testing."""
    table = load_table(settings["data"])
    split = three_way_split(len(table.X), random_state=repeat)
    encoder = fit_encoder(table.X.iloc[split.public])
    y = table.positive
    X = {name: encoder.transform(table.X.iloc[getattr(split, name)]) for name in ("private", "public", "test")}
    return Rows(X["private"], y[split.private], X["public"], y[split.public], X["test"], y[split.test])


def _teachers(settings: Settings, n: int, ks: Sequence[int], repeat: int, place: Workplace) -> Figures:
    """Run all rows of one number of teachers."""
    rows = table_rows(settings, repeat)
    epsilons = tuple(settings["epsilons"])
    order = np.random.default_rng([repeat, n]).permutation(len(rows.X_public))
    allocation = partitions(range(len(rows.X)), n, max(ks), entropy=repeat)
    ensemble = TeacherEnsemble(
        teacher_of(settings, rows.X_public), allocation, np.array([0, 1]), entropy=repeat, n_jobs=place.n_jobs
    ).fit(rows.X, rows.y, lambda _: None)
    free = {k: _data_independent(n, k, epsilons, place) for k in (1, *ks)}
    bounds = _bounds(n, free, epsilons, len(order))
    counts, spent = _counted(ensemble, rows.X_public[order], bounds, allocation.memberships)
    figures: Figures = {}
    for k in (1, *ks):
        law = LaplaceNoisyMax(k * n / 2)
        labels = sample(law, counts[k], SeededNoise(1000 * repeat + k))
        if k == 1:
            _learn(figures, f"SAA n={n}", rows, order, _Labelled(labels, free[k]), settings, repeat)
            continue
        own = {
            (epsilon, name): _fitting(spent[k], k * n / 2, epsilon, delta) + breach
            for epsilon in epsilons
            for name, delta, breach in (("", PUBLISHED_DELTA, 1), (AS_STATED, STATED_DELTA, 0))
        }
        own |= {(epsilon, EXACT): free[k][epsilon, EXACT] for epsilon in epsilons}
        _learn(figures, f"DPBag n={n} k={k}", rows, order, _Labelled(labels, own), settings, repeat)
        if k in settings["data_independent"].get(str(n), ()):
            _learn(figures, f"DPBag- n={n} k={k}", rows, order, _Labelled(labels, free[k]), settings, repeat)
    return figures


def teacher_of(settings: Settings, X_public: NDArray[np.float64]) -> Any:
    """Return the teachers' learner. Boosting chooses from splits of public rows, so that thousands are fast."""
    if settings["learner"] == "boosting":
        trees = {name: settings[name] for name in ("depth", "rounds", "rate")}
        return BoostedTrees(thresholds_of(X_public, settings["thresholds"]), **trees)
    return LogisticRegression(max_iter=1000)


def student_of(settings: Settings) -> Any:
    """Return the student's learner, of the teachers' kind. Boosting has the usual settings of XGBoost."""
    if settings["learner"] == "boosting":
        return HistGradientBoostingClassifier(
            learning_rate=0.3,
            max_depth=6,
            max_leaf_nodes=2**6,
            min_samples_leaf=4,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=0,
        )
    return LogisticRegression(max_iter=1000)


def _without_privacy(settings: Settings) -> Any:
    """Return the learner of all records together."""
    if settings["learner"] == "boosting":
        from lightgbm import LGBMClassifier  # noqa: PLC0415 - an extra

        return LGBMClassifier(n_jobs=1, verbosity=-1)
    return LogisticRegression(max_iter=1000)


def _exact_labels(n: int, k: int, epsilons: Sequence[float]) -> NDArray[np.int64]:
    """Return the labels that the exact worst case allows with the paper's noise, by budget."""
    design = DPBaggingClassifier(n_teachers=n, n_partitions=k, law=LaplaceNoisyMax(k * n / 2)).design(n_classes=2)
    return np.array([plan(design, epsilon=epsilon, delta=STATED_DELTA).labels for epsilon in epsilons])


def published_labels(scale: float, votes: int, epsilon: float, delta: float) -> int:
    """Return how many answers the published data-independent moments allow within the budget."""
    return laplace_moments(scale, votes**2).most(Budget(epsilon=epsilon, delta=delta), Conversion.CLASSICAL)


def _data_independent(n: int, k: int, epsilons: Sequence[float], place: Workplace) -> dict[tuple[float, str], int]:
    """Return the labels of SAA and DPBag-: the paper counts the one that breaches the budget, too."""
    counts = {}
    exact = place.kept(("exact labels", n, k, list(epsilons)), lambda: _exact_labels(n, k, epsilons))
    for epsilon, labels in zip(epsilons, exact.tolist(), strict=True):
        counts[epsilon, ""] = published_labels(k * n / 2, k, epsilon, PUBLISHED_DELTA) + 1
        counts[epsilon, AS_STATED] = published_labels(k * n / 2, k, epsilon, STATED_DELTA)
        counts[epsilon, EXACT] = labels
    return counts


def _fitting(spent: NDArray[np.int64], scale: float, epsilon: float, delta: float) -> int:
    """Return how many leading answers fit, given the largest sum of squared votes after each."""
    most = laplace_moments(scale, 1).most(Budget(epsilon=epsilon, delta=delta), Conversion.CLASSICAL)
    return int(np.count_nonzero(spent <= most))


@dataclass(frozen=True)
class _Bounds:
    """For each number of partitions: answers that are needed at least, and the sum after which no more are."""

    answers: dict[int, int]
    sums: dict[int, int]
    subsets: int


def _bounds(
    n: int, free: Mapping[int, Mapping[tuple[float, str], int]], epsilons: Sequence[float], n_public: int
) -> _Bounds:
    most = max(epsilons)
    answers, sums = {}, {}
    for k, bought in free.items():
        answers[k] = min(n_public, max(bought.values()))
        sums[k] = laplace_moments(k * n / 2, 1).most(Budget(epsilon=most, delta=PUBLISHED_DELTA), Conversion.CLASSICAL)
    return _Bounds(answers, sums, n)


def _counted(
    ensemble: TeacherEnsemble, X_public: NDArray[np.float64], bounds: _Bounds, members: NDArray[np.int64]
) -> tuple[dict[int, NDArray[np.int64]], dict[int, NDArray[np.int64]]]:
    """Return, for each number of partitions, counts, and the largest sum of squared votes of any record by query."""
    ks = list(bounds.answers)
    sums = {k: np.zeros(len(members), dtype=np.int64) for k in ks if k > 1}
    counts: dict[int, list[NDArray[np.int64]]] = {k: [] for k in ks}
    spent: dict[int, list[NDArray[np.int64]]] = {k: [] for k in ks}
    open_accounts, done = set(sums), 0
    while done < len(X_public) and (open_accounts or done < max(bounds.answers.values())):
        votes = ensemble.vote(X_public[done : done + _CHUNK])
        for k in ks:
            ballots = votes.ballots[:, : k * bounds.subsets]
            counts[k].append(Votes(ballots, 2).counts)
            if k in open_accounts:
                spent[k].append(charged(ballots, members[:, :k], sums[k]))
                if spent[k][-1][-1] > bounds.sums[k]:
                    open_accounts.discard(k)
        done += votes.n_queries
    return (
        {k: np.concatenate(found) for k, found in counts.items()},
        {k: np.concatenate(found) for k, found in spent.items() if found},
    )


def charged(
    ballots: NDArray[np.unsignedinteger], members: NDArray[np.int64], sums: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Add each record's squared changeable votes to `sums`, and return the largest sum after each query.

    The paper's personalised moments (section 4.3) for all queries alike, whether they fit a budget or not.
    """
    by_teacher = np.ascontiguousarray(ballots.T)
    largest = np.zeros(len(ballots), dtype=np.int64)
    for start in range(0, len(members), _UNITS):
        rows = slice(start, start + _UNITS)
        running = np.cumsum(changeable_votes(by_teacher, members[rows], 2) ** 2, axis=1, dtype=np.int64)
        running += sums[rows, None]
        np.maximum(largest, running.max(axis=0), out=largest)
        sums[rows] = running[:, -1]
    return largest


def _learn(
    found: Figures,
    row: str,
    rows: Rows,
    order: NDArray[np.int64],
    labelled: _Labelled,
    settings: Settings,
    repeat: int,
) -> None:
    """Note the labels of each budget and account, and how good the student is that learns from them."""
    scored: dict[int, Mapping[str, float]] = {}
    for epsilon in settings["epsilons"]:
        for account in ("", AS_STATED, EXACT):
            n_labels = labelled.bought[epsilon, account]
            found[figure(row, LABELS, column(epsilon), account)] = n_labels
            used = min(n_labels, len(labelled.labels))
            if not used:
                continue
            if used not in scored:
                student = fit_student(student_of(settings), rows.X_public[order[:used]], labelled.labels[:used], repeat)
                scored[used] = _scored(student, rows)
            _note(found, row, epsilon, account, scored[used])


def _scored(model: Any, rows: Rows) -> dict[str, float]:
    return scores(class_probabilities(model, rows.X_test, np.array([0, 1])), rows.y_test, np.array([0, 1]))


def _note(found: Figures, row: str, epsilon: float, account: str, scored: Mapping[str, float]) -> None:
    for panel, metric in _METRICS.items():
        if metric in scored:
            found[figure(row, panel, column(epsilon), account)] = scored[metric]


def _alone(settings: Settings, repeat: int, place: Workplace) -> Figures:  # noqa: ARG001
    """Fit the model without privacy, and label moments at each budget."""
    rows = table_rows(settings, repeat)
    figures: Figures = {}
    plain = _scored(fit_student(_without_privacy(settings), rows.X, rows.y, repeat), rows)
    table = load_table(settings["data"])
    split = three_way_split(len(table.X), random_state=repeat)
    X, X_public, X_test = (table.X.iloc[getattr(split, name)] for name in ("private", "public", "test"))
    for epsilon in settings["epsilons"]:
        _note(figures, NO_PRIVACY, epsilon, "", plain)
        model = LabelMomentsClassifier(
            classes=[0, 1], epsilon=epsilon, delta=STATED_DELTA, random_state=repeat, insecure_release_seed=repeat
        ).fit(X, rows.y, X_public=X_public)
        own = scores(model.predict_proba(X_test), rows.y_test, np.array([0, 1]))
        _note(figures, MOMENTS, epsilon, "", own)
    return figures
