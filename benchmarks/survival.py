"""Risk given a row on real tables: `python benchmarks/survival.py` prints Markdown, the mean over splits and draws.

`LabelMomentsSurvival` stands beside what was possible before: "the event by a time" by `LabelMomentsClassifier` at the
same budget. The time is the middle of the horizon, and people who are censored earlier are left out. It also stands
beside private descent on the pooled logistic loss of bins (`survival_rivals.py`) at the same mu. One setting of that
was fixed in advance on other tables (`--develop` prints how candidates fare there). For "the best" of its grid, each
figure is that of the best setting by test rows. Cox and random survival forests are without privacy. Each split has
public rows, private people and people held back. These are for the figures only.

- concordance: the share of pairs of people, one of whom has the event first, that the scores put in this order.
- Brier: the integrated Brier score up to the horizon, and that at the middle, with weights by the curve of censoring.
- calibration: by fifths of the chance at the middle, the mean distance of the chance from 1 less Kaplan-Meier.

`--held-back` prints how far the released scores on the people held back are from those without noise, bins and groups.

The tables come with lifelines and scikit-survival (`pip install lifelines scikit-survival`).
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from lifelines import datasets
from sksurv.datasets import (
    load_aids,
    load_breast_cancer,
    load_flchain,
    load_gbsg2,
    load_veterans_lung_cancer,
    load_whas500,
)
from sksurv.ensemble import RandomSurvivalForest
from sksurv.linear_model import CoxPHSurvivalAnalysis

from dpensemble import LabelMomentsClassifier, LabelMomentsSurvival
from dpensemble._random import SeededNoise
from dpensemble.errors import BudgetError, UnlikeRowsWarning
from dpensemble.moments.survival import cells_of_times
from dpensemble.quality.times import TimesLayout
from survival_rivals import CANDIDATES, FIXED, GRID, cells_of, descent, encoded

TABLES = {
    "FLChain": load_flchain,
    "AIDS": load_aids,
    "kidney transplants": lambda: (datasets.load_kidney_transplant(), ("death", "time")),
    "GBSG2": load_gbsg2,
    "WHAS500": load_whas500,
    "Rossi": lambda: (datasets.load_rossi(), ("arrest", "week")),
}
# Tables by which the setting of the descent was fixed.
DEVELOPMENT = {
    "lung": lambda: (datasets.load_lung().drop(columns="inst"), ("status", "time")),
    "veterans": load_veterans_lung_cancer,
    "breast cancer": load_breast_cancer,
    "regimes": lambda: (
        datasets.load_dd()[["un_continent_name", "democracy", "regime", "start_year", "observed", "duration"]],
        ("observed", "duration"),
    ),
    "generated": lambda: generated(5000),
    "generated, few": lambda: generated(600),
}
DELTA, BINS = 1e-5, 20
METHODS = ("own", "descent", "grid", "cox", "forest", "all alike")
# Columns that state the end: the chapter of the cause of death, and the censoring of another end.
LEFT_OUT = ("chapter", "sample.yr")


def generated(n):
    """Return a table of ten columns, four of which matter."""
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, 10))
    died = rng.weibull(1.3, n) * np.exp(1 - rows[:, 0] * 0.6 - rows[:, 1] * 0.4 + rows[:, 2] * 0.3 - rows[:, 3] * 0.2)
    left = rng.uniform(0, 8, n)
    table = pd.DataFrame(rows, columns=[f"c{i}" for i in range(10)])
    return table.assign(died=(died <= left).astype(int), time=np.minimum(died, left)), ("died", "time")


def read(name):
    """Return rows, times and events of a table."""
    table, second = (TABLES | DEVELOPMENT)[name]()
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
    X, rows = encoded(X, rows)
    model = CoxPHSurvivalAnalysis(alpha=1.0).fit(X, y)
    curves = model.predict_survival_function(rows)
    # A test time may lie before the first or after the last time of the fit.
    survival = np.array([one(np.clip(at, *one.domain)) for one in curves])
    return model.predict(rows), survival


def forest(X, times, is_event, rows, at, *, seed):
    """Return scores and chances to be free by a random survival forest without privacy.

    Times are rounded up to hundredths of the last wanted time, and people are censored after it.
    """
    X, rows = encoded(X, rows)
    unit = max(at) / 100
    places = np.minimum(np.ceil(times / unit), 101)
    y = np.rec.fromarrays([is_event & (places <= 100), np.maximum(places, 1) * unit], names="event,time")
    model = RandomSurvivalForest(n_estimators=200, min_samples_leaf=15, random_state=seed).fit(X, y)
    curves = model.predict_survival_function(rows)
    return model.predict(rows), np.array([one(np.clip(at, *one.domain)) for one in curves])


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


class Split:
    """A split of a table: public rows, private people, and people held back, with the times of the figures."""

    def __init__(self, name, seed):
        table, times, is_event = read(name)
        self.horizon = float(np.quantile(times, 0.9))
        self.bins, self.middle = np.linspace(0, self.horizon, BINS + 1)[1:], self.horizon / 2
        self.at, self.seed = self.bins[:-1], seed
        private, public, test = split(len(table), seed)
        self.X, self.rows, self.X_public = (table.iloc[part].reset_index(drop=True) for part in (private, test, public))
        self.times, self.is_event = times[private], is_event[private]
        self.y = np.rec.fromarrays([self.is_event, self.times], names="event,time")
        self.goal = times[test], is_event[test], self.at, self.middle
        self.wanted = np.append(self.middle, self.at)

    def scored(self, scores, survival):
        """Return the figures of scores, and of chances to be free at the middle and then at all times."""
        return scored(*self.goal, scores, survival)

    def own(self, epsilon, draw):
        """Yield the figures of `LabelMomentsSurvival` and of the event by the middle."""
        more = {"epsilon": epsilon, "delta": DELTA, "insecure_release_seed": 100 * self.seed + draw}
        model = LabelMomentsSurvival(self.bins, **more).fit(self.X, self.y, X_public=self.X_public)
        survival = 1 - model.predict_risk(self.rows, self.wanted)
        yield "LabelMomentsSurvival", self.scored(model.predict(self.rows), survival)
        known = self.is_event | (self.times >= self.middle)
        within = ((self.times <= self.middle) & self.is_event).astype(int)[known]
        other = LabelMomentsClassifier(classes=[0, 1], **more).fit(self.X[known], within, X_public=self.X_public)
        chance = other.predict_proba(self.rows)[:, 1]
        yield "event by the middle", self.scored(chance, 1 - chance[:, None])

    def descent(self, epsilon, draw, settings):
        """Return the figures of private descent."""
        cells = cells_of(self.times, self.is_event, self.bins)
        more = {"epsilon": epsilon, "delta": DELTA, "seed": (self.seed, draw), "settings": settings}
        scores, survival = descent(self.X_public, self.X, self.rows, cells, **more)
        return self.scored(scores, np.column_stack([survival[:, BINS // 2 - 1], survival[:, :-1]]))

    def without_privacy(self, methods):
        """Yield the figures of methods without privacy."""
        if "cox" in methods:
            yield "Cox without privacy", self.scored(*cox(self.X, self.y, self.rows, self.wanted))
        if "forest" in methods:
            found = forest(self.X, self.times, self.is_event, self.rows, self.wanted, seed=self.seed)
            yield "forest without privacy", self.scored(*found)
        if "all alike" in methods:
            free = kaplan_meier(self.times, self.is_event)
            yield (
                "Kaplan-Meier for all",
                self.scored(np.zeros(len(self.rows)), np.tile(free(self.wanted), (len(self.rows), 1))),
            )


def compared(name, epsilons, splits, draws, methods):
    """Yield a method, an epsilon and the figures of each of its runs."""
    for seed in range(splits):
        own = Split(name, seed)
        for method, figures in own.without_privacy(methods):
            yield method, 0, figures
        for epsilon in epsilons:
            for draw in range(draws):
                if "own" in methods:
                    for method, figures in own.own(epsilon, draw):
                        yield method, epsilon, figures
                if "descent" in methods:
                    yield "descent, fixed", epsilon, own.descent(epsilon, draw, FIXED)
                if "grid" in methods:
                    for settings in GRID:
                        yield settings, epsilon, own.descent(epsilon, draw, settings)


def means(found):
    """Return the mean figures of each method. Of the grid and the fixed setting each figure is that of the best one."""
    of_all = {key: np.mean(figures, axis=0) for key, figures in found.items()}
    shown = {key: figures for key, figures in of_all.items() if key[0] not in GRID}
    for epsilon in sorted({epsilon for method, epsilon in of_all if method in GRID}):
        tried = (*GRID, "descent, fixed")
        grid = np.array([figures for (method, own), figures in of_all.items() if method in tried and own == epsilon])
        shown["descent, the best", epsilon] = np.append(grid[:, 0].max(), grid[:, 1:].min(axis=0))
    return shown


def develop(splits):
    """Print the mean rank of candidates on development tables, over concordance, integrated Brier and calibration."""
    ranks = []
    for name in DEVELOPMENT:
        own = [Split(name, seed) for seed in range(splits)]
        for epsilon in (1.0, 3.0):
            found = [np.mean([each.descent(epsilon, 0, one) for each in own], axis=0) for one in CANDIDATES]
            measures = np.array(found)[:, [0, 1, 3]] * [-1, 1, 1]
            ranks.append(measures.argsort(axis=0).argsort(axis=0).mean(axis=1))
    print("| mean rank | clip | pieces | factor |\n|---|---|---|---|")
    for mean, one in sorted(zip(np.mean(ranks, axis=0), CANDIDATES, strict=True), key=lambda pair: pair[0]):
        print(f"| {mean:.2f} | {one.clip:g} | {one.pieces} | {one.factor:g} |")


def held_back(name, epsilon, splits, draws):
    """Print a row of the released quality of people held back, beside the same figures without noise and groups."""
    rows, size = [], ""
    for seed in range(splits):
        own = Split(name, seed)
        settings = {"epsilon": epsilon, "delta": DELTA, "insecure_release_seed": seed}
        model = LabelMomentsSurvival(own.bins, **settings).fit(own.X, own.y, X_public=own.X_public)
        bins = own.bins.tolist()
        try:
            layout = TimesLayout.planned(bins, [bins[BINS // 2 - 1], bins[-1]], 1, len(own.rows), epsilon, DELTA)
        except BudgetError:
            return print(f"| {name} | {len(own.rows):,} | {epsilon:g} | refused |", flush=True)
        size = f"{layout.n_groups} x {len(layout.ends)}"
        chances = model.student_[-1].predict_cells(model.student_[:-1].transform(own.X_public), layout.ends)
        groups = layout.groups(model.predict_risk(own.X_public, layout.ends), chances)
        times, is_event, at, _ = own.goal
        cells = cells_of_times(np.array(layout.ends), times, is_event.astype(int))
        total = layout.exact_total(groups, model.predict_risk(own.rows, layout.ends[-1]), cells)
        seen = is_event & (times <= own.horizon)
        exact = [concordance(np.minimum(times, own.horizon), seen, model.predict(own.rows))]
        one, all_alike = (
            np.mean(brier(times, is_event, at, 1 - risk))
            for risk in (model.predict_risk(own.rows, at), model.predict_risk(own.X_public, at).mean(axis=0))
        )
        for draw in range(draws):
            found = layout.release(groups, total, SeededNoise(1000 * seed + draw)).figures()
            for figure, value in ((found["concordance"], exact[0]), (found["integrated"]["better"], all_alike - one)):
                rows.append([value, figure["value"] - value, (figure["high"] - figure["low"]) / 2])
    exact, apart, half = np.array(rows).reshape(-1, 2, 3).transpose(2, 0, 1)
    cells = " | ".join(
        f"{true.mean():.3f} | {off.mean():+.3f} | {np.abs(off).mean():.3f} | {band.mean():.3f}"
        for true, off, band in zip(exact.T, apart.T, half.T, strict=True)
    )
    return print(f"| {name} | {len(own.rows):,} | {epsilon:g} | {size} | {cells} |", flush=True)


def main():
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--develop", action="store_true", help="rank settings of the descent on other tables")
    parser.add_argument("--held-back", action="store_true", help="how exact released scores are")
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    warnings.simplefilter("ignore", UnlikeRowsWarning)
    if given.develop:
        return develop(given.splits)
    if given.held_back:
        heads = "mean | error | mean size of the error | half of the band"
        print(f"| table | people | epsilon | groups x times | concordance: {heads} | less Brier than alike: {heads} |")
        print("|---" * 12 + "|")
        for name in given.tables:
            for epsilon in given.epsilons:
                held_back(name, epsilon, given.splits, given.draws)
        return None
    print("| table | method | epsilon | concordance | integrated Brier | Brier at the middle | calibration |")
    print("|---|---|---|---|---|---|---|")
    for name in given.tables:
        found = {}
        for method, epsilon, figures in compared(name, given.epsilons, given.splits, given.draws, given.methods):
            found.setdefault((method, epsilon), []).append(figures)
        for (method, epsilon), figures in means(found).items():
            mean = " | ".join(f"{one:.3f}" for one in figures)
            print(f"| {name} | {method} | {epsilon or '-'} | {mean} |", flush=True)
    return None


if __name__ == "__main__":
    main()
