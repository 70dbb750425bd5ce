"""Options of ``train`` and ``plan``: common ones, and those that are read from the estimator and its law.

One table states what the signatures of estimators and laws lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpensemble.cli.help import METAVARS, one_line
from dpensemble.cli.manifest import (
    LAWS,
    Description,
    Parameter,
    law_of,
    law_parameter,
    laws_of,
    learners,
    method_of,
    rule,
)

DATA, PRIVACY, METHOD, OUTPUT = "Data", "Privacy", "Method", "Output"
PANELS = (DATA, PRIVACY, METHOD, OUTPUT)

#: Destination of a value: a setting of the estimator, a field of its law or rule, or the command itself.
SETTING, LAW, RULE, OWN = "settings", "law_fields", "rule_fields", "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its flag, its values and their destination."""

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
    placeholder: str = ""

    @property
    def key(self) -> str:
        """Its name as an argument of the function that the command calls."""
        return name_of(self.flag)

    @property
    def metavar(self) -> str:
        """Placeholder of its value in help."""
        return self.placeholder or ("NAME" if self.choices else METAVARS[self.kind])


def name_of(flag: str) -> str:
    """Return the name of an option in Python."""
    return flag.strip("-").replace("-", "_")


def own(flag: str, text: str, kind: type = str, panel: str = DATA, **rest: Any) -> Option:
    """Return an option of the command itself."""
    return Option(flag=flag, name=name_of(flag), kind=kind, panel=panel, text=text.removesuffix("."), **rest)


def parts_of(text: str | None) -> list[str] | None:
    """Return the parts of a text between commas, without spaces around them, or None if the option was left out."""
    return None if text is None else [part.strip() for part in text.split(",")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How one parameter is shown. What is None is read from the constructor and its docstring."""

    flag: str | None = None
    #: A second name of the option, by method.
    also: tuple[tuple[str, str], ...] = ()
    #: Panel when the parameter is one of an estimator.
    panel: str = METHOD
    #: Whether `plan` also has the option.
    planned: bool = True
    #: Type, text and default of a parameter that is not a number, a text or a bool.
    kind: type | None = None
    text: str | None = None
    default: Any = None
    #: Options of the command that accompany or replace the parameter's own option.
    more: tuple[Option, ...] = ()
    replaced: bool = False
    #: Whether the fields of the parameter's rule are options too.
    rule: bool = False


_READ = Shown()
_GIVEN_BY_DATA_OR_ANOTHER_OPTION = Shown(replaced=True)
_PRIVATE = Shown(panel=PRIVACY)
_PRIVATE_OF_A_RUN = Shown(panel=PRIVACY, planned=False)
_TABLE = {
    **dict.fromkeys(("classes", "on_bad_record", "declared_columns", "law"), _GIVEN_BY_DATA_OR_ANOTHER_OPTION),
    **dict.fromkeys(("epsilon", "delta", "accounting"), _PRIVATE),
    **dict.fromkeys(("relation", "analysis", "max_labels"), _PRIVATE_OF_A_RUN),
    "private": Shown(flag="--private-teachers", panel=PRIVACY),
    "insecure_release_seed": Shown(
        panel=PRIVACY, planned=False, kind=int, text="Seed the noise: repeatable, NOT FOR RELEASE"
    ),
    "teacher_privacy": Shown(
        flag="--teacher-epsilon",
        replaced=True,
        more=(
            own("--teacher-epsilon", "Epsilon of each private teacher or ballot", float, PRIVACY),
            own("--teacher-delta", "Delta of each private teacher or ballot [0]", float, PRIVACY),
        ),
    ),
    "n_teachers": Shown(flag="--teachers", also=(("bagging", "--models"),)),
    "n_partitions": Shown(flag="--partitions"),
    "n_models": Shown(flag="--models"),
    "n_units": Shown(flag="--records"),
    "rule": Shown(rule=True),
    "teacher": Shown(
        planned=False,
        kind=str,
        text="Base learner: {learners}",
        more=(
            own("--backend", "Fit teachers on a cluster", panel=METHOD, choices=("dask",)),
            own("--scheduler", "Its address, such as tls://10.0.0.5:8786", panel=METHOD),
        ),
    ),
    "student": Shown(planned=False, kind=str, text="Student; as --teacher, if it can be saved"),
    "random_state": Shown(flag="--seed", planned=False, kind=int, text="Public seed; not of the noise"),
    "n_jobs": Shown(
        flag="--jobs", planned=False, kind=int, text="Parallel workers; -1 takes all cores [-1]", default=-1
    ),
}


def shown(name: str) -> Shown:
    """Return how a parameter is shown."""
    return _TABLE.get(name, _READ)


def flag_of(name: str) -> str:
    """Return the option of a parameter."""
    return shown(name).flag or "--" + name.replace("_", "-")


_JSON = own("--json", "Print the result as JSON.", bool, OUTPUT, default=False)
# Not a path, in which the // of an address would become /.
_PRIVATE_ROWS = own("--private", "Private records: CSV, Parquet or a folder of it.", placeholder="FILE")
_PRIVATE_OR_STREAM = own("--private", "Private records: CSV, Parquet, folder, database.", placeholder="FILE")
_TRAIN = (
    own("--dataset", "Packaged data, split in thirds", choices=("adult",)),
    _PRIVATE_ROWS,
    own("--public", "Public rows with the same features.", Path),
    own("--target", "Column to predict."),
    own("--classes", "All possible labels, comma-separated."),
    own("--test", "Rows with the target to score on.", Path),
    own("--test-is-public", "Exact test scores may be shared.", bool, default=False),
    own("--holdout-score", "Share of units to score on, with noise (--groups)", float),
    own("--fewest-units", "Public lower bound on private units, for --delta.", int),
    own("--unit", "Column naming whose record it is (--unit-name)."),
    own("--drop", "Columns to leave out, comma-separated."),
    own("--fill", "Fill blanks from public rows, as fill='median'.", bool, default=False),
    own(
        "--on-bad-record",
        "Bad records: zero (default), or raise an error",
        choices=("zero", "raise"),
        default="zero",
    ),
    own("--strict", "Raise instead of printing notes about columns.", bool, default=False),
    own("--sep", "Separator of columns in CSV, such as ';' or tab."),
    own("--decimal", "Decimal sign of numbers in CSV: . or ,"),
    own("--multiline-text", "Quoted texts in CSV may hold line breaks.", bool, default=False),
    own("--skip-lines", "Lines above the header of CSV files. [seen]", int),
    own("--out", "Folder for report, student and labels. Required.", Path, OUTPUT, required=True, placeholder="FOLDER"),
    own("--ledger", "File or address of a ledger that must allow it.", panel=PRIVACY),
    own("--data-set", "Name of the records' account in --ledger.", panel=PRIVACY),
    own("--title", "Headline of the page.", panel=OUTPUT),
    # Help is one screen, so the line of --unit names this option.
    own("--unit-name", "Noun for what --unit names, such as patient.", hidden=True),
    own("--baseline", "Also train without privacy, as an experiment.", bool, OUTPUT, default=False),
    own("--overwrite", "Replace an earlier run in --out.", bool, OUTPUT, default=False),
    _JSON,
    own("--log-json", "File for events as lines of JSON, for programs.", Path, OUTPUT),
    own("--quiet", "No progress bar.", bool, OUTPUT, default=False),
)
_QUALITY = (
    own("--cost-false-negative", "With --cost-false-positive and --positive-class", float),
    # Help is one screen, so the lines of other options name these.
    own("--groups", "Columns to score by: sex=f|m,ward.", hidden=True),
    own("--cost-false-positive", "Cost of a false alarm.", float, hidden=True),
    own("--positive-class", "Class to find [the second of two]", hidden=True),
)
_PRIVATE_REPORT = own("--private-report", "Also write secret vote statistics, for you.", bool, OUTPUT, default=False)
_IN_BLOCKS = own("--in-blocks", "Read large private Parquet in blocks.", bool, default=False)
_PARTS = (
    own("--cluster", "Sum on a cluster (--scheduler, or here: --jobs)", choices=("dask", "spark")),
    own("--scheduler", "Its address, such as tls://10.0.0.5:8786.", hidden=True),
    own("--jobs", "Processes that sum up parts of Parquet; -1 takes all cores [1]", int, hidden=True),
)
_CERTIFY = own("--certificate", "Also certify votes; sums always are.", bool, OUTPUT, default=False)
_DECLARED = own("--declared-columns", "Columns as JSON, when no rows are public.", Path)
_TRAIN_BY_GROUP = (
    own("--budgets", "Private column of budgets, or a=0.5:20%,b=2:80%.", panel=PRIVACY),
    own("--levels", "Epsilons of that column's entries: a=0.5,b=2.", panel=PRIVACY),
)
_PLAN = (
    own("--labels", "Number of labels; computed if left out.", int),
    own("--classes", "Number of classes [2]", int, default=2),
)
_PLAN_ALIKE = (own("--agreement", "Share of teachers that agree on a row [0.8]", float),)
_PLAN_PARTITIONED = (own("--label-accuracy", "Find the smallest ensemble this often right.", float),)
_PLOT = own("--plot", "Also draw epsilon and wrong labels as SVG.", Path, OUTPUT)
_CERTIFICATE = own("--certificate", "Also write what `dpensemble verify` checks.", Path, OUTPUT)
_PLAN_BY_GROUP = (own("--budgets", "Groups and shares: high=0.5:20%,low=2:80%.", panel=PRIVACY),)
_PLAN_OF_DRAWS = (own("--records", "Number of private records.", int),)


def own_options(command: str, method: Description) -> Iterator[Option]:
    """Yield the options that a command adds to those of a method."""
    by_group, votes = "budgets" in method.fit, "student" in method.parameters
    # Taken out before parsing. Here it is only refused when it has no value.
    yield Option(flag="--method", name="method", hidden=True)
    # Only sums can be computed in parts, and of streams.
    sums = method.in_blocks and "declared_columns" in method.parameters
    if command == "train":
        yield from (_PRIVATE_OR_STREAM if sums and option is _PRIVATE_ROWS else option for option in _TRAIN)
        # Methods by group hold nothing back.
        yield from () if by_group else _QUALITY
        yield from (_PRIVATE_REPORT,) if "diagnostics" in method.fit else ()
        # Methods by group already fill a screen with options, and their plans are certified.
        yield from (_CERTIFY,) if "diagnostics" in method.fit and not by_group else ()
        yield from _TRAIN_BY_GROUP if by_group else ()
        yield from (_DECLARED,) if "declared_columns" in method.parameters else ()
        yield from (_IN_BLOCKS,) if method.in_blocks else ()
        yield from _PARTS if sums else ()
        return
    drawn = "subsample" in method.parameters
    yield from _PLAN if votes else ()
    yield from _PLAN_BY_GROUP if by_group else ()
    yield from _PLAN_ALIKE if votes and not by_group else ()
    yield from _PLAN_PARTITIONED if votes and not by_group and not drawn else ()
    yield from _PLAN_OF_DRAWS if drawn else (_PLOT,)
    yield from (_CERTIFICATE, _JSON)


_RIGHT = 49


def options_of(command: str, method: str, law: str | None) -> list[Option]:
    """Return the options of a command for a method and a law, by panel."""
    options = {option.flag: option for option in own_options(command, method_of(method))}
    for option in _of_estimator(command, method, law):
        options.setdefault(option.flag, option)
    return sorted(options.values(), key=lambda option: PANELS.index(option.panel))


def _of_estimator(command: str, method: str, law: str | None) -> Iterator[Option]:
    described = method_of(method)
    parameters = [
        one
        for one in described.parameters.values()
        if (command != "plan" or shown(one.name).planned)
        # The budget of each record takes its place.
        and not (one.name == "epsilon" and "budgets" in described.fit)
    ]
    takes_law = law_parameter(method)
    if takes_law is not None:
        names = laws_of(method)
        yield Option(flag="--law", name="law", choices=names, text=_values(names, takes_law.default))
        # A method with its own rules also finds the noise of these rules.
        if law is not None and law in LAWS and set(names) <= set(LAWS):
            yield from _of_law(law, command, {flag_of(one.name) for one in parameters})
    for parameter in parameters:
        yield from _of_parameter(parameter, method)


def _of_parameter(parameter: Parameter, method: str) -> Iterator[Option]:
    """Yield the option of a method's parameter, and the options that belong to it."""
    how = shown(parameter.name)
    if not how.replaced and (how.kind or parameter.scalar) is not None:
        yield replace(_read(parameter, SETTING, how.panel), also=dict(how.also).get(method))
    yield from how.more
    if how.rule:
        yield from (_read(one, RULE, METHOD) for one in rule().parameters.values() if one.name not in parameter.choices)


def _of_law(law: str, command: str, taken: set[str]) -> Iterator[Option]:
    described = law_of(law)
    for field in described.parameters.values():
        option = _read(field, LAW, METHOD)
        if command == "train" and field.name == described.noise:
            option = replace(option, text=f"{option.text}; else found")
        yield replace(option, flag=f"--law-{option.flag[2:]}") if option.flag in taken else option


def _read(parameter: Parameter, goes_to: str, panel: str) -> Option:
    """Return the option of a parameter that is a number, a text or a bool."""
    how = shown(parameter.name)
    return Option(
        flag=flag_of(parameter.name),
        name=parameter.name,
        goes_to=goes_to,
        kind=how.kind or parameter.scalar or str,
        panel=panel,
        text=_line(parameter) if how.text is None else how.text.format(learners=", ".join(learners())),
        choices=parameter.choices if how.kind is None else (),
        default=how.default,
    )


def _line(parameter: Parameter) -> str:
    """Return the help of a parameter, on one line unless its values need more."""
    if not parameter.choices:
        is_number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
        default = f" [{parameter.default:g}]" if is_number else ""
        return one_line(parameter.help, _RIGHT - len(default)) + default
    values, words = _values(parameter.choices, parameter.default), parameter.help.split(";")[0]
    fits = len(words) <= _RIGHT - len(values) - 2
    return f"{words}: {values}" if fits else values


def _values(choices: tuple[str, ...], default: object) -> str:
    return ", ".join(f"{value} (default)" if value == default else value for value in choices)
