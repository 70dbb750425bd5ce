"""Errors of private life tables on real tables: `python benchmarks/life_tables.py --releases 50` prints Markdown.

The largest error of the curve against the same bins without privacy, over times at which a tenth is at risk, as the
mean over releases. Beside it the curve that everybody can write in ten lines: a noisy count of each cell, cut at 0.
The tables come with lifelines (`pip install lifelines`).
"""

import argparse
import math

import numpy as np
from lifelines import datasets

from dpensemble import LifeTable
from dpensemble.cost import gaussian_mu

TABLES = {
    "kidney transplants": (datasets.load_kidney_transplant, "time", "death"),
    "GBSG2": (datasets.load_gbsg2, "time", "cens"),
    "lung": (datasets.load_lung, "time", "status"),
}


def read(name):
    """Return times and events of a table."""
    load, time, event = TABLES[name]
    table = load().dropna(subset=[time, event])
    return table[time].to_numpy(float), (table[event] == table[event].max()).to_numpy()


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


def errors(times, is_event, n_bins, epsilon, releases):
    """Return errors of the library's curve and of cut counts, each of shape (releases,)."""
    ends = np.linspace(0, np.quantile(times, 0.995), n_bins + 1)[1:]
    events, censored = by_bins(ends, times, is_event)
    exact, entering = curve(events, censored)
    enough = entering >= 0.1 * len(times)
    rng, noise = np.random.default_rng(0), math.sqrt(2) / gaussian_mu(epsilon, 1e-5)
    own, cut, shown = [], [], []
    for seed in range(releases):
        table = LifeTable(ends, epsilon=epsilon, delta=1e-5, insecure_release_seed=seed).fit(times, is_event)
        line = table.life_table_.curves[0].survival
        inside = enough[: len(line)]
        own.append(np.abs(line - exact[: len(line)])[inside].max(initial=0.0))
        shown.append(inside.sum() / enough.sum())
        noisy = [np.maximum(one + noise * rng.normal(size=len(one)), 0.0) for one in (events, censored)]
        cut.append(np.abs(curve(*noisy)[0] - exact)[enough].max())
    return np.array(own), np.array(cut), np.array(shown)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=50)
    parser.add_argument("--bins", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    given = parser.parse_args()
    print("| table | people | bins | epsilon | LifeTable | cut counts | factor | times shown |")
    print("|---|---|---|---|---|---|---|---|")
    for name in TABLES:
        times, is_event = read(name)
        for n_bins in given.bins:
            for epsilon in given.epsilon:
                own, cut, shown = errors(times, is_event, n_bins, epsilon, given.releases)
                figures = f"{own.mean():.3f} | {cut.mean():.3f} | {cut.mean() / own.mean():.1f} | {shown.mean():.0%}"
                print(f"| {name} | {len(times):,} | {n_bins} | {epsilon:g} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
