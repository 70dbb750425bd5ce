"""Train on generated ugly tables: no traceback, no half-written folder; exit code 2 in one sentence, or a result.

    python scripts/ugly_tables.py --tables 1000 --seed 0

Every table is made from a seed of its own, which is printed with what went wrong, so that it can be made again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpensemble.cli import main

Column = Callable[[np.random.Generator, int], Any]
_WORDS = np.array(
    ["pain", "fever", "né", "北京", "O'Brien", 'a "b"', "x,y", "", " ", "NULL", "#N/A", "=1+1", "\t", "a\nb"]
)

COLUMNS: dict[str, Column] = {
    "age": lambda rng, n: rng.integers(0, 100, n),
    "x": lambda rng, n: rng.normal(size=n),
    "huge": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
    "almost constant": lambda _, n: np.where(np.arange(n) == 0, 1.0, 0.0),
    "constant": lambda _, n: np.full(n, 7),
    "blank": lambda _, n: np.full(n, np.nan),
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.02, np.inf, rng.normal(size=n)),
    "truth": lambda rng, n: rng.random(n) < 0.5,
    "ward": lambda rng, n: rng.choice(["A", "B", "C"], n),
    "words": lambda rng, n: rng.choice(_WORDS, n),
    "remark": lambda rng, n: [" ".join(rng.choice(_WORDS[:6], 3)) + str(i) for i in range(n)],
    "patient_id": lambda _, n: np.arange(n) // 3,
    "code": lambda rng, n: [f"{i:05d}" for i in rng.integers(0, 9, n)],
    "seen": lambda rng, n: pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
    "day": lambda rng, n: [f"{d:02d}/{m:02d}/2021" for d, m in rng.integers(1, 13, (n, 2))],
    "mixed": lambda rng, n: rng.choice(np.array([1, 2.5, "old", None, True], dtype=object), n),
    "comma": lambda rng, n: [f"{value:.2f}".replace(".", ",") for value in rng.normal(size=n)],
    "Unnamed: 0": lambda _, n: np.arange(n),
    "1": lambda rng, n: rng.normal(size=n),
    "a very long name " * 9: lambda rng, n: rng.normal(size=n),
    "né <b>&amp;</b>": lambda rng, n: rng.choice(["<script>", "ok"], n),
}
LABELS = [
    ("no", "yes"),
    ("0", "1"),
    ("False", "True"),
    ("0.0", "1.0"),
    ("a", "b", "c"),
    ("1", "2", "3"),
    (" no", "yes "),
]
_ODDS = [0.4, 0.15, 0.1, 0.1, 0.12, 0.1, 0.03]


def spoiled(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table with blanks, other orders, and a column more or fewer, each now and then."""
    if rng.random() < 0.5:
        features = [name for name in table.columns if name != "y" or rng.random() < 0.1]
        hidden = rng.random((len(table), len(features))) < rng.choice([0.01, 0.3])
        table = table.assign(**{name: table[name].mask(hidden[:, at]) for at, name in enumerate(features)})
    if rng.random() < 0.3:
        table = table[rng.permutation(table.columns)]
    if rng.random() < 0.04 and table.shape[1] > 1:
        table = table.drop(columns=rng.choice(table.columns))
    if rng.random() < 0.04:
        table = table.assign(extra=1)
    return table.rename(columns=str.upper) if rng.random() < 0.02 else table


def write(table: pd.DataFrame, path: Path, kind: str, rng: np.random.Generator) -> Path:
    """Write a table in some format and encoding, sometimes cut short, and return its path."""
    if kind == "parquet":
        place = path.with_suffix(".parquet")
        table.astype({name: str for name in table.columns if table[name].dtype == object}).to_parquet(place)
        return place
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    place = path.with_suffix(".csv" if kind == "semicolon" else f".{kind}")
    sep = {"tsv": "\t", "semicolon": ";"}.get(kind, ",")
    table.to_csv(place, index=bool(rng.random() < 0.03), sep=sep, encoding=encoding, errors="replace")
    if rng.random() < 0.03 and kind == "csv":
        content = place.read_bytes()
        place.write_bytes(content[: int(len(content) * rng.random())])
    return place


def attempt(seed: int, folder: Path) -> tuple[str, str]:
    """Train once on tables made from a seed, and return the result in a word, and the messages."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(list(COLUMNS))[: rng.integers(1, 8)].tolist()
    labels = LABELS[rng.choice(len(LABELS), p=_ODDS)]
    kind = str(rng.choice(["csv", "csv.gz", "csv.zip", "tsv", "parquet", "semicolon"]))
    sizes = {"private": [600, 600, 600, 300, 30, 2, 1], "public": [250, 250, 60, 60, 5, 1]}
    files = []
    for role, choices in sizes.items():
        n = int(rng.choice(choices))
        table = pd.DataFrame({name: COLUMNS[name](rng, n) for name in names})
        if role == "private" or rng.random() < 0.5:
            table["y"] = rng.choice(labels, n)
        written = kind if rng.random() < 0.9 else "csv"
        files += [f"--{role}", str(write(spoiled(table, rng), folder / role, written, rng))]
    method = str(rng.choice(["auto", "label-moments", "pate", "saa"]))
    more = [word for word in ("--decimal=,", "--unit=patient_id", "--strict") if rng.random() < 0.04]
    if kind == "semicolon" or rng.random() < 0.03:
        more.append("--sep=;")
    if method in ("pate", "saa"):
        more += ["--teachers=10", "--max-labels=3", "--accounting=published"]
    if rng.random() < (0.8 if method in ("pate", "saa") else 0.05):
        more.append("--fill")
    return trained(method, files, labels, more, folder)


def trained(
    method: str, files: Sequence[str], labels: Sequence[str], more: Sequence[str], folder: Path
) -> tuple[str, str]:
    """Train and predict from the command line, in this process."""
    out = folder / "out"
    classes = ",".join(label.strip() for label in labels)
    arguments = ["train", method, *files, "--target=y", f"--classes={classes}", "--epsilon=20", "--delta=1e-4", *more]
    errors, output = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(output):
        code = main([*arguments, "--quiet", f"--out={out}"])
        if code == 0:
            how = [word for word in more if word.startswith(("--sep", "--decimal"))]
            code = main(["predict", str(out), files[3], "--json", *how])
    return judged(code, errors.getvalue(), folder), errors.getvalue()


def judged(code: int, told: str, folder: Path) -> str:
    """Return in a word how a run ended, and whether this is allowed."""
    left = sorted(path.name for path in folder.iterdir())
    beside = [name for name in left if name.startswith(".dpensemble")]
    lines = [line for line in told.splitlines() if not line.startswith(("dpensemble: note: ", "dpensemble: for you"))]
    if "Traceback" in told or "unexpected" in told or code not in (0, 2):
        return "WRONG"
    if code == 0:
        return "WRONG" if beside or not (folder / "out" / "report.html").exists() else "trained"
    # A result that cannot be predicted from again was still a result.
    whole = (folder / "out" / "report.html").exists()
    return "WRONG" if beside or len(lines) > 2 or ("out" in left and not whole) else "refused"


def run(tables: int, seed: int) -> Counter[str]:
    """Train on `tables` tables, and return how many runs ended in each way."""
    outcomes: Counter[str] = Counter()
    for number in range(seed, seed + tables):
        folder = Path(tempfile.mkdtemp(prefix="ugly-"))
        try:
            outcome, errors = attempt(number, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        outcomes[outcome] += 1
        if outcome == "WRONG":
            print(f"seed {number}: {errors}")
    return outcomes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    outcomes = run(given.tables, given.seed)
    print(dict(outcomes))
    raise SystemExit(1 if outcomes["WRONG"] else 0)
