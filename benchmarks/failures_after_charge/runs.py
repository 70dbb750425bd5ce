"""Random command lines of `dpensemble train`: any method, law and options that the command line has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tables import RandomTables

from dpensemble.cli.app import methods_of
from dpensemble.cli.options import Option, described_method, options_of

#: Name of the account in the ledger of a run.
DATA_SET = "people"
# Values of options, and how often each is given.
_OFTEN, _RARELY = 0.35, 0.12
_NUMBERS: dict[str, list[Any]] = {
    "--max-labels": [5, 20, 60],
    "--partitions": [1, 2, 5],
    "--rounds": [1, 2, 5],
    "--subsample": [20, 60],
    "--scale": [2.0, 10.0],
    "--sigma": [2.0, 8.0],
    "--threshold": [5.0, 10.0],
    "--threshold-sigma": [4.0, 10.0],
    "--batch-size": [5, 20],
    "--student-confidence": [0.6, 0.9],
    "--reach": [4.0],
    "--shape": [0.5, 2.0],
    "--law-epsilon": [0.3, 1.0],
    "--columns": [0.5, 0.9],
    "--clip": [0.5, 2.0],
    "--precision": [0.1],
    "--teacher-epsilon": [0.5, 2.0],
    "--title": ["A title"],
    "--teacher": ["naive-bayes", "decision-tree"],
    "--student": ["naive-bayes", "decision-tree", "logistic-regression"],
}
_FLAGS = {"--baseline", "--private-report", "--test-is-public", "--fill", "--quiet", "--json", "--secret-columns"}
_FLAGS |= {"--vanish-at-end", "--strict"}
_SELDOM = {"--baseline", "--teacher-epsilon", "--strict", "--on-bad-record", "--vanish-at-end", "--subsample"}
_SELDOM |= {"--precision", "--accounting", "--rule"}


@dataclass(frozen=True, kw_only=True)
class RandomRun:
    """A command line, and what is known of it."""

    method: str
    arguments: list[str]
    has_ledger: bool
    has_earlier_run: bool
    #: Whether noise and public choices come from seeds, so that the run can be compared with itself.
    repeats: bool


def random_run(rng: np.random.Generator, tables: RandomTables) -> RandomRun:
    """Draw a method, a law and options. Many combinations are refused, which the caller has to check."""
    methods = methods_of("train")
    method = methods[rng.integers(len(methods))]
    laws = described_method(method).laws
    law = None if not laws or rng.random() < 0.4 else laws[rng.integers(len(laws))]
    options = {option.flag: option for option in options_of("train", method, law)}
    arguments = ["train", method, "--private", tables.private, "--target", "y", "--out", "run"]
    arguments += ["--classes", ",".join(tables.classes), *([] if law is None else ["--law", law])]
    if "--declared-columns" in options and rng.random() < 0.25:
        arguments += ["--declared-columns", "columns.json"]
    else:
        arguments += ["--public", tables.public]
    arguments += _privacy(rng, options, tables)
    if "--jobs" in options:
        arguments += ["--jobs", "1"]
    if "--teachers" in options:
        arguments += ["--teachers", str(rng.choice([4, 9, 20]))]
    arguments += _persons(rng, by_group="consent" in arguments)
    for option in options.values():
        if option.flag not in (*arguments, "--fill", "--relation"):
            arguments += _maybe(rng, option)
    if law == "randomized-response" and "--law-epsilon" in options and "--law-epsilon" not in arguments:
        arguments += ["--law-epsilon", "0.5"]
    # Other methods take blanks as they are.
    if method not in ("auto", "label-moments") and (tables.has_blanks or rng.random() < _OFTEN):
        arguments += ["--fill"]
    by_group = "--budgets" in options
    arguments += _outputs(rng, options, tables, by_group=by_group)
    if not by_group and not {"--holdout-score", "--in-blocks"} & set(arguments) and rng.random() < _OFTEN:
        arguments += ["--relation", "add-or-remove-one"]
    seeded, public_seed = rng.random() < 0.8, rng.random() < 0.8
    arguments += ["--insecure-release-seed", str(rng.integers(1000))] if seeded else []
    arguments += ["--seed", str(rng.integers(1000))] if public_seed else []
    has_ledger, has_earlier_run = bool(rng.random() < 0.6), bool(rng.random() < 0.15)
    arguments += ["--ledger", "ledger.db", "--data-set", DATA_SET] if has_ledger else []
    arguments += ["--overwrite"] if has_earlier_run else []
    return RandomRun(
        method=method,
        arguments=arguments,
        has_ledger=has_ledger,
        has_earlier_run=has_earlier_run,
        repeats=seeded and public_seed,
    )


def _privacy(rng: np.random.Generator, options: dict[str, Option], tables: RandomTables) -> list[str]:
    found = ["--delta", str(rng.choice([1e-4, 1e-3]))]
    if "--budgets" not in options:
        return [*found, "--epsilon", str(rng.choice([2, 5, 12]))]
    kind = rng.integers(3)
    if kind == 0:
        return [*found, "--budgets", "4:50%,9:50%"]
    levels = tables.levels
    if levels is not None and kind == 1:
        # Shares of people are public where their number is private.
        levels = ",".join(f"{one}:50%" for one in levels.split(","))
    return [*found, "--budgets", "consent", *([] if levels is None else ["--levels", levels])]


def _persons(rng: np.random.Generator, *, by_group: bool) -> list[str]:
    drop, options = [] if by_group else ["consent"], []
    if rng.random() < _OFTEN:
        options = ["--unit", "who"]
    else:
        drop.append("who")
    return options + (["--drop", ",".join(drop)] if drop else [])


def _outputs(
    rng: np.random.Generator, options: dict[str, Option], tables: RandomTables, *, by_group: bool
) -> list[str]:
    found: list[str] = []
    if tables.private_format != "folder" and not by_group and rng.random() < _OFTEN:
        found += ["--holdout-score", str(rng.choice([0.2, 0.4]))]
    if rng.random() < _OFTEN:
        found += ["--test", tables.test]
    if rng.random() < _RARELY:
        found += ["--log-json", "log.jsonl"]
    if (
        "--in-blocks" in options
        and tables.private_format != "csv"
        and "--holdout-score" not in found
        and rng.random() < _OFTEN
    ):
        found += ["--in-blocks"]
    if "--certificate" in options and rng.random() < _RARELY:
        found += ["--certificate"]
    return found


def _maybe(rng: np.random.Generator, option: Option) -> list[str]:
    """Return an option with a random value, or nothing."""
    often = _RARELY if option.flag in _SELDOM else _OFTEN
    if rng.random() > often or option.flag in ("--dataset", "--backend", "--law"):
        return []
    if option.flag in _FLAGS:
        return [option.flag]
    if option.choices:
        return [option.flag, option.choices[rng.integers(len(option.choices))]]
    values = _NUMBERS.get(option.flag)
    return [] if values is None else [option.flag, str(values[rng.integers(len(values))])]
