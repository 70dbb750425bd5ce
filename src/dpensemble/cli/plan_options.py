"""Options of ``dpensemble plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpensemble.accounting import Accounting
from dpensemble.allocation import Bootstrap
from dpensemble.cli.options import Method

NOISE, QUALITY, BAGGING, OUTPUT = "Votes and noise", "Label quality", "bagging and bagged-pate", "Output"

Epsilon = Annotated[
    float | None, typer.Option(help="Privacy budget (1 unless --labels is given; left out: found).")
]
Delta = Annotated[
    float | None, typer.Option(help="Delta of the budget (1e-5; bagging: left out, found).", show_default=False)
]
Labels = Annotated[int | None, typer.Option(help="Labels wanted (left out: found).")]
PlannedMethod = Annotated[Method, typer.Option(help="Method.")]
Budgets = Annotated[
    str | None,
    typer.Option(help="Personalised methods: groups and their shares of the records, high=0.5:20%,low=2:80%."),
]
PlannedAccounting = Annotated[
    Accounting, typer.Option(help="Charge for what a label alone reveals, or as the papers do.")
]
Teachers = Annotated[int, typer.Option(help="Teachers in each partition.", rich_help_panel=NOISE)]
Partitions = Annotated[
    int | None, typer.Option(help="dpbag (default 10) and optimal: partitions.", rich_help_panel=NOISE)
]
Classes = Annotated[int, typer.Option(help="Number of classes.", rich_help_panel=NOISE)]
Scale = Annotated[
    float | None,
    typer.Option(
        help="saa, dpbag, lnmax: Laplace scale in votes (found if --epsilon and --labels are given).",
        rich_help_panel=NOISE,
    ),
]
Sigma = Annotated[
    float | None,
    typer.Option(
        help="gnmax and its kin: standard deviation of the noise in votes (found likewise).",
        rich_help_panel=NOISE,
    ),
]
Reach = Annotated[
    float | None,
    typer.Option(
        help="optimal: margin in votes at which the answer is certain (found likewise).", rich_help_panel=NOISE
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(help="confident and interactive: votes needed for an answer.", rich_help_panel=NOISE),
]
ThresholdSigma = Annotated[
    float | None,
    typer.Option(
        help="confident and interactive: standard deviation of the noise on the threshold.",
        rich_help_panel=NOISE,
    ),
]
Agreement = Annotated[
    float | None,
    typer.Option(
        help="Share of the teachers that agree on a typical row (default 0.8).", rich_help_panel=QUALITY
    ),
]
LabelAccuracy = Annotated[
    float | None,
    typer.Option(
        help="Also find the smallest ensemble whose labels of such a row are right this often.",
        rich_help_panel=QUALITY,
    ),
]
Records = Annotated[int | None, typer.Option(help="Number of private records.", rich_help_panel=BAGGING)]
Subsample = Annotated[
    int | None,
    typer.Option(
        help="Records that each model draws (left out: the most at --delta; bagged-pate: half of a partition's).",
        rich_help_panel=BAGGING,
    ),
]
Models = Annotated[
    int | None, typer.Option(help="bagging: number of models (default 1).", rich_help_panel=BAGGING)
]
Scheme = Annotated[
    Bootstrap | None,
    typer.Option(
        help="How records are drawn (default with-replacement; bagged-pate: distinct).", rich_help_panel=BAGGING
    ),
]
Plot = Annotated[
    Path | None, typer.Option(help="Also draw epsilon and wrong labels as SVG.", rich_help_panel=OUTPUT)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the plan as JSON.", rich_help_panel=OUTPUT)]
