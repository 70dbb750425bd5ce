"""Risk given a row on real tables: `python benchmarks/survival.py` prints Markdown, the mean over splits and draws.

`LabelMomentsSurvival` stands beside what was possible before: "the event by a time" by `LabelMomentsClassifier` at the
same budget. The time is the middle of the horizon, and people who are censored earlier are left out. It stands beside
Cox without privacy, too. Each split has public rows, private people and people held back. These are for the figures
only.

- concordance: the share of pairs of people, one of whom has the event first, that the scores put in this order.
- Brier: the integrated Brier score up to the horizon, and that at the middle, with weights by the curve of censoring.
- calibration: by fifths of the chance at the middle, the mean distance of the chance from 1 less Kaplan-Meier.

The tables come with lifelines and scikit-survival (`pip install lifelines scikit-survival`).
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from lifelines import datasets
from sksurv.datasets import load_aids, load_flchain, load_gbsg2, load_whas500
from sksurv.linear_model import CoxPHSurvivalAnalysis

from dpensemble import LabelMomentsClassifier, LabelMomentsSurvival
from dpensemble.errors import UnlikeRowsWarning

TABLES = {
    "FLChain": load_flchain,
    "AIDS": load_aids,
    "kidney transplants": lambda: (datasets.load_kidney_transplant(), ("death", "time")),
    "GBSG2": load_gbsg2,
    "WHAS500": load_whas500,
    "Rossi": lambda: (datasets.load_rossi(), ("arrest", "week")),
}
DELTA, BINS = 1e-5, 20
# Columns that state the end: the chapter of the cause of death, and the censoring of another end.
LEFT_OUT = ("chapter", "sample.yr")


def read(name):
    """Return rows, times and events of a table."""
    table, second = TABLES[name]()
    if len(second) == 2 and isinstance(second, tuple):
        event, time = second
        times, is_event = table[time].to_numpy(float), (table[event] == table[event].max()).to_numpy()
        table = table.drop(columns=[event, time])
    else:
        event, time = second.dtype.names
        times, is_event = second[time].astype(float), second[event].astype(bool)
    table = table.drop(columns=[one for one in LEFT_OUT if one in table])
    texts = table.select_dtypes(exclude="number").columns
    return table.astype(dict.fromkeys(texts, object)), times, is_event


def kaplan_meier(times, is_event):
    """Return a function that states the curve just after times."""
    order = np.unique(times)
    at_risk = len(times) - np.searchsorted(np.sort(times), order)
    events = np.bincount(np.searchsorted(order, times), is_event)
    curve = np.append(1.0, np.cumprod(1 - events / at_risk))
    return lambda at, side="right": curve[np.searchsorted(order, at, side=side)]


def concordance(times, is_event, scores):
    """Return Harrell's concordance."""
    first = (times[:, None] < times) & is_event[:, None]
    first |= (times[:, None] == times) & is_event[:, None] & ~is_event
    right = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    return float((first * right).sum() / first.sum())


def brier(times, is_event, at, survival):
    """Return the Brier score at each of some times, with weights by the curve of censoring of the same people."""
    free = kaplan_meier(times, ~is_event)
    gone = (times[:, None] <= at) & is_event[:, None]
    weights = gone / np.maximum(free(times, "left")[:, None], 1e-9) + (times[:, None] > at) / np.maximum(free(at), 1e-9)
    return (weights * (survival - (times[:, None] > at)) ** 2).mean(axis=0)


def calibration(times, is_event, at, risk):
    """Return the mean distance of the mean risk from 1 less Kaplan-Meier, by fifths of the risk."""
    groups = np.array_split(np.argsort(risk, kind="stable"), 5)
    apart = [abs(risk[own].mean() - 1 + kaplan_meier(times[own], is_event[own])(at)) for own in groups]
    return float(np.mean(apart))


def split(n, seed):
    """Return places of private people, public rows and people held back."""
    order = np.random.default_rng(seed).permutation(n)
    n_public, n_test = min(600, n // 5), n // 4
    return order[n_public + n_test :], order[:n_public], order[n_public : n_public + n_test]


def cox(X, y, rows, at):
    """Return scores and chances to be free by Cox without privacy."""
    both = pd.get_dummies(pd.concat([X, rows]), drop_first=True, dtype=float)
    both = both.fillna(both.median()).to_numpy()
    both = both[:, both[: len(X)].std(axis=0) > 0]
    both = (both - both[: len(X)].mean(axis=0)) / both[: len(X)].std(axis=0)
    model = CoxPHSurvivalAnalysis(alpha=1.0).fit(both[: len(X)], y)
    curves = model.predict_survival_function(both[len(X) :])
    # A test time may lie before the first or after the last time of the fit.
    survival = np.array([one(np.clip(at, *one.domain)) for one in curves])
    return model.predict(both[len(X) :]), survival


def scored(times, is_event, at, middle, scores, survival):
    """Return concordance, both Brier scores and the calibration. `survival` is at the middle, and then at all times."""
    by_time = np.nan if survival.shape[1] == 1 else float(np.mean(brier(times, is_event, at, survival[:, 1:])))
    own = survival[:, :1]
    return [
        concordance(times, is_event, scores),
        by_time,
        float(brier(times, is_event, np.array([middle]), own)[0]),
        calibration(times, is_event, middle, 1 - own[:, 0]),
    ]


def compared(name, epsilons, splits, draws):
    """Yield a method, an epsilon and the figures of each of its runs."""
    table, times, is_event = read(name)
    horizon = float(np.quantile(times, 0.9))
    bins, middle = np.linspace(0, horizon, BINS + 1)[1:], horizon / 2
    at = bins[:-1]
    y = np.rec.fromarrays([is_event, times], names="event,time")
    for seed in range(splits):
        private, public, test = split(len(table), seed)
        X, rows, X_public = (table.iloc[part].reset_index(drop=True) for part in (private, test, public))
        goal = times[test], is_event[test], at, middle
        scores, survival = cox(X, y[private], rows, np.append(middle, at))
        yield "Cox without privacy", 0, scored(*goal, scores, survival)
        known = is_event[private] | (times[private] >= middle)
        within = ((times[private] <= middle) & is_event[private]).astype(int)[known]
        for epsilon in epsilons:
            for draw in range(draws):
                more = {"epsilon": epsilon, "delta": DELTA, "insecure_release_seed": 100 * seed + draw}
                model = LabelMomentsSurvival(bins, **more).fit(X, y[private], X_public=X_public)
                survival = 1 - model.predict_risk(rows, [middle, *at])
                yield "LabelMomentsSurvival", epsilon, scored(*goal, model.predict(rows), survival)
                other = LabelMomentsClassifier(classes=[0, 1], **more)
                chance = other.fit(X[known], within, X_public=X_public).predict_proba(rows)[:, 1]
                yield "event by the middle", epsilon, scored(*goal, chance, 1 - chance[:, None])
        free = kaplan_meier(times[private], is_event[private])
        curve = np.tile(free(np.append(middle, at)), (len(test), 1))
        yield "Kaplan-Meier for all", 0, scored(*goal, np.zeros(len(test)), curve)


def main():
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    warnings.simplefilter("ignore", UnlikeRowsWarning)
    print("| table | method | epsilon | concordance | integrated Brier | Brier at the middle | calibration |")
    print("|---|---|---|---|---|---|---|")
    for name in given.tables:
        found = {}
        for method, epsilon, figures in compared(name, given.epsilons, given.splits, given.draws):
            found.setdefault((method, epsilon), []).append(figures)
        for (method, epsilon), figures in found.items():
            mean = " | ".join(f"{one:.3f}" for one in np.mean(figures, axis=0))
            print(f"| {name} | {method} | {epsilon or '-'} | {mean} |", flush=True)


if __name__ == "__main__":
    main()
