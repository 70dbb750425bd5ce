"""Generated tables, for regions of which the packages hold few or no real ones. A seed gives structure and rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

#: The column of labels.
TARGET = "class"


def rows(kind: str, seed: int) -> pd.DataFrame:
    """Return the rows of one kind of table, with their labels in the column `TARGET`."""
    return _KINDS[kind](np.random.default_rng(seed))


def _unequal(draw: np.random.Generator) -> pd.DataFrame:
    """Three classes with the shares .92, .05 and .03, eight numbers that overlap, and one to four rows of a person."""
    persons = 13_000
    y = draw.choice(3, size=persons, p=(0.92, 0.05, 0.03))
    centres = draw.normal(scale=0.55, size=(3, 8))
    own = centres[y] + draw.normal(scale=0.9, size=(persons, 8))
    repeats = np.repeat(np.arange(persons), draw.integers(1, 5, size=persons))
    # The rows of a person share most of their numbers, and a seeded split has them in any part.
    X = own[repeats] + draw.normal(scale=0.45, size=(len(repeats), 8))
    return _frame(X, np.array(["none", "mild", "severe"])[y[repeats]])


def _tree(draw: np.random.Generator) -> pd.DataFrame:
    """Rows of a tree of depth three over ten numbers and a text column. A leaf has one class in five of six rows."""
    count = 21_000
    X, text = draw.normal(size=(count, 10)), draw.choice(list("abcdefgh"), size=count)
    columns = draw.permutation(10)[:6]
    # One node asks the text column for a half of its categories.
    half = np.isin(text, draw.permutation(list("abcdefgh"))[:4])
    questions = [half, *(X[:, column] > draw.normal(scale=0.3) for column in columns)]
    order = draw.permutation(7)
    node = np.ones(count, dtype=int)
    for _ in range(3):
        node = 2 * node + np.choose(node - 1, [questions[place] for place in order]).astype(int)
    side = draw.permutation([0, 1] * 4)[node - 8]
    y = np.where(draw.random(count) < 5 / 6, side, 1 - side)
    return _frame(X, np.array(["no", "yes"])[y]).assign(text=text)


def _xor(draw: np.random.Generator) -> pd.DataFrame:
    """Ask whether two of eight numbers agree in sign, wrong in one of eight rows, beside a text of little help."""
    count = 21_000
    X, text = draw.normal(size=(count, 8)), draw.choice(list("abcdef"), size=count)
    first, second = draw.permutation(8)[:2]
    agree = (X[:, first] > 0) == (X[:, second] > 0)
    y = np.where(draw.random(count) < 7 / 8, agree, ~agree)
    y = np.where((text == "a") & (draw.random(count) < 0.3), True, y)
    return _frame(X, np.where(y, "yes", "no")).assign(text=text)


def _sparse(draw: np.random.Generator) -> pd.DataFrame:
    """Draw a thousand independent numbers, twenty of which matter."""
    return _wide(draw, draw.normal(size=(15_000, 1_000)))


def _correlated(draw: np.random.Generator) -> pd.DataFrame:
    """Draw a thousand numbers in fifty groups that share a factor. Twenty numbers matter."""
    factors, own = draw.normal(size=(15_000, 50)), draw.normal(size=(15_000, 1_000))
    return _wide(draw, 0.7 * factors[:, draw.integers(50, size=1_000)] + 0.714 * own)


def _wide(draw: np.random.Generator, X: np.ndarray) -> pd.DataFrame:
    weights = np.zeros(X.shape[1])
    weights[draw.permutation(len(weights))[:20]] = draw.choice((-1.0, 1.0), size=20)
    margin = X @ weights
    y = draw.random(len(X)) < 1 / (1 + np.exp(-1.3 * margin / margin.std()))
    return _frame(X.round(4), np.where(y, "yes", "no"))


def _four(draw: np.random.Generator) -> pd.DataFrame:
    """Four classes of eight numbers, with two centres each, for small tables."""
    y, side = draw.integers(4, size=3_000), draw.integers(2, size=3_000)
    centres = draw.normal(scale=0.8, size=(4, 2, 8))
    return _frame(centres[y, side] + draw.normal(size=(3_000, 8)), np.array(["north", "east", "south", "west"])[y])


def _rare(draw: np.random.Generator) -> pd.DataFrame:
    """One row in twelve is a case, and cases are far out in three of ten numbers."""
    count = 40_000
    y, text = draw.random(count) < 1 / 12, draw.choice(list("abcde"), size=count)
    X = draw.normal(size=(count, 10))
    X[np.ix_(y, draw.permutation(10)[:3])] += 1.3
    text = np.where(y & (draw.random(count) < 0.4), "a", text)
    return _frame(X, np.where(y, "yes", "no")).assign(text=text)


def _frame(X: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])]).assign(**{TARGET: labels})


_KINDS: dict[str, Callable[[np.random.Generator], pd.DataFrame]] = {
    "unequal": _unequal,
    "tree": _tree,
    "xor": _xor,
    "sparse": _sparse,
    "correlated": _correlated,
    "four": _four,
    "rare": _rare,
}
