"""Errors, coverage and tests of private life tables on real tables: `python benchmarks/life_tables.py` prints Markdown.

`errors` is the largest error of the curve against the same bins without privacy, over times at which a tenth is at
risk, as the mean over releases. Beside it is the curve that everybody can write in ten lines: a noisy count of each
cell, cut at 0. The error by the bins themselves is that against Kaplan-Meier without bins. `coverage` counts releases
whose band holds the whole curve: people are drawn from the table with replacement, and the table is the population.
`tests` counts rejections of the log-rank test between two random halves, and between halves whose hazards differ.

`pure` compares our sum and cut counts with Laplace noise, at delta 0, with a published recipe (`noisy_curves.py`). The
recipe has noise by its sensitivity, or noise as its authors' code sets it, which has no guarantee. Both have the basis
and the smoothing that are best by the exact curve.

The tables come with lifelines and scikit-survival (`pip install lifelines scikit-survival`).
"""

import argparse
import math

import numpy as np
from lifelines import datasets
from scipy import stats
from sksurv.datasets import load_flchain, load_gbsg2, load_whas500

from dpensemble import LifeTable
from dpensemble.cost import gaussian_mu
from dpensemble.moments.life_table import LifeTableEstimate, columns_of_bins
from noisy_curves import kaplan_meier, kaplan_meier_at, left_out, recipe_bases, recipe_sensitivity, recipe_smoothings

TABLES = {
    "FLChain": load_flchain,
    "kidney transplants": lambda: (datasets.load_kidney_transplant(), ("death", "time")),
    "GBSG2": load_gbsg2,
    "WHAS500": load_whas500,
    "lung": lambda: (datasets.load_lung(), ("status", "time")),
}
# Hazard ratios at which the power is measured.
RATIOS = {"FLChain": 1.25, "kidney transplants": 1.6, "GBSG2": 1.6, "WHAS500": 1.6, "lung": 1.8}
DELTA = 1e-5


def read(name):
    """Return times and events of a table."""
    table, second = TABLES[name]()
    if isinstance(second, tuple):
        event, time = second
        table = table.dropna(subset=[time, event])
        return table[time].to_numpy(float), (table[event] == table[event].max()).to_numpy()
    event, time = second.dtype.names
    return second[time].astype(float), second[event].astype(bool)


def ends_of(times, n_bins):
    """Return ends of bins of equal width."""
    return np.linspace(0, np.quantile(times, 0.995), n_bins + 1)[1:]


def by_bins(ends, times, is_event):
    """Return events, censorings and the number beyond the horizon, and the curve and who is at risk."""
    is_event = is_event & (times <= ends[-1])
    bins = np.where(is_event, np.searchsorted(ends, times), np.searchsorted(ends, times, side="right"))
    cells = [np.bincount(bins[chosen], minlength=len(ends) + 1).astype(float) for chosen in (is_event, ~is_event)]
    return cells[0][:-1], cells[1]


def curve(events, censored):
    """Return Kaplan-Meier and the number at risk, from counts of bins."""
    entering = (np.append(events, 0.0) + censored)[::-1].cumsum()[::-1][:-1]
    exposed = np.maximum(entering - censored[:-1] / 2, 1e-9)
    return np.cumprod(1 - np.clip(events / exposed, 0.0, 1.0)), entering


def noise_of(epsilon):
    """Return the standard deviation of the noise on an entry of the sum, under replace-one."""
    return math.sqrt(2) / gaussian_mu(epsilon, DELTA)


def errors(times, is_event, n_bins, epsilon, releases):
    """Return errors of the library's curve and of cut counts, each of shape (releases,), times shown, and of bins."""
    ends = ends_of(times, n_bins)
    events, censored = by_bins(ends, times, is_event)
    exact, entering = curve(events, censored)
    enough = entering >= 0.1 * len(times)
    of_bins = np.abs(kaplan_meier_at(times, is_event, ends) - exact)[enough].max()
    rng, noise = np.random.default_rng(0), noise_of(epsilon)
    own, cut, shown = [], [], []
    for seed in range(releases):
        table = LifeTable(ends, epsilon=epsilon, delta=DELTA, insecure_release_seed=seed).fit(times, is_event)
        line = table.life_table_.curves[0].survival
        inside = enough[: len(line)]
        own.append(np.abs(line - exact[: len(line)])[inside].max(initial=0.0))
        shown.append(inside.sum() / enough.sum())
        noisy = [np.maximum(one + noise * rng.normal(size=len(one)), 0.0) for one in (events, censored)]
        cut.append(np.abs(curve(*noisy)[0] - exact)[enough].max())
    return np.array(own), np.array(cut), np.array(shown), of_bins


def pure(times, is_event, n_bins, epsilon, releases):
    """Return mean errors at delta 0: our sum and times shown, cut counts, the recipe, and the authors' noise."""
    ends, rng = ends_of(times, n_bins), np.random.default_rng(3)
    events, censored = by_bins(ends, times, is_event)
    exact, entering = curve(events, censored)
    enough = entering >= 0.1 * len(times)
    without_bins = kaplan_meier_at(times, is_event, ends)
    columns = columns_of_bins(n_bins)
    # Events and censorings have blocks of their own, so a replaced person takes one column away and adds another.
    scale = 2 * np.abs(columns).sum(axis=0).max() / epsilon
    own, shown = [], []
    for _ in range(releases):
        estimate = released(rng, ends, [(times, is_event)], scale * math.sqrt(2), laplace=True)
        line = estimate.curves[0].survival
        own.append(np.abs(line - exact[: len(line)])[enough[: len(line)]].max(initial=0.0))
        shown.append(enough[: len(line)].sum() / enough.sum())
    cut = []
    for _ in range(releases):
        noisy = [np.maximum(one + rng.laplace(scale=2 / epsilon, size=len(one)), 0.0) for one in (events, censored)]
        cut.append(np.abs(curve(*noisy)[0] - exact)[enough].max())
    recipe = [[], []]
    for basis in recipe_bases(n_bins).values():
        proven, unproven = recipe_sensitivity(basis) / epsilon, left_out(times, is_event, ends) / epsilon
        for figures, own_scale in zip(recipe, (proven, unproven), strict=True):
            drawn = rng.laplace(scale=own_scale, size=(releases, len(basis)))
            noisy = without_bins + drawn @ np.linalg.pinv(basis).T
            lines = np.array([list(recipe_smoothings(one)) for one in noisy])
            figures.append(np.abs(lines - without_bins)[:, :, enough].max(axis=2).mean(axis=0).min())
    return np.mean(own), np.mean(shown), np.mean(cut), *map(min, recipe)


def released(rng, ends, parts, spread, *, laplace=False):
    """Return the estimate of a noisy sum of several strata, each given as times and events."""
    columns, n_bins, blocks = columns_of_bins(len(ends)), len(ends), []
    for times, is_event in parts:
        events, censored = by_bins(ends, times, is_event)
        reverse = n_bins - np.arange(n_bins + 1)
        blocks += [columns[:, reverse] @ censored, columns[:, reverse[:-1]] @ events]
    exact = np.column_stack(blocks)
    names = tuple(map(str, range(len(parts))))
    noise = rng.laplace(scale=math.sqrt(0.5), size=exact.shape) if laplace else rng.normal(size=exact.shape)
    return LifeTableEstimate(ends, names, exact + spread * noise, spread)


def coverage(times, is_event, n_bins, epsilon, releases):
    """Return how often the bands for the population and for the table's own people hold the whole curve."""
    ends, rng, spread = ends_of(times, n_bins), np.random.default_rng(1), noise_of(epsilon)
    truth = curve(*by_bins(ends, times, is_event))[0]
    held = np.zeros(2, dtype=int)
    for _ in range(releases):
        drawn = rng.integers(len(times), size=len(times))
        line = released(rng, ends, [(times[drawn], is_event[drawn])], spread).curves[0]
        own = curve(*by_bins(ends, times[drawn], is_event[drawn]))[0]
        for place, (low, high, goal) in enumerate(
            ((line.low, line.high, truth), (line.sample_low, line.sample_high, own))
        ):
            banded = ~np.isnan(low)
            there = goal[: len(low)][banded]
            held[place] += bool(((low[banded] <= there) & (there <= high[banded])).all())
    return held


def drawn_from(rng, times, is_event, size, ratio=1.0):
    """Return people whose events follow the table's curve with hazards times `ratio`, and its censoring."""
    ends = []
    for which, power in ((is_event, ratio), (~is_event, 1.0)):
        order, line = kaplan_meier(times, which)
        # The curve falls from 1, so the first time at or below a uniform draw has its law.
        place = np.searchsorted(-(line**power), -rng.uniform(size=size))
        ends.append(np.append(order, np.inf)[place])
    event, left = ends
    left = np.minimum(left, times.max())
    return np.minimum(event, left), event <= left


def tests(times, is_event, n_bins, epsilon, simulations, ratio):
    """Return how often the test rejects at 5 %: without privacy, without the noise term, and as released."""
    ends, rng, spread = ends_of(times, n_bins), np.random.default_rng(2), noise_of(epsilon)
    rejected = np.zeros(3, dtype=int)
    half = len(times) // 2
    for _ in range(simulations):
        parts = [drawn_from(rng, times, is_event, size, own) for size, own in ((half, 1.0), (len(times) - half, ratio))]
        noisy = released(rng, ends, parts, spread)
        rejected[0] += textbook_log_rank([by_bins(ends, *part) for part in parts]) < 0.05
        # The counts that everybody can read off the release, cut at 0.
        read_back = np.maximum(np.linalg.solve(columns_of_bins(n_bins), noisy.noisy), 0.0)[::-1].T
        rejected[1] += textbook_log_rank([(read_back[1][:-1], read_back[0]), (read_back[3][:-1], read_back[2])]) < 0.05
        test = noisy.log_rank
        rejected[2] += test is not None and test.p_value < 0.05
    return rejected


def textbook_log_rank(parts):
    """Return the p-value of the test between two strata, from counts of bins, without noise in its variance."""
    events = np.array([one for one, _ in parts])
    exposed = np.array([np.maximum(curve(*one)[1] - one[1][:-1] / 2, 1e-9) for one in parts])
    together, share = exposed.sum(axis=0), exposed[0] / exposed.sum(axis=0)
    hazard = np.clip(events.sum(axis=0) / together, 0.0, 1.0)
    enough = together >= 10
    observed = (events[0] - share * events.sum(axis=0))[enough].sum()
    variance = (share * (1 - share) * together * hazard * (1 - hazard))[enough].sum()
    return stats.chi2.sf(observed**2 / variance, 1)


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["errors", "pure", "coverage", "tests"], nargs="?", default="errors")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--releases", type=int, default=50)
    parser.add_argument("--bins", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    given = parser.parse_args()
    heads = {
        "errors": "LifeTable | its 95 % quantile | cut counts | factor | times shown | by bins",
        "pure": "our sum | times shown | cut counts | recipe | without guarantee: recipe with the authors' noise",
        "coverage": "population | own people | releases",
        "tests": "level: no privacy | no noise term | LifeTable | hazard ratio | power: no privacy | LifeTable",
    }[given.what]
    print(f"| table | people | bins | epsilon | {heads} |\n|{'---|' * (heads.count('|') + 5)}")
    for name in given.tables:
        times, is_event = read(name)
        for n_bins in given.bins:
            for epsilon in given.epsilon:
                about = (times, is_event, n_bins, epsilon, given.releases)
                print(
                    f"| {name} | {len(times):,} | {n_bins} | {epsilon:g} | {figures(given, name, about)} |", flush=True
                )


def figures(given, name, about):
    """Return the cells of a row."""
    n = given.releases
    if given.what == "errors":
        own, cut, shown, of_bins = errors(*about)
        return (
            f"{own.mean():.4f} | {np.quantile(own, 0.95):.4f} | {cut.mean():.4f} | {cut.mean() / own.mean():.1f} | "
            f"{shown.mean():.0%} | {of_bins:.4f}"
        )
    if given.what == "pure":
        return " | ".join(f"{one:.4f}" for one in pure(*about))
    if given.what == "coverage":
        held = coverage(*about)
        return f"{held[0]} | {held[1]} | {n}"
    level, power = tests(*about, 1.0), tests(*about[:4], max(n // 4, 1), RATIOS[name])
    shares = [f"{one / n:.3f}" for one in level]
    strong = [f"{one / max(n // 4, 1):.2f}" for one in power]
    return f"{' | '.join(shares)} | {RATIOS[name]:g} | {strong[0]} | {strong[2]}"


if __name__ == "__main__":
    main()
