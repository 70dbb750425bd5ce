"""Options of ``dpensemble train``, and of ``plan`` where they are the same."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpensemble.accounting import Accounting
from dpensemble.allocation import Bootstrap
from dpensemble.methods.pate import Aggregator
from dpensemble.methods.private_design import MajorityRule, PrivateWhat
from dpensemble.methods.private_majority import Sharing
from dpensemble.planning import Rule
from dpensemble.relations import Relation
from dpensemble.workflow import LEARNERS, STUDENTS
from dpensemble.workflow.personal import PERSONALISED

DATA, PRIVACY, MODEL, OUTPUT = "Data", "Privacy", "Model", "Output"
NAMES = ", ".join(LEARNERS)


class Method(StrEnum):
    """Methods by their short names: those of `VotingMethod`, and some that are planned in ways of their own."""

    SAA = "saa"
    DPBAG = "dpbag"
    LNMAX = "lnmax"
    GNMAX = "gnmax"
    CONFIDENT_GNMAX = "confident-gnmax"
    INTERACTIVE_GNMAX = "interactive-gnmax"
    OPTIMAL = "optimal"
    UPSAMPLING_PATE = "upsampling-pate"
    VANISHING_PATE = "vanishing-pate"
    WEIGHTING_PATE = "weighting-pate"
    PRIVATE_MAJORITY = "private-majority"
    BAGGING = "bagging"
    BAGGED_PATE = "bagged-pate"

    @property
    def personalised(self) -> bool:
        """Whether groups of records have budgets of their own."""
        return self.value in PERSONALISED


class Analysis(StrEnum):
    """For what the guarantee holds; DPBag's data-dependent analysis is called personalised."""

    WORST_CASE = "worst-case"
    PERSONALISED = "personalised"
    DATA_DEPENDENT = "data-dependent"


class PackagedData(StrEnum):
    """Data sets shipped with the package."""

    ADULT = "adult"


Out = Annotated[Path, typer.Option(help="Folder for the report, student and labels.", rich_help_panel=OUTPUT)]
Dataset = Annotated[
    PackagedData | None, typer.Option(help="Packaged data, split in thirds.", rich_help_panel=DATA)
]
PrivateTable = Annotated[Path | None, typer.Option(help="Private records, CSV or Parquet.", rich_help_panel=DATA)]
PublicTable = Annotated[
    Path | None, typer.Option(help="Public rows with the same features.", rich_help_panel=DATA)
]
Target = Annotated[str | None, typer.Option(help="Column to predict.", rich_help_panel=DATA)]
Classes = Annotated[str | None, typer.Option(help="All possible labels, comma-separated.", rich_help_panel=DATA)]
TestTable = Annotated[Path | None, typer.Option(help="Rows with the target to score on.", rich_help_panel=DATA)]
TestIsPublic = Annotated[
    bool,
    typer.Option("--test-is-public", help="Exact test scores may be shared.", rich_help_panel=DATA),
]
Unit = Annotated[str | None, typer.Option(help="Private column naming whose record it is.", rich_help_panel=DATA)]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, comma-separated.", rich_help_panel=DATA)]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Privacy budget (default 1); not for personalised methods.", rich_help_panel=PRIVACY),
]
Budgets = Annotated[
    str | None,
    typer.Option(
        help="Personalised: private column of budgets; or groups and shares to deal at random, "
        "high=0.5:20%,low=2:80%.",
        rich_help_panel=PRIVACY,
    ),
]
Levels = Annotated[
    str | None,
    typer.Option(
        help="What that column's entries stand for, high=0.5,low=2; with public shares, high=0.5:20%,low=2:80%.",
        rich_help_panel=PRIVACY,
    ),
]
Delta = Annotated[float, typer.Option(help="Must be below 1/records.", rich_help_panel=PRIVACY)]
RelationOption = Annotated[Relation, typer.Option(help="Neighbouring relation.", rich_help_panel=PRIVACY)]
AccountingOption = Annotated[
    Accounting,
    typer.Option(help="Charge for what a label alone reveals, or as the papers do.", rich_help_panel=PRIVACY),
]
AnalysisOption = Annotated[
    Analysis,
    typer.Option(
        help="Worst case, or from the private votes: personalised (dpbag), data-dependent (PATE).",
        rich_help_panel=PRIVACY,
    ),
]
StopWhenSpent = Annotated[
    bool,
    typer.Option(
        "--stop-when-spent",
        help="Not worst-case: answer until the budget is gone, which leaks through the number.",
        rich_help_panel=PRIVACY,
    ),
]
MaxLabels = Annotated[int | None, typer.Option(help="Most public rows to ask about.", rich_help_panel=PRIVACY)]
InsecureReleaseSeed = Annotated[
    int | None,
    typer.Option(help="Seed the noise: repeatable, and NOT FOR RELEASE.", rich_help_panel=PRIVACY),
]
MethodOption = Annotated[
    Method,
    typer.Option(
        help="Subsample-and-aggregate, bagging, PATE by Laplace or Gaussian noise, the optimal vote, personal "
        "budgets, or teachers that draw their records.",
        rich_help_panel=MODEL,
    ),
]
AggregatorOption = Annotated[
    Aggregator | None,
    typer.Option(
        help="Personalised and bagged PATE: how votes become a label (default gnmax).", rich_help_panel=MODEL
    ),
]
RuleOption = Annotated[
    Rule | None,
    typer.Option(
        help="Personalised: copies, weights or turns that use up all budgets together, or as published.",
        rich_help_panel=MODEL,
    ),
]
Precision = Annotated[
    float | None,
    typer.Option(
        help="upsampling, weighting: largest relative error of copies or weights.", rich_help_panel=MODEL
    ),
]
VanishAtEnd = Annotated[
    bool,
    typer.Option(
        "--vanish-at-end",
        help="vanishing, weighting: spent groups drop out while the others go on.",
        rich_help_panel=MODEL,
    ),
]
PrivateTeachers = Annotated[
    PrivateWhat | None,
    typer.Option(
        help="private-majority: models trained once (default), trained anew for every label, or noisy ballots.",
        rich_help_panel=MODEL,
    ),
]
TeacherEpsilon = Annotated[
    float | None,
    typer.Option(help="private-majority: epsilon of each private teacher or ballot.", rich_help_panel=MODEL),
]
SharingOption = Annotated[
    Sharing | None,
    typer.Option(help="private-majority: teachers learn all records (default), or parts.", rich_help_panel=MODEL),
]
Majority = Annotated[
    MajorityRule | None,
    typer.Option(help="private-majority: how ballots become a label.", rich_help_panel=MODEL),
]
Subsample = Annotated[
    int | None,
    typer.Option(
        help="bagged-pate: records drawn for each teacher (default half of a partition's).", rich_help_panel=MODEL
    ),
]
Scheme = Annotated[
    Bootstrap | None,
    typer.Option(help="bagged-pate: how records are drawn (default distinct).", rich_help_panel=MODEL),
]
Teachers = Annotated[
    int | None,
    typer.Option(help="Teachers in each partition (default 250; private-majority 11).", rich_help_panel=MODEL),
]
Partitions = Annotated[
    int | None, typer.Option(help="dpbag (default 10) and optimal: partitions.", rich_help_panel=MODEL)
]
Scale = Annotated[
    float | None,
    typer.Option(help="saa, dpbag, lnmax: Laplace scale in votes.", rich_help_panel=MODEL),
]
Sigma = Annotated[
    float | None,
    typer.Option(help="gnmax and its kin: standard deviation of the noise in votes.", rich_help_panel=MODEL),
]
Reach = Annotated[
    float | None,
    typer.Option(
        help="optimal: margin in votes at which the answer is certain (found if --max-labels is given).",
        rich_help_panel=MODEL,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(help="confident and interactive: votes needed for an answer.", rich_help_panel=MODEL),
]
ThresholdSigma = Annotated[
    float | None,
    typer.Option(
        help="confident and interactive: standard deviation of the noise on the threshold.",
        rich_help_panel=MODEL,
    ),
]
Teacher = Annotated[str, typer.Option(help=f"Base learner: {NAMES}.", rich_help_panel=MODEL)]
Student = Annotated[str, typer.Option(help=f"Student: {', '.join(STUDENTS)}.", rich_help_panel=MODEL)]
Seed = Annotated[
    int | None,
    typer.Option(help="Public seed of split, allocation and learners; not of the noise.", rich_help_panel=MODEL),
]
Jobs = Annotated[int, typer.Option(help="Parallel workers; -1 takes all cores.", rich_help_panel=MODEL)]
Baseline = Annotated[
    bool,
    typer.Option("--baseline", help="Also train without privacy, as an experiment.", rich_help_panel=OUTPUT),
]
PrivateReport = Annotated[
    bool,
    typer.Option(
        "--private-report",
        help="Also write private vote statistics, for your eyes.",
        rich_help_panel=OUTPUT,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier run in --out.", rich_help_panel=OUTPUT)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)]
