"""The report in Markdown, and the pictures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from arena import comparisons, summary
from arena.contestants import CONTESTANTS
from arena.environments import RIVALS, table_packages
from arena.limits import CPU_SECONDS
from arena.markdown import markdown
from arena.metrics import BINS, DRAWS, LEAST_PROBABILITY
from arena.regions import REGIONS
from arena.results import Results
from arena.running import TABLE
from arena.sources import MOST_PRIVATE, read
from arena.splits import described
from arena.summary import METRICS, title
from arena.tables import Table

_INTRODUCTION = f"""Each table is split into a third private, a third public without labels and a third for testing.
Private rows beyond {MOST_PRIVATE:,} are left out. delta is 1e-5. Contestants that need numbers get one-hot columns,
standardised by public rows. A fit that takes longer than {CPU_SECONDS:g} CPU seconds is an error.

**All contestants are compared when a record is replaced.** A contestant whose promise is for adding or removing a
record runs at half of epsilon, and at delta / (1 + exp(epsilon / 2)). Two steps of group privacy make that epsilon and
delta for replacing a record. A dagger marks contestants that name no relation; they run at epsilon. A double dagger
marks settings that were chosen by test rows.

A cell is the mean over splits, and two standard deviations: over noise draws within a split, and over the means of
splits. A contestant without noise has the second only. **Bold** is the best private mean of a table. `*` marks cells
with fewer fits than the fullest of the table, `E` an error in at least one fit (then the mean is of the others), and a
blank what has not been run. Log-loss counts probabilities of the true class below {LEAST_PROBABILITY:g} as that. The
calibration error is that of the most probable class in {BINS} bins of equal mass, less its mean over {DRAWS} draws of
labels from the probabilities themselves, and at least 0. AUROC of several classes is the mean of one class against the
rest.
"""
_NOMINAL = """## Second table: the epsilon that each contestant promises

Contestants for adding or removing a record run at the epsilon of the table here. That is the weaker promise: when a
record is replaced, their epsilon is twice the one shown.
"""


def by_classes(tables: Sequence[Table], home: Path) -> comparisons.Groups:
    """Return the names of tables of two classes, and of tables of more."""
    counts = {table.name: len(read(table, table_packages(home))[2]) for table in tables}
    return {
        "Two classes": [name for name, count in counts.items() if count == 2],
        "Three and more classes": [name for name, count in counts.items() if count > 2],
    }


def by_region(listed: Mapping[str, Sequence[Table]]) -> comparisons.Groups:
    """Return the names of tables by the title of their region."""
    return {region.title: [table.name for table in listed[region.name]] for region in REGIONS}


def write_report(
    known: Results,
    splits: Sequence[int],
    home: Path,
    out: Path,
    *,
    earlier: bool,
    groups: comparisons.Groups,
    pictures: bool = True,
) -> None:
    """Write ``report.md`` and pictures of the results of some splits, for tables in groups."""
    everything = summary.table_of(known.values(), splits, earlier)
    everything = everything[everything["table"].isin([name for held in groups.values() for name in held])]
    if everything.empty:
        print(f"no results for these splits, so no report. {described(splits)}")
        return
    out.mkdir(parents=True, exist_ok=True)
    facts = _facts([name for held in groups.values() for name in held], home)
    frame = summary.like_for_like(everything)
    epsilons = sorted(frame["epsilon"].dropna().unique())
    ranked = comparisons.ranked(frame, groups, epsilons)
    parts = [f"# Arena\n\n{described(splits)} {_INTRODUCTION}", _tables(facts), _contestants(), _errors(everything)]
    parts += [comparisons.rank_tables(ranked), comparisons.head_to_head(frame, groups, epsilons, "label-moments")]
    parts += [comparisons.gaps(frame, groups, epsilons, "label-moments")]
    parts += ["## Results\n", comparisons.zeros(frame, groups, epsilons)]
    parts += [comparisons.by_table(frame, groups, epsilons, list(METRICS)), *_second(everything, groups)]
    parts += [_seconds(everything, groups)]
    (out / "report.md").write_text("\n".join(parts), encoding="utf-8")
    if pictures:
        _pictures(frame, groups, epsilons, ranked, home, out)
    print(f"wrote {out / 'report.md'}")


def _facts(names: Sequence[str], home: Path) -> dict[str, dict[str, str]]:
    facts = {}
    for table in (TABLE[name] for name in names):
        X, y, classes = read(table, table_packages(home))
        categories = sum(X[name].dtype != float for name in X)
        facts[table.name] = {
            "title": table.title,
            "rows": f"{len(X):,}",
            "columns": f"{X.shape[1]}, {categories} of categories",
            "classes": str(len(classes)),
            "largest": f"{np.bincount(y).max() / len(y):.3f}",
            "package": table.package,
            "licence": table.licence,
        }
    return facts


def _tables(facts: dict[str, dict[str, str]]) -> str:
    head = ("table", "what", "rows", "columns", "classes", "largest class", "package", "licence")
    lines = ((name, *fact.values()) for name, fact in facts.items())
    return "## Tables\n\n" + markdown(head, lines)


def _contestants() -> str:
    lines = (
        (one.name, str(one.version), title(one.name), one.relation or "none", one.guarantee) for one in CONTESTANTS
    )
    return "## Contestants\n\n" + markdown(("name", "version", "what", "relation", "guarantee"), lines)


def _errors(frame: pd.DataFrame) -> str:
    wrong = frame[frame["error"].notna()]
    if wrong.empty:
        return f"{len(frame):,} fits, none of which ended in an error.\n"
    counted = wrong.groupby(["contestant", "table", "error"]).size()
    lines = ((who, table, str(times), error.replace("|", "/")) for (who, table, error), times in counted.items())
    head = ("contestant", "table", "times", "error")
    return f"{len(frame):,} fits, {len(wrong):,} of which ended in an error:\n\n" + markdown(head, lines)


def _second(everything: pd.DataFrame, groups: comparisons.Groups) -> list[str]:
    """Return the second table, if contestants for adding or removing a record have run at the nominal epsilon."""
    frame = summary.nominal(everything)
    halved = set(everything.loc[everything["budget"] != "nominal", "contestant"])
    if not halved & set(frame["contestant"]):
        return []
    epsilons = sorted(frame["epsilon"].dropna().unique())
    beside = comparisons.gaps(frame, groups, epsilons, "label-moments").replace("## Beside", "### Beside")
    return [_NOMINAL, beside, comparisons.by_table(frame, groups, epsilons, ["accuracy", "auroc", "log_loss"])]


def _seconds(frame: pd.DataFrame, groups: comparisons.Groups) -> str:
    tables = [table for group in groups.values() for table in group]
    names = summary.ordered(frame, private=True) + summary.ordered(frame, private=False)
    median = frame.groupby(["table", "contestant"])["seconds"].median().dropna()
    lines = [
        [table, *(f"{median[table, name]:.1f}" if (table, name) in median else "" for name in names)]
        for table in tables
    ]
    note = "Median over fits of the CPU seconds of fit and prediction on one core. Both contestants on AIM's\n"
    note += "marginals share one private model, whose seconds count for both.\n"
    return f"## Seconds\n\n{note}\n" + markdown(["table", *(title(name) for name in names)], lines)


def _pictures(
    frame: pd.DataFrame,
    groups: comparisons.Groups,
    epsilons: Sequence[float],
    ranked: dict[tuple[str, float, str], comparisons.Ranks],
    home: Path,
    out: Path,
) -> None:
    """Draw in the rivals' environment, which has matplotlib."""
    points = [
        {"group": group, "epsilon": epsilon, "metric": metric, "table": table, "contestant": who, "mean": cell.mean}
        for group, tables in groups.items()
        for epsilon in epsilons
        for metric in METRICS
        for (table, who), cell in summary.cells(summary.at(frame, epsilon, tables), metric).items()
        if cell.fits
    ]
    ranks = [
        {
            "group": group,
            "epsilon": epsilon,
            "metric": metric,
            "tables": len(one.tables),
            "critical": None if np.isnan(one.critical_difference) else one.critical_difference,
            "ranks": one.mean_ranks.to_dict(),
        }
        for (group, epsilon, metric), one in ranked.items()
    ]
    names = summary.ordered(frame, private=True) + summary.ordered(frame, private=False)
    drawn = {
        "titles": {name: title(name) for name in names},
        "private": summary.ordered(frame, private=True),
        "metrics": comparisons.NAMES,
        "tables": groups,
        "points": points,
        "ranks": ranks,
    }
    (out / "points.json").write_text(json.dumps(drawn), encoding="utf-8")
    script = Path(__file__).with_name("picture.py")
    subprocess.run([str(RIVALS.python(home)), str(script), str(out / "points.json")], check=True)  # noqa: S603
