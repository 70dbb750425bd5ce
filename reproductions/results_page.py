"""Write docs/results.md and its figures from the results in docs/results, which `python -m reproductions` made.

Run ``python -m reproductions.results_page``. With ``--take DIR`` the command first copies results and finished parts
from the folder of a run. Copy ``docs/results/cells`` to ``DIR/cells`` to continue a published run with more repeats.
A test checks that the page agrees with the results.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from dpensemble.cli.output import write_charts
from dpensemble.report.charts import Series, Words, line_chart
from reproductions import TABLES, TableResult, read_results
from reproductions.coverage import COVERAGE
from reproductions.page import Block, Grid, Heading, Paragraph, Picture, as_markdown, blocks_of, blocks_without_result
from reproductions.running import CELLS, FULL

DOCS = Path(__file__).parent.parent / "docs"
FOLDER, PAGE, IMAGES = "results", "results.md", "images"

LEFT_OUT = (
    (
        "The delta behind the published label counts",
        "DPBag's tables state delta 1e-5, but their data-independent counts come out, to the label, at delta 1e-3, and "
        "only if the query that breaches the budget is counted. At the stated delta the same analysis allows 162 "
        "labels where 264 are printed. Exact accounting allows 1,122.",
        "dpensemble plan saa --teachers 250 --scale 125 --accounting published --epsilon 1 --delta 1e-5",
    ),
    (
        "The conjecture behind DPBag's labels at epsilon 1",
        "With 50 and 100 teachers at epsilon 1 the tables print up to twice the labels that the paper's theorems allow "
        "(20 for 11). They come out if a record's moments are the smaller of Theorem 4's bound and of equation (3) of "
        "the supplement, which the supplement calls a conjecture. So these counts have no proved guarantee.",
        "python -m reproductions.dpbag_conjecture",
    ),
    (
        "The superfluous epsilon of bagging",
        "The same models are (0, delta)-private at the same delta, and no smaller delta is possible at any epsilon. A "
        "delta far above one over the records means that a few records may be exposed in full.",
        "dpensemble plan bagging --records 60000 --subsample 300",
    ),
    (
        "Data-dependent bounds that hold in one direction",
        "The tight bounds of PATE, and personalised PATE's, bound the divergence from the present votes to a "
        "neighbour's. The reverse can be many orders of magnitude larger, and differential privacy needs both. The "
        "test enumerates tiny ensembles in both directions.",
        "python -m pytest tests/accounting/test_published.py",
    ),
    (
        "Guarantees that cannot be published",
        "An epsilon computed from the private votes, and a number of labels that stops when it is used up, depend on "
        "the records. The guarantee of such a run states this. The worst case is the default.",
        "dpensemble train dpbag --dataset adult --analysis until-spent --teachers 100 --epsilon 1 --out spent",
    ),
    (
        "The scope of DaRRM's Lemma 3.2",
        "That no law with m = 1 beats the vote of one random teacher holds for probabilities that a chain of "
        "neighbouring data sets reaches, not for all. For 3 teachers of epsilon 2 the optimised law is believed to err "
        "by 0.060, that of subsampling by 0.094.",
        "dpensemble gamma --teachers 3 --epsilon 2 --m 1 --prior 0.75",
    ),
    (
        "A wrong corner",
        "Published code has three of the four corners of the teachers' region in the linear program. The best gamma "
        "for 15 teachers of epsilon 1 and m = 2 then reveals more than 2.03 where 2 are allowed. Every gamma "
        "here is certified against all corners.",
        "python -m pytest tests/darrm/test_allowance.py -k corner",
    ),
    (
        "Answers of the same private models do not compose",
        "DaRRM adds up the privacy of single answers. Teachers that are trained once share their randomness over all "
        "queries, and the answers together can reveal more than that sum. The test lists every behaviour of up to "
        "three models.",
        "python -m pytest tests/oracle/test_private_teachers.py",
    ),
)


def page(results: Mapping[str, TableResult]) -> list[Block]:
    """Return the page of all results."""
    blocks: list[Block] = [
        Heading(1, "The papers, table by table"),
        Paragraph(
            "This page is for readers of the papers. After it you know which printed figures can be reproduced, and "
            "what the same budgets buy in this library."
        ),
        Paragraph(
            "`python -m reproductions.results_page` generates this page from the files in `docs/results`, which "
            "`python -m reproductions` wrote. Each figure is the mean over independent runs, ± their standard "
            "deviation. A difference in bold is more than twice the standard deviation. With fewer than three runs no "
            "difference is in bold. Columns to the right of the difference are not in the paper: they show what the "
            "same budget buys in this library's account. All data are public, and all noise is seeded."
        ),
        Heading(2, "Four figures worth a look"),
        *(Picture(f"{IMAGES}/{name}.svg", text) for name, text in _FIGURES),
        Heading(2, "What the papers leave out"),
    ]
    for title, text, command in LEFT_OUT:
        blocks += [Heading(3, title), Paragraph(f"{text} See `{command}`.")]
    blocks += [
        Heading(2, "Every table and figure of the five texts"),
        Paragraph(
            "*Agree* counts figures within twice the standard deviation and the rounding of the printed ones, among "
            "those with three runs or more. *Time* is that of the experiment, which several tables may share. A table "
            "without three runs of every figure states the reason further down. A *stand-in* takes other data "
            "or another network, because the paper's is not available."
        ),
    ]
    for text, covered in groupby(COVERAGE, key=lambda one: one.text):
        rows = [
            (one.number, one.what, _state(one.how, one.status.value, results), *_counted(one.how, results), one.how)
            for one in covered
        ]
        blocks += [Heading(3, text), Grid(("there", "what", "state", "agree", "time", "how"), rows)]
    blocks.append(Heading(2, "Published and reproduced"))
    for table in TABLES:
        if table.name in results:
            blocks += blocks_of(table, results[table.name])
        else:
            blocks += blocks_without_result(table)
    return blocks


def _counted(how: str, results: Mapping[str, TableResult]) -> tuple[str, str]:
    """Return how many printed figures agree, and how long the experiment took."""
    result = results.get(_table_of(how))
    if result is None:
        return "–", "–"
    counts = result.counts()
    judged = counts["agree"] + counts["differ"]
    return f"{counts['agree']} of {judged}" if judged else "–", result.time


def _table_of(how: str) -> str:
    return how.strip("`").removeprefix("python -m reproductions ")


def _state(how: str, status: str, results: Mapping[str, TableResult]) -> str:
    """Return the status, and whether results are on this page."""
    name = _table_of(how)
    if name not in {table.name for table in TABLES}:
        return status
    if name not in results:
        return "stand-in, not run for this page" if status == "stand-in" else "declared, not run for this page"
    result = results[name]
    counted = f"{result.runs} run{'' if result.runs == 1 else 's'}"
    return f"{status}, {'quick, ' if result.quick else ''}{counted}"


def _value(result: TableResult, row: str, column: str, beside: str = "", *, printed: bool = False) -> float | None:
    panel = result.entries[0].panel
    for entry in result.entries:
        if (entry.row, entry.panel, entry.column) == (row, panel, column):
            if printed:
                return entry.published
            return entry.beside.get(beside) if beside else entry.reproduced
    return None


_FIGURES = (
    ("results-labels", "Labels by epsilon: printed, at the stated delta, and by exact accounting"),
    ("results-students", "Students' errors on Adult by epsilon: printed, reproduced, exact accounting, label moments"),
    ("results-darrm", "Errors of private majorities by allowance"),
    ("results-answers", "Wrong labels of MNIST's 5 and 8 at the same privacy of an answer: GNMax and DaRRM as printed"),
)
_EPSILONS = (1, 3, 5)


def draw(results: Mapping[str, TableResult], folder: Path) -> None:
    """Draw the figures."""
    labels, students = results["dpbag-6"], results["dpbag-5"]
    row = "DPBag n=250 k=100"

    def by_epsilon(
        result: TableResult, name: str, css: str, beside: str = "", *, printed: bool = False, own: str = row
    ) -> Series:
        points = [
            (epsilon, value)
            for epsilon in _EPSILONS
            if (value := _value(result, own, f"epsilon {epsilon}", beside, printed=printed)) is not None
        ]
        # Accuracies as errors, so that an axis from zero shows them.
        return Series(name, [(x, 1 - y) for x, y in points] if result is students else points, css)

    write_charts(
        "DPBag on Adult, 250 teachers, 100 partitions, logistic regression",
        [
            (
                "Labels within a budget",
                line_chart(
                    [
                        by_epsilon(labels, "printed", "group-2", printed=True),
                        by_epsilon(labels, "stated delta", "group-1", "stated"),
                        by_epsilon(labels, "exact, ours", "group-4", "exact"),
                    ],
                    [],
                    Words("labels", "Labels within a budget", "epsilon", "labels"),
                ),
            )
        ],
        folder / "results-labels.svg",
    )
    write_charts(
        "Adult, logistic regression, 250 teachers, 100 partitions",
        [
            (
                "Wrong predictions",
                line_chart(
                    [
                        by_epsilon(students, "printed", "group-2", printed=True),
                        by_epsilon(students, "reproduced", "group-1"),
                        by_epsilon(students, "exact, ours", "group-4", "exact"),
                        by_epsilon(students, "moments", "group-3", own="Label moments"),
                    ],
                    [],
                    Words("students", "Students' errors", "epsilon", "share of test rows"),
                ),
            )
        ],
        folder / "results-students.svg",
    )
    simulated = results["darrm-figure-2"]
    write_charts(
        "11 teachers, each (0.1, 1e-5)-private; answers as private as m of them",
        [
            (
                "Expected distance to the true majority",
                line_chart(
                    [
                        Series(name, [(m, _value(simulated, f"m={m}", name) or 0.0) for m in (1, 3, 5, 7)], css)
                        for name, css in (("optimised", "group-4"), ("Sub", "group-1"), ("constant", "group-2"))
                    ],
                    [],
                    Words("darrm", "Errors by allowance", "m", "total-variation distance"),
                ),
            )
        ],
        folder / "results-darrm.svg",
    )
    _draw_answers(results, folder)


def _draw_answers(results: Mapping[str, TableResult], folder: Path) -> None:
    tables = {1: "darrm-d.2-m1", 3: "darrm-1", 5: "darrm-d.2-m5", 7: "darrm-d.2-m7"}
    present = {m: results[name] for m, name in tables.items() if name in results}

    def by_m(name: str, css: str, column: str, beside: str = "", *, printed: bool = False) -> Series:
        row = "mnist, m={}, 100 queries"
        values = {m: _value(result, row.format(m), column, beside, printed=printed) for m, result in present.items()}
        return Series(name, [(m, 1 - value) for m, value in values.items() if value is not None], css)

    write_charts(
        "MNIST, classes 5 and 8, 11 teachers, 100 questions",
        [
            (
                "Wrong labels at the same privacy of an answer",
                line_chart(
                    [
                        by_m("GNMax", "group-2", "GNMax", printed=True),
                        by_m("DaRRM", "group-1", "optimised", printed=True),
                        by_m("GNMax, exact", "group-4", "GNMax", "exact"),
                        by_m("optimal vote", "group-3", "GNMax", "optimal"),
                    ],
                    [],
                    Words("answers", "Wrong labels by allowance", "m", "share of labels"),
                ),
            )
        ],
        folder / "results-answers.svg",
    )


def take(run: Path, folder: Path) -> None:
    """Copy results, and the finished parts of full runs, from the folder of a run to that of published results."""
    for path in sorted((run / FOLDER).glob("*.json")):
        shutil.copy(path, folder / path.name)
    if (run / CELLS / FULL).is_dir():
        shutil.copytree(run / CELLS / FULL, folder / CELLS / FULL, dirs_exist_ok=True)


def main() -> None:
    """Take results from a run if asked to, and write the page and its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, help="folder of a run whose results to copy first")
    options = parser.parse_args()
    if options.take is not None:
        take(options.take, DOCS / FOLDER)
    results = read_results(DOCS / FOLDER)
    (DOCS / PAGE).write_text(as_markdown(page(results)), encoding="utf-8")
    draw(results, DOCS / IMAGES)


if __name__ == "__main__":
    main()
