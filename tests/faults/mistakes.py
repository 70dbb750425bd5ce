"""Generated tables and declarations with a mistake, and what a run on them would charge for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

#: How a shell, an editor or a notebook may write the names of two classes in ``--classes``.
MARKS = (
    *("{0},{1}", "'{0}','{1}'", '"{0}","{1}"', "[{0},{1}]", "({0},{1})", "{{{0},{1}}}", "“{0}”,“{1}”", "`{0}`,`{1}`"),
    *('c("{0}","{1}")', "['{0}', '{1}']", "{0}, {1}", " {0} ,{1} ", "{0};{1}", "{0} {1}", "{0},{1},", "'{0},{1}'"),
    *("\ufeff{0},{1}", "{0}\u200b,{1}\u00a0", "${0},${1}", "{0}\\,{1}", "{0},{1}\r", "[{0}],[{1}]", "{0}|{1}"),
)
#: Pairs of names as the labels of a CSV file write them.
NAMES = (
    *(("no", "yes"), ("None", "Severe"), ("NA", "n/a"), ("null", "NaN"), ("<NA>", "#N/A"), ("-", "+"), ("No", "Ja!")),
    *(("0", "1"), ("1.0", "2.0"), ("01", "02"), ("true", "false"), ("1", "unknown"), ("9007199254740993", "9")),
    *(("caf\u00e9", "th\u00e9"), ("cafe\u0301", "the\u0301"), ("2025-01-01", "2025-04-01"), ("<=50K", ">50K")),
    *(("'a'", "'b'"), ("(none)", "(some)"), ("18-24", "25-34"), ("n/a", "a/n"), ("e\ufb00", "eff2")),
)
#: Columns of public rows in which numbers are hardly read as numbers.
COLUMNS: tuple[Callable[[int, int], str], ...] = (
    lambda row, number: "?" if row == 7 else str(number),
    lambda row, number: "." if row % 20 == 0 else f"{number}.5",
    lambda row, number: "#DIV/0!" if row == 9 else str(number),
    lambda row, number: f"<{number}" if number < 20 else str(number),
    lambda row, number: f"{number}.5%",
    lambda row, number: f"${number * 1001:,}.50",
    lambda row, number: f"{number} kg",
    lambda row, number: f"{number}\u202f001",
    lambda row, number: f"{number},50 €",
    lambda row, number: f"{number % 28 + 1:02}.03.{number}",
)
ROLES = ("", "--drop ill", "--unit ill", "--groups ill")


@dataclass(frozen=True)
class Mistake:
    """A generated run: its options, the column that should get a note, and whether labels differ from the classes."""

    options: list[str]
    odd_column: str | None
    is_hidden: bool


def generate(folder: Path, seed: int) -> Mistake:
    """Write a private and a public table into a folder. The seed chooses names, marks, columns and one more mistake."""
    rng = np.random.default_rng(seed)
    names = NAMES[rng.integers(len(NAMES))]
    marks = MARKS[rng.integers(len(MARKS))]
    if "$" in marks and not all(map(str.isidentifier, names)):
        # Only such names can be variables.
        marks = MARKS[0]
    rows = 120
    age = rng.integers(10, 80, rows)
    labels = np.where(age + rng.normal(0, 9, rows) > 45, names[1], names[0]).astype(object)
    private = pd.DataFrame({"age": age, "weight": rng.normal(70, 9, rows).round(1)})
    odd = None
    if seed % 3 == 0:
        write = COLUMNS[rng.integers(len(COLUMNS))]
        private["odd"], odd = [write(row, int(number)) for row, number in enumerate(age)], "odd"
    public = private.copy()
    hidden = seed % 5 == 0
    # What labels are in truth is private, so nothing public shows that the declaration is another.
    private["ill"] = np.where(labels == names[0], "N", "Y") if hidden else labels
    if seed % 7 == 0 and not hidden:
        # Another coding, which the public rows show.
        public["ill"] = private["ill"] = np.where(labels == names[0], "first", "second")
    kind = "parquet" if seed % 4 == 0 else "csv"
    for name, table in (("private", private), ("public", public)):
        path = folder / f"{name}.{kind}"
        table.to_parquet(path) if kind == "parquet" else table.to_csv(path, index=False)
    role = ROLES[rng.integers(len(ROLES))] if seed % 11 == 0 else ""
    options = ["--private", str(folder / f"private.{kind}"), "--public", str(folder / f"public.{kind}")]
    options += ["--target", "ill", f"--classes={marks.format(*names)}", *role.split()]
    return Mistake(options, odd, hidden)
