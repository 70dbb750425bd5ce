"""``dpensemble train``."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from dpensemble.accounting import Accounting
from dpensemble.cli.show import print_run, warnings_as_lines
from dpensemble.errors import InvalidParameterError
from dpensemble.methods import DPBaggingClassifier, PATEClassifier, SubsampleAggregateClassifier
from dpensemble.methods.base import VotingEnsembleClassifier
from dpensemble.planning import VotingMethod
from dpensemble.relations import Relation
from dpensemble.workflow import (
    LEARNERS,
    STUDENTS,
    Tables,
    adult_tables,
    file_tables,
    learner,
    staged_folder,
    write_outcome,
)
from dpensemble.workflow import train as run_training
from dpensemble.workflow.outputs import REPORT, STUDENT


class Analysis(StrEnum):
    """For what the guarantee holds; DPBag's data-dependent analysis is called personalised."""

    WORST_CASE = "worst-case"
    PERSONALISED = "personalised"
    DATA_DEPENDENT = "data-dependent"


class PackagedData(StrEnum):
    """Data sets shipped with the package."""

    ADULT = "adult"


_DATA, _PRIVACY, _MODEL, _OUTPUT = "Data", "Privacy", "Model", "Output"
_NAMES = ", ".join(LEARNERS)


def train(
    out: Annotated[
        Path, typer.Option(help="Folder for the report, student and labels.", rich_help_panel=_OUTPUT)
    ],
    dataset: Annotated[
        PackagedData | None, typer.Option(help="Packaged data, split in thirds.", rich_help_panel=_DATA)
    ] = None,
    private: Annotated[
        Path | None, typer.Option(help="Private records, CSV or Parquet.", rich_help_panel=_DATA)
    ] = None,
    public: Annotated[
        Path | None, typer.Option(help="Public rows with the same features.", rich_help_panel=_DATA)
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict.", rich_help_panel=_DATA)] = None,
    classes: Annotated[
        str | None, typer.Option(help="All possible labels, comma-separated.", rich_help_panel=_DATA)
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Rows with the target to score on.", rich_help_panel=_DATA)
    ] = None,
    test_is_public: Annotated[
        bool,
        typer.Option("--test-is-public", help="Exact test scores may be shared.", rich_help_panel=_DATA),
    ] = False,
    unit: Annotated[
        str | None, typer.Option(help="Private column naming whose record it is.", rich_help_panel=_DATA)
    ] = None,
    drop: Annotated[
        str | None, typer.Option(help="Columns to leave out, comma-separated.", rich_help_panel=_DATA)
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy budget.", rich_help_panel=_PRIVACY)] = 1.0,
    delta: Annotated[float, typer.Option(help="Must be below 1/records.", rich_help_panel=_PRIVACY)] = 1e-5,
    relation: Annotated[
        Relation, typer.Option(help="Neighbouring relation.", rich_help_panel=_PRIVACY)
    ] = Relation.REPLACE_ONE,
    accounting: Annotated[
        Accounting,
        typer.Option(
            help="Charge for what a label alone reveals, or as the papers do.", rich_help_panel=_PRIVACY
        ),
    ] = Accounting.EXACT,
    analysis: Annotated[
        Analysis,
        typer.Option(
            help="Worst case, or from the private votes: personalised (dpbag), data-dependent (PATE).",
            rich_help_panel=_PRIVACY,
        ),
    ] = Analysis.WORST_CASE,
    stop_when_spent: Annotated[
        bool,
        typer.Option(
            "--stop-when-spent",
            help="Not worst-case: answer until the budget is gone, which leaks through the number.",
            rich_help_panel=_PRIVACY,
        ),
    ] = False,
    max_labels: Annotated[
        int | None, typer.Option(help="Most public rows to ask about.", rich_help_panel=_PRIVACY)
    ] = None,
    insecure_release_seed: Annotated[
        int | None,
        typer.Option(help="Seed the noise: repeatable, and NOT FOR RELEASE.", rich_help_panel=_PRIVACY),
    ] = None,
    method: Annotated[
        VotingMethod,
        typer.Option(
            help="Subsample-and-aggregate, bagging, or PATE by Laplace or Gaussian noise.", rich_help_panel=_MODEL
        ),
    ] = VotingMethod.SAA,
    teachers: Annotated[int, typer.Option(help="Teachers in each partition.", rich_help_panel=_MODEL)] = 250,
    partitions: Annotated[
        int | None, typer.Option(help="dpbag only: partitions (default 10).", rich_help_panel=_MODEL)
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="saa, dpbag, lnmax: Laplace scale in votes.", rich_help_panel=_MODEL),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="gnmax and its kin: standard deviation of the noise in votes.", rich_help_panel=_MODEL),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="confident and interactive: votes needed for an answer.", rich_help_panel=_MODEL),
    ] = None,
    threshold_sigma: Annotated[
        float | None,
        typer.Option(
            help="confident and interactive: standard deviation of the noise on the threshold.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    teacher: Annotated[
        str, typer.Option(help=f"Base learner: {_NAMES}.", rich_help_panel=_MODEL)
    ] = "logistic-regression",
    student: Annotated[
        str, typer.Option(help=f"Student: {', '.join(STUDENTS)}.", rich_help_panel=_MODEL)
    ] = "logistic-regression",
    seed: Annotated[
        int | None,
        typer.Option(
            help="Public seed of split, allocation and learners; not of the noise.", rich_help_panel=_MODEL
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Parallel workers; -1 takes all cores.", rich_help_panel=_MODEL)] = -1,
    baseline: Annotated[
        bool,
        typer.Option("--baseline", help="Also train without privacy, as an experiment.", rich_help_panel=_OUTPUT),
    ] = False,
    private_report: Annotated[
        bool,
        typer.Option(
            "--private-report",
            help="Also write private vote statistics, for your eyes.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run in --out.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Train a private student and write its report.

    Teachers are trained on parts of the private records and vote on public rows; the student learns
    from a noisy majority, for as long as the budget lasts.

    Example: dpensemble train --dataset adult --method dpbag --epsilon 1 --out demo
    """
    start = perf_counter()
    settings: dict[str, Any] = {
        "teacher": None if teacher == "logistic-regression" else learner("teacher", teacher),
        "student": None if student == "logistic-regression" else learner("student", student, STUDENTS),
        "n_teachers": teachers,
        "accounting": accounting.value,
        "epsilon": epsilon,
        "delta": delta,
        "relation": relation.value,
        "max_labels": max_labels,
        "random_state": seed,
        "insecure_release_seed": insecure_release_seed,
        "n_jobs": jobs,
        "progress": not quiet and sys.stderr.isatty(),
        "private_diagnostics": private_report,
    }
    noise = {"scale": scale, "sigma": sigma, "threshold": threshold, "threshold_sigma": threshold_sigma}
    if analysis is not Analysis.WORST_CASE or stop_when_spent:
        settings |= {"analysis": analysis.value, "stop_when_spent": stop_when_spent}
    model = _estimator(method, partitions, noise, settings)
    tables_given = [path for path in (private, public, test) if path is not None]
    with staged_folder(out, overwrite=overwrite, inputs=tables_given) as staging:
        names = [] if drop is None else [name.strip() for name in drop.split(",")]
        given = {"private": private, "public": public, "target": target, "classes": classes}
        optional = {"test": test, "unit": unit, "drop": names, "test_is_public": test_is_public}
        tables = _tables(dataset, given, optional, seed)
        read = perf_counter() - start
        with warnings_as_lines():
            outcome = run_training(tables, model, baseline=baseline)
        outcome.record.seconds["reading"] = round(read, 3)
        outcome.record.seconds["total"] = round(perf_counter() - start, 3)
        write_outcome(outcome, staging)
    if as_json:
        typer.echo(json.dumps(outcome.record.to_dict() | {"out": str(out)}, indent=2))
    else:
        print_run(outcome.record, out / REPORT, out / STUDENT)


def _estimator(
    method: VotingMethod, partitions: int | None, noise: dict[str, Any], settings: dict[str, Any]
) -> VotingEnsembleClassifier:
    if partitions not in (None, 1) and method is not VotingMethod.DPBAG:
        raise InvalidParameterError(
            f"partitions={partitions} is a setting of --method dpbag; {method.value} has one partition."
        )
    if method not in (VotingMethod.SAA, VotingMethod.DPBAG):
        return PATEClassifier(aggregator=method.value, **(noise | _named(settings, "data-dependent")))
    foreign = [name for name, value in noise.items() if name != "scale" and value is not None]
    if foreign:
        raise InvalidParameterError(f"{foreign[0]} is no setting of --method {method.value}; give --scale.")
    if method is VotingMethod.DPBAG:
        n_partitions = 10 if partitions is None else partitions
        return DPBaggingClassifier(
            n_partitions=n_partitions, scale=noise["scale"], **_named(settings, "personalised")
        )
    if "analysis" in settings:
        raise InvalidParameterError(
            "--analysis and --stop-when-spent are not for --method saa; use dpbag or gnmax."
        )
    return SubsampleAggregateClassifier(scale=noise["scale"], **settings)


def _named(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the settings with the data-dependent analysis by the name that the method gives it."""
    if settings.get("analysis", Analysis.WORST_CASE.value) == Analysis.WORST_CASE.value:
        return settings
    return settings | {"analysis": name}


def _tables(
    dataset: PackagedData | None, given: dict[str, Any], optional: dict[str, Any], seed: int | None
) -> Tables:
    if dataset is not None:
        named = [f"--{name.replace('_', '-')}" for name, value in (given | optional).items() if value]
        if named:
            raise InvalidParameterError(
                f"dataset={dataset.value!r} brings its own tables; drop {', '.join(named)}."
            )
        return adult_tables(seed)
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if len(missing) == len(given):
        raise InvalidParameterError(
            "no data: give --dataset adult, or --private FILE --public FILE --target COLUMN --classes A,B."
        )
    if missing and missing != ["--classes"]:
        raise InvalidParameterError(f"{' and '.join(missing)} must be given to train on your own tables.")
    return file_tables(**given, **optional)
