"""How often the released interval holds the AUROC of the student, and how wide the interval is.

Each table has one student, which is fitted once. Each release draws fresh held-back persons from the population and
fresh noise, because the interval is a promise about this one student. Made-up tables have 200,000 fresh persons. For
real tables, the rows that the student did not learn from are the population, drawn with replacement, and its AUROC is
the true one. Noise is continuous here, and exact in a run. Run it as ``python benchmarks/student_area.py``. It takes
about two minutes.
"""

import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from statsmodels.datasets import fair, randhie

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets import load_adult
from dpensemble.quality.figures import area_bounds
from dpensemble.quality.release import Layout, bin_edges, pairs_inside

N_RELEASES = 200
BINS = range(2, 17)
N_FRESH = 200_000


@dataclass(frozen=True, eq=False)
class Population:
    """A fixed student's probabilities for many persons, their classes, and probabilities of public rows."""

    probable: np.ndarray
    is_case: np.ndarray
    public: np.ndarray

    @property
    def area(self):
        """The AUROC of the student."""
        return float(roc_auc_score(self.is_case, self.probable))

    def cells(self, edges, n_units, sigma, n_releases, seed):
        """Return noisy numbers of cases and of others in bins, for fresh persons, shape (n_releases, 2, n_bins)."""
        rng = np.random.default_rng(seed)
        places = np.searchsorted(edges, self.probable, side="right")
        shares = [
            np.bincount(places[chosen], minlength=len(edges) + 1) / len(places)
            for chosen in (self.is_case, ~self.is_case)
        ]
        counts = rng.multinomial(n_units, np.concatenate(shares), size=n_releases).astype(float)
        return (counts + rng.normal(0, sigma, size=counts.shape)).reshape(n_releases, 2, -1)

    def intervals(self, edges, n_units, sigma, n_releases=N_RELEASES, seed=0, area=area_bounds):
        """Return both ends of the interval in each release."""
        inside = pairs_inside(self.public, edges)
        found = [area(*one, inside, sigma) for one in self.cells(edges, n_units, sigma, n_releases, seed)]
        return np.array([one.low for one in found]), np.array([one.high for one in found])

    def reordered(self, edges, *, best):
        """Return the population in which each bin has all cases above all others, or below. Its area is a bound."""
        ends = np.concatenate([[0.0], edges, [1.0]])
        places = np.searchsorted(edges, self.probable, side="right")
        high = self.is_case == best
        probable = ends[places] + np.where(high, 0.75, 0.25) * (ends[places + 1] - ends[places])
        return Population(probable, self.is_case, self.public)


def layout_of(n_units, epsilon, n_fixed=1):
    """Return the layout that a run would plan, at delta 1e-5."""
    return Layout.planned(("no", "yes"), n_units, epsilon, 1e-5, required=n_fixed)


def chosen_edges(population, n_units, epsilon):
    """Return the edges that a run would choose from public rows."""
    public = np.column_stack([1 - population.public, population.public])
    return layout_of(n_units, epsilon).edges(public).of_class["yes"]


def simulated(rate, slope, *, n=N_FRESH, seed=0):
    """Return persons whose student states right probabilities, with about this share of cases."""
    rng = np.random.default_rng(seed)
    logits = np.log(rate / (1 - rate)) + slope * rng.normal(size=n)
    # Logits are centred so that the mean probability is near the rate.
    logits -= np.log(np.mean(1 / (1 + np.exp(-logits))) / rate) * (rate < 0.2)
    probable = 1 / (1 + np.exp(-logits))
    return Population(probable, rng.random(n) < probable, probable[:1000])


def made_up(rng, n, rate, strength):
    """Return columns of people and who is a case."""
    X = pd.DataFrame({f"x{place}": rng.normal(size=n) for place in range(5)} | {"sex": rng.choice(["f", "m"], size=n)})
    score = strength * (X["x0"] + 0.6 * X["x1"] + 0.4 * (X["sex"] == "f")) + rng.logistic(size=n)
    return X, (score > np.quantile(score, 1 - rate)).to_numpy()


def fitted(X, is_case, n_private, n_public, epsilon, seed=0):
    """Fit a student on some rows, and return its probabilities for all other rows."""
    order = np.random.default_rng(seed).permutation(len(X))
    private, public, rest = np.split(order, [n_private, n_private + n_public])
    labels = np.where(is_case, "yes", "no")
    kinds = X.select_dtypes(exclude="number").columns
    numbers = pd.get_dummies(X, columns=list(kinds)).astype(float)
    numbers = (numbers - numbers.iloc[public].mean()) / numbers.iloc[public].std().replace(0, 1).fillna(1)
    model = LabelMomentsClassifier(
        epsilon=epsilon, delta=1e-5, classes=["no", "yes"], random_state=seed, insecure_release_seed=seed
    )
    model.fit(numbers.iloc[private].to_numpy(), labels[private], X_public=numbers.iloc[public].to_numpy())
    return Population(
        model.predict_proba(numbers.iloc[rest].to_numpy())[:, 1],
        is_case[rest],
        model.predict_proba(numbers.iloc[public].to_numpy())[:, 1],
    )


def tables():
    """Yield each table: its name, the population, the number of private records, and epsilon."""
    rng = np.random.default_rng(1)
    for name, n, rate, strength in (
        ("made up, 36 % cases", 2_900, 0.36, 1.2),
        ("made up, 4.5 % cases", 7_000, 0.045, 1.2),
        ("made up, 4.5 % cases, strong", 7_000, 0.045, 2.5),
    ):
        X, is_case = made_up(rng, n + 1_000 + 100_000, rate, strength)
        yield name, fitted(X, is_case, int(0.8 * n), 1_000, 1.0), n, 1.0
    adult = load_adult()
    yield "Adult", fitted(adult.X, np.asarray(adult.y == ">50K"), 4_000, 1_000, 1.0), 5_000, 1.0
    cancer = load_breast_cancer(as_frame=True)
    yield "breast cancer", fitted(cancer.data, np.asarray(cancer.target == 0), 200, 60, 3.0), 1_500, 3.0
    data = fair.load_pandas().data
    yield "affairs", fitted(data.drop(columns="affairs"), (data["affairs"] > 0).to_numpy(), 2_400, 600, 1.0), 3_000, 1.0
    data = randhie.load_pandas().data
    is_case = (data["mdvis"] > 10).to_numpy()
    yield "visits to doctors", fitted(data.drop(columns="mdvis"), is_case, 5_600, 1_000, 1.0), 7_000, 1.0


def lowest(held, n):
    """Return the lower end of the 99 % interval of a share (C. Clopper and E. Pearson, Biometrika 1934)."""
    return float(beta.ppf(0.005, held, n - held + 1)) if held else 0.0


HEADS = (
    "table", "cases", "AUROC", "held back", "epsilon", "bins", "median interval", "median width", "held",
    "lowest, 2 to 16 bins",
)  # fmt: skip


def row(name, population, n_private, share, epsilon, n_releases):
    """Return what a table shows at one share of held-back persons."""
    n_units = int(share * n_private)
    sigma, truth = layout_of(n_units, epsilon).sigma, population.area
    edges = chosen_edges(population, n_units, epsilon)
    every = [edges, *(bin_edges(population.public, n_bins) for n_bins in BINS)]
    found = [population.intervals(one, n_units, sigma, n_releases) for one in every]
    held = [np.count_nonzero((low <= truth) & (truth <= high)) for low, high in found]
    low, high = found[0]
    return (
        name, f"{population.is_case.mean():.1%}", f"{truth:.3f}", f"{n_units:,} of {n_private:,}", f"{epsilon:g}",
        str(len(edges) + 1), f"{np.median(low):.3f} to {np.median(high):.3f}", f"{np.median(high - low):.3f}",
        f"{held[0]} of {n_releases}", f"{min(lowest(one, n_releases) for one in held):.3f}",
    )  # fmt: skip


def main(n_releases=N_RELEASES):
    """Print the coverage with 2 to 16 bins, and the widths with the bins that a run chooses."""
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for name, population, n_private, epsilon in tables():
        for share in (0.2, 0.4) if epsilon == 1.0 else (0.2,):
            print(f"| {' | '.join(row(name, population, n_private, share, epsilon, n_releases))} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
