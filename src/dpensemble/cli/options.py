"""Options of ``train`` and ``plan``: some that every method has, the rest read off its estimator and its law."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpensemble.cli.help import METAVARS, one_line
from dpensemble.cli.manifest import Parameter, learners
from dpensemble.cli.method_choice import (
    LAWS,
    Choice,
    law_of,
    law_parameter,
    laws_of,
    method_of,
    methods_of,
    rule_fields,
)

DATA, PRIVACY, METHOD, OUTPUT = "Data", "Privacy", "Method", "Output"
PANELS = (DATA, PRIVACY, METHOD, OUTPUT)

#: Where a value goes: an estimator's setting, a field of its law or of its rule, or the command's own.
SETTING, LAW, RULE, OWN = "settings", "law_fields", "rule_fields", "own"

_RIGHT = 49

# Parameters whose option has another name here.
_FLAGS = {
    "n_teachers": "--teachers",
    "n_partitions": "--partitions",
    "n_models": "--models",
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "n_units": "--records",
    "private": "--private-teachers",
    "teacher_privacy": "--teacher-epsilon",
}
_ALSO = {("bagging", "n_teachers"): "--models"}
_PRIVACY = {"epsilon", "delta", "relation", "accounting", "analysis", "max_labels", "insecure_release_seed", "private"}
# Settings of laws that are found where they are left out.
_NOISE = {"scale", "sigma", "reach"}
# Given by the data, or by an option of another name.
_GIVEN_OTHERWISE = {"classes", "on_bad_record", "declared_columns", "law"}
_NOT_PLANNED = {
    "teacher", "student", "analysis", "relation", "max_labels", "random_state", "insecure_release_seed", "n_jobs",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: how it is written, what it takes and where its value goes."""

    flag: str
    name: str
    goes_to: str = OWN
    kind: type = str
    panel: str = METHOD
    text: str = ""
    choices: tuple[str, ...] = ()
    default: Any = None
    required: bool = False
    hidden: bool = False
    also: str | None = None

    @property
    def key(self) -> str:
        """Its name as an argument of the function that is run."""
        return self.flag.strip("-").replace("-", "_")

    @property
    def metavar(self) -> str:
        """What stands for its value in help."""
        folder = self.flag == "--out"
        return "FOLDER" if folder else "NAME" if self.choices else METAVARS[self.kind]


def _own(flag: str, text: str, kind: type = str, panel: str = DATA, **rest: Any) -> Option:
    name = flag.strip("-").replace("-", "_")
    return Option(flag=flag, name=name, kind=kind, panel=panel, text=text.removesuffix("."), **rest)


_JSON = _own("--json", "Print the result as JSON.", bool, OUTPUT, default=False)
_TRAIN = (
    _own("--dataset", "Packaged data, split in thirds", choices=("adult",)),
    _own("--private", "Private records: CSV, Parquet, Parquet folder.", Path),
    _own("--public", "Public rows with the same features.", Path),
    _own("--target", "Column to predict."),
    _own("--classes", "All possible labels, comma-separated."),
    _own("--test", "Rows with the target to score on.", Path),
    _own("--test-is-public", "Exact test scores may be shared.", bool, default=False),
    _own("--holdout-score", "Share of private units to score on, with noise.", float),
    _own("--fewest-units", "Public lower bound on private units, for --delta.", int),
    _own("--unit", "Private column naming whose record it is."),
    _own("--drop", "Columns to leave out, comma-separated."),
    _own("--fill", "Fill blanks in from public rows.", bool, default=False),
    _own(
        "--on-bad-record",
        "What a bad record does: zero (default) or raise",
        choices=("zero", "raise"),
        default="zero",
    ),
    _own("--strict", "Refuse columns that a note would be about.", bool, default=False),
    _own("--sep", "Separator of columns in CSV, such as ';' or tab."),
    _own("--decimal", "Decimal sign of numbers in CSV: . or ,"),
    _own("--multiline-text", "Quoted texts in CSV may hold line breaks.", bool, default=False),
    _own("--out", "Folder for report, student and labels. Required.", Path, OUTPUT, required=True),
    _own("--ledger", "File or address of a ledger that has to allow it.", panel=PRIVACY),
    _own("--data-set", "Name of the records' account in --ledger.", panel=PRIVACY),
    _own("--title", "Headline of the page.", panel=OUTPUT),
    _own("--baseline", "Also train without privacy, as an experiment.", bool, OUTPUT, default=False),
    _own("--overwrite", "Replace an earlier run in --out.", bool, OUTPUT, default=False),
    _JSON,
    _own("--log-json", "File for events as lines of JSON, for programs.", Path, OUTPUT),
    _own("--quiet", "No progress bar.", bool, OUTPUT, default=False),
)
_PRIVATE_REPORT = _own("--private-report", "Also write secret vote statistics, for you.", bool, OUTPUT, default=False)
_IN_BLOCKS = _own("--in-blocks", "Read private Parquet in blocks, as large is.", bool, default=False)
_CERTIFY = _own("--certificate", "Also certify votes, as sums always are.", bool, OUTPUT, default=False)
_DECLARED = _own("--declared-columns", "Columns as JSON, where no rows are public.", Path)
_TRAIN_BY_GROUP = (
    _own("--budgets", "Private column of budgets, or a=0.5:20%,b=2:80%.", panel=PRIVACY),
    _own("--levels", "What that column's entries stand for: a=0.5,b=2.", panel=PRIVACY),
)
_PLAN = (
    _own("--labels", "Labels wanted; left out: found.", int),
    _own("--classes", "Number of classes [2]", int, default=2),
)
_PLAN_ALIKE = (_own("--agreement", "Share of teachers that agree on a row [0.8]", float),)
_PLAN_PARTITIONED = (_own("--label-accuracy", "Find the smallest ensemble right this often.", float),)
_PLOT = _own("--plot", "Also draw epsilon and wrong labels as SVG.", Path, OUTPUT)
_CERTIFICATE = _own("--certificate", "Also write what `dpensemble verify` checks.", Path, OUTPUT)
_PLAN_BY_GROUP = (_own("--budgets", "Groups and shares: high=0.5:20%,low=2:80%.", panel=PRIVACY),)
_PLAN_OF_DRAWS = (_own("--records", "Number of private records.", int),)


def options_of(choice: Choice) -> list[Option]:
    """Return the options of a command for a method and a law, by panel."""
    found = {option.flag: option for option in _common(choice.command, choice.method)}
    for option in _of_estimator(choice):
        found.setdefault(option.flag, option)
    return sorted(found.values(), key=lambda option: PANELS.index(option.panel))


def _common(command: str, method: str) -> Iterator[Option]:
    described = method_of(method)
    by_group, votes = "budgets" in described.fit, "student" in described.parameters
    # Taken out before parsing; here it is refused where it has no value.
    yield Option(flag="--method", name="method", hidden=True)
    if command == "train":
        yield from _TRAIN
        yield from (_PRIVATE_REPORT,) if "diagnostics" in described.fit else ()
        # Runs by group have a screen full of options, and plans that are certified.
        yield from (_CERTIFY,) if "diagnostics" in described.fit and not by_group else ()
        yield from _TRAIN_BY_GROUP if by_group else ()
        yield from (_DECLARED,) if "declared_columns" in described.parameters else ()
        yield from (_IN_BLOCKS,) if described.in_blocks else ()
        return
    drawn = "subsample" in described.parameters
    yield from _PLAN if votes else ()
    yield from _PLAN_BY_GROUP if by_group else ()
    yield from _PLAN_ALIKE if votes and not by_group else ()
    yield from _PLAN_PARTITIONED if votes and not by_group and not drawn else ()
    yield from _PLAN_OF_DRAWS if drawn else (_PLOT,)
    yield from (_CERTIFICATE, _JSON)


def _of_estimator(choice: Choice) -> Iterator[Option]:
    described, law = method_of(choice.method), law_parameter(choice.method)
    left_out = _GIVEN_OTHERWISE | (_NOT_PLANNED if choice.command == "plan" else set())
    if "budgets" in described.fit:
        # Every record's own budget takes its place.
        left_out = left_out | {"epsilon"}
    if law is not None:
        names = laws_of(choice.method)
        yield Option(flag="--law", name="law", choices=names, text=_values(names, law.default))
        # A method that names rules of its own also finds their noise itself.
        yield from _of_law(
            choice.law if set(names) <= set(LAWS) else None,
            choice.command,
            {flag_of(name) for name in described.parameters if name not in left_out},
        )
    for parameter in described.parameters.values():
        if parameter.name in left_out:
            continue
        if parameter.name in _BY_NAME:
            yield from _BY_NAME[parameter.name]
        elif parameter.scalar is not None:
            yield replace(_read(parameter, SETTING), also=_ALSO.get((choice.method, parameter.name)))
        if parameter.name == "rule":
            yield from (_read(field, RULE) for field in rule_fields() if field.name not in parameter.choices)


def _of_law(law: str | None, command: str, taken: set[str]) -> Iterator[Option]:
    for field in law_of(law).parameters.values() if law in LAWS else ():
        option = _read(field, LAW)
        if command == "train" and field.name in _NOISE:
            option = replace(option, text=f"{option.text}; else found")
        yield replace(option, flag=f"--law-{option.flag[2:]}") if option.flag in taken else option


def _read(parameter: Parameter, goes_to: str) -> Option:
    """Return the option of a parameter whose type is a number, a text or a truth value."""
    name = parameter.name
    return Option(
        flag=flag_of(name),
        name=name,
        goes_to=goes_to,
        kind=parameter.scalar or str,
        panel=PRIVACY if name in _PRIVACY and goes_to == SETTING else METHOD,
        text=_line(parameter),
        choices=parameter.choices,
    )


def flag_of(name: str) -> str:
    """Return the option of a parameter."""
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _line(parameter: Parameter) -> str:
    """Return what help says of a parameter, in one line unless its values take more."""
    words = re.sub(r"(?<!`)`(\w+)`(?!`)", lambda match: flag_of(match[1]), parameter.summary).replace("`", "")
    if not parameter.choices:
        is_number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
        shown = f" [{parameter.default:g}]" if is_number else ""
        return one_line(words, _RIGHT - len(shown)) + shown
    values = _values(parameter.choices, parameter.default)
    fits = len(words.split(";")[0]) <= _RIGHT - len(values) - 2
    return f"{words.split(';')[0]}: {values}" if fits else values


def _values(choices: tuple[str, ...], default: Any) -> str:
    return ", ".join(f"{value} (default)" if value == default else value for value in choices)


def _setting(flag: str, name: str, text: str, kind: type = str, **rest: Any) -> Option:
    return Option(flag=flag, name=name, goes_to=SETTING, text=text, kind=kind, **rest)


_BACKEND = _own("--backend", "Fit teachers on a cluster", panel=METHOD, choices=("dask",))
_SCHEDULER = _own("--scheduler", "Its address, such as tcp://10.0.0.5:8786", panel=METHOD)
_SEEDED = "Seed the noise: repeatable, NOT FOR RELEASE"
_LEARNERS = ", ".join(learners())
#: Options of parameters that are no numbers, texts or truth values.
_BY_NAME = {
    "student": [_setting("--student", "student", "Student; as --teacher, if it can be saved")],
    "random_state": [_setting("--seed", "random_state", "Public seed; not of the noise", int)],
    "insecure_release_seed": [
        _setting("--insecure-release-seed", "insecure_release_seed", _SEEDED, int, panel=PRIVACY),
    ],
    "n_jobs": [_setting("--jobs", "n_jobs", "Parallel workers; -1 takes all cores [-1]", int, default=-1)],
    "teacher": [_setting("--teacher", "teacher", f"Base learner: {_LEARNERS}"), _BACKEND, _SCHEDULER],
    "teacher_privacy": [
        _own("--teacher-epsilon", "Epsilon of each private teacher or ballot", float, PRIVACY),
        _own("--teacher-delta", "Delta of each private teacher or ballot [0]", float, PRIVACY),
    ],
}


def owners(flag: str, command: str) -> str | None:
    """Return in words which methods or laws have an option such as ``--reach``, None if none has."""
    methods = [
        name
        for name in methods_of(command)
        if any(flag in (option.flag, option.also) for option in options_of(Choice(command, name, None, ())))
    ]
    if methods:
        return f"it belongs to the method{'s' * (len(methods) > 1)} {', '.join(methods)}"
    laws = [name for name in LAWS if flag in (flag_of(field) for field in law_of(name).parameters)]
    return f"it belongs to the law{'s' * (len(laws) > 1)} {', '.join(laws)}; choose by --law NAME" if laws else None
