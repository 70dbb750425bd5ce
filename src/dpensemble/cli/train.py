"""``dpensemble train``."""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import Any

import typer

from dpensemble.accounting import Accounting
from dpensemble.cli import options as o
from dpensemble.cli.estimators import estimator, refuse_mixtures
from dpensemble.cli.show import print_run, warnings_as_lines
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.workflow import (
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


def train(
    out: o.Out,
    dataset: o.Dataset = None,
    private: o.PrivateTable = None,
    public: o.PublicTable = None,
    target: o.Target = None,
    classes: o.Classes = None,
    test: o.TestTable = None,
    test_is_public: o.TestIsPublic = False,
    unit: o.Unit = None,
    drop: o.Drop = None,
    epsilon: o.Epsilon = None,
    budgets: o.Budgets = None,
    levels: o.Levels = None,
    delta: o.Delta = 1e-5,
    relation: o.RelationOption = Relation.REPLACE_ONE,
    accounting: o.AccountingOption = Accounting.EXACT,
    analysis: o.AnalysisOption = o.Analysis.WORST_CASE,
    stop_when_spent: o.StopWhenSpent = False,
    max_labels: o.MaxLabels = None,
    insecure_release_seed: o.InsecureReleaseSeed = None,
    method: o.MethodOption = o.Method.SAA,
    aggregator: o.AggregatorOption = None,
    rule: o.RuleOption = None,
    precision: o.Precision = None,
    vanish_at_end: o.VanishAtEnd = False,
    private_teachers: o.PrivateTeachers = None,
    teacher_epsilon: o.TeacherEpsilon = None,
    sharing: o.SharingOption = None,
    majority: o.Majority = None,
    subsample: o.Subsample = None,
    scheme: o.Scheme = None,
    teachers: o.Teachers = None,
    partitions: o.Partitions = None,
    scale: o.Scale = None,
    sigma: o.Sigma = None,
    reach: o.Reach = None,
    threshold: o.Threshold = None,
    threshold_sigma: o.ThresholdSigma = None,
    teacher: o.Teacher = "logistic-regression",
    student: o.Student = "logistic-regression",
    seed: o.Seed = None,
    jobs: o.Jobs = -1,
    baseline: o.Baseline = False,
    private_report: o.PrivateReport = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Train a private student and write its report.

    Teachers are trained on parts of the private records and vote on public rows; the student learns
    from a noisy majority, for as long as the budget lasts.

    Example: dpensemble train --dataset adult --method dpbag --epsilon 1 --out demo
    """
    start = perf_counter()
    if method is o.Method.BAGGING:
        raise InvalidParameterError(
            "--method bagging publishes models instead of labels, so 'train' does not run it; use "
            "BaggingPrivacyClassifier in Python, and 'dpensemble plan --method bagging' for what it promises."
        )
    personal = {"aggregator": aggregator, "rule": rule, "precision": precision, "vanish_at_end": vanish_at_end}
    dealt = {"budgets": budgets, "levels": levels}
    refuse_mixtures(method, personal | dealt, epsilon, relation)
    settings: dict[str, Any] = {
        "teacher": None if teacher == "logistic-regression" else learner("teacher", teacher),
        "student": None if student == "logistic-regression" else learner("student", student, STUDENTS),
        "accounting": accounting.value,
        "epsilon": 1.0 if epsilon is None else epsilon,
        "delta": delta,
        "relation": relation.value,
        "max_labels": max_labels,
        "random_state": seed,
        "insecure_release_seed": insecure_release_seed,
        "n_jobs": jobs,
        "progress": not quiet and sys.stderr.isatty(),
        "private_diagnostics": private_report,
    }
    if teachers is not None:
        settings["n_teachers"] = teachers
    noise = {"scale": scale, "sigma": sigma, "threshold": threshold, "threshold_sigma": threshold_sigma}
    own: dict[o.Method, dict[str, Any]] = {
        o.Method.PRIVATE_MAJORITY: {
            "private": private_teachers,
            "teacher_epsilon": teacher_epsilon,
            "sharing": sharing,
            "aggregator": majority,
        },
        o.Method.BAGGED_PATE: {"subsample": subsample, "scheme": scheme},
    }
    noise["reach"] = reach
    stopping = {"analysis": analysis, "stop_when_spent": stop_when_spent}
    model = estimator(method, settings, noise, stopping, partitions=partitions, personal=personal, own=own)
    inputs = [path for path in (private, public, test) if path is not None]
    with staged_folder(out, overwrite=overwrite, inputs=inputs) as staging:
        names = [] if drop is None else [name.strip() for name in drop.split(",")]
        given = {"private": private, "public": public, "target": target, "classes": classes}
        optional = {"test": test, "unit": unit, "drop": names, "test_is_public": test_is_public}
        tables = _tables(dataset, given, optional, dealt | {"seed": seed})
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


def _tables(
    dataset: o.PackagedData | None, given: dict[str, Any], optional: dict[str, Any], either: dict[str, Any]
) -> Tables:
    if dataset is not None:
        named = [f"--{name.replace('_', '-')}" for name, value in (given | optional).items() if value]
        if named:
            raise InvalidParameterError(
                f"dataset={dataset.value!r} brings its own tables; drop {', '.join(named)}."
            )
        return adult_tables(**either)
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if len(missing) == len(given):
        raise InvalidParameterError(
            "no data: give --dataset adult, or --private FILE --public FILE --target COLUMN --classes A,B."
        )
    if missing and missing != ["--classes"]:
        raise InvalidParameterError(f"{' and '.join(missing)} must be given to train on your own tables.")
    return file_tables(**given, **optional, **either)
