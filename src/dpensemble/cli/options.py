"""Options of commands: where they come from, what their values become, and the pages of help that list them.

The options of ``train`` and ``plan`` are listed by `options_of`. They come from three places:

- `_TRAIN`, `_PLAN` and the tables beside them hold the options of the command itself, such as ``--private``.
- `manifest.json` holds the parameters of each estimator and law, such as ``epsilon``, with their docstrings.
  `scripts/write_manifest.py` writes the file, and a test compares the file with the classes. Importing scikit-learn
  takes more than a second, which a version, a help page or a mistyped option should not cost.
- `_OPTIONS_OF_PARAMETERS` states what these signatures lack, such as the flag ``--epsilon`` and its panel. A parameter
  that is not in the table becomes the option of the same name.

A command line becomes a `Request`. All other commands state their options in `dpensemble.cli.static_commands`.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

_LEFT = 31
_WIDEST = 100
#: Placeholder of a value in help, by type.
_METAVARS: dict[type, str] = {int: "INT", float: "FLOAT", str: "TEXT", Path: "FILE", bool: ""}


class _Plain:
    """Write a page without boxes."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage, description and options."""
        width = min(max(80, shutil.get_terminal_size().columns), _WIDEST)
        command = ctx.command
        pieces = " ".join(command.collect_usage_pieces(ctx))
        usage = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), pieces)
        lines = [f"Usage: {ctx.command_path} {usage}"]
        for paragraph in (command.help or "").split("\n\n"):
            lines += textwrap.wrap(" ".join(paragraph.split()), width)
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in command.params:
            if not parameter.hidden:
                left = _left(parameter, command)
                panels.setdefault(_panel(parameter), []).append((left, parameter.help or ""))
        for name, child in getattr(command, "commands", {}).items():
            panels.setdefault("Commands", []).append((name, child.get_short_help_str(_WIDEST)))
        panels.setdefault("Options", []).append(("-h, --help", "Show this page."))
        for panel, rows in panels.items():
            lines.append(f"{panel}:")
            for left, text in rows:
                lines += _row(left, text, width)
        formatter.write("\n".join(lines) + "\n")


class PlainCommand(_Plain, TyperCommand):
    """A command whose help is plain text."""


class PlainGroup(_Plain, TyperGroup):
    """A group of commands whose help is plain text."""


def one_line(text: str, width: int) -> str:
    """Return a text cut to a width, at the end of a clause when enough text remains.

    Examples
    --------
    >>> one_line("Neighbouring relation; decides how records are allocated", 40)
    'Neighbouring relation'
    >>> one_line("Standard deviation of the noise on the votes", 30)
    'Standard deviation of the ...'
    """
    if len(text) <= width:
        return text
    ends = [match.start() for match in re.finditer(r"[;,] |\(", text) if width / 3 <= match.start() <= width]
    if ends:
        return text[: ends[-1]].rstrip()
    return text[: width - 3].rsplit(" ", 1)[0] + " ..."


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return parameter.rich_help_panel or "Options"


def _left(parameter: Any, command: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    metavar = "" if parameter.is_flag else parameter.metavar
    if metavar is None:
        kind = get_type_hints(command.callback)[parameter.name]
        metavar = _METAVARS.get((*get_args(kind), kind)[0], "NAME")
    return f"{', '.join(parameter.opts)} {metavar}".rstrip()


def _row(left: str, text: str, width: int) -> list[str]:
    wrapped = textwrap.wrap(text, width - _LEFT) or [""]
    first = f"  {left:<{_LEFT - 2}}"
    lines = [f"{first}{wrapped[0]}"] if len(first) == _LEFT else [first, f"{'':{_LEFT}}{wrapped[0]}"]
    return [line.rstrip() for line in [*lines, *(f"{'':{_LEFT}}{line}" for line in wrapped[1:])]]


MANIFEST = files("dpensemble.cli") / "manifest.json"
_SCALARS: dict[str | None, type] = {"int": int, "float": float, "str": str, "bool": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: its default, its type if that is a number, text or bool, its allowed values, and its help."""

    name: str
    default: Any
    scalar: type | None
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A class: names, parameters, arguments of `fit`, whether it fits blocks, and the noise field of a law."""

    name: str | None
    title: str | None
    words: str
    parameters: dict[str, Parameter]
    fit: tuple[str, ...] = ()
    in_blocks: bool = False
    noise: str | None = None

    @property
    def law(self) -> Parameter | None:
        """The parameter that selects a method's law, or None."""
        return self.parameters.get("law")

    @property
    def laws(self) -> tuple[str, ...]:
        """Laws that a method offers: those in its docstring, else all laws."""
        return () if self.law is None else self.law.choices or tuple(LAWS)


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return content


@cache
def _class_in_manifest(name: str) -> Description:
    """Return the description of a class by its name."""
    entry = _content()["classes"][name]
    parameters = {one["name"]: _parameter_in_manifest(one) for one in entry["parameters"]}
    return Description(**entry | {"parameters": parameters, "fit": tuple(entry["fit"])})


def _parameter_in_manifest(entry: dict[str, Any]) -> Parameter:
    """Return a parameter from its entry in the file."""
    # JSON has no tuples, and no default of a class can be a list.
    default = tuple(entry["default"]) if isinstance(entry["default"], list) else entry["default"]
    scalar, choices = _SCALARS.get(entry["scalar"]), tuple(entry["choices"])
    return Parameter(**entry | {"default": default, "scalar": scalar, "choices": choices})


#: Classes of the methods, by their short names.
METHODS: dict[str, str] = _content()["methods"]
#: Classes of the laws that every command can name, by short name.
LAWS: dict[str, str] = _content()["laws"]


def _learners() -> list[str]:
    """Return the names of base learners."""
    return list(_content()["learners"])


def _rule() -> Description:
    """Return the fields of the rule that shares influence in personalised methods."""
    return _class_in_manifest(_content()["rule"])


def described_method(name: str) -> Description:
    """Return the parameters of a method's estimator."""
    return _class_in_manifest(METHODS[name])


def described_law(name: str) -> Description:
    """Return the fields of a law."""
    return _class_in_manifest(LAWS[name])


class Panel(StrEnum):
    """Where help lists an option, in the order of the page."""

    DATA = "Data"
    PRIVACY = "Privacy"
    METHOD = "Method"
    OUTPUT = "Output"


# Destination of a value: a setting of the estimator, a field of its law or rule, or the command itself.
_SETTING, _LAW, _RULE, _OWN = "settings", "law_fields", "rule_fields", "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its flag, its values and their destination. An option may be given `several` times."""

    flag: str
    name: str
    goes_to: str = _OWN
    kind: type = str
    panel: Panel = Panel.METHOD
    text: str = ""
    choices: tuple[str, ...] = ()
    default: Any = None
    required: bool = False
    hidden: bool = False
    also: str | None = None
    placeholder: str = ""
    several: bool = False

    @property
    def key(self) -> str:
        """Its name as an argument of the function that the command calls."""
        return _name_of(self.flag)

    @property
    def metavar(self) -> str:
        """Placeholder of its value in help."""
        return self.placeholder or ("NAME" if self.choices else _METAVARS[self.kind])

    def as_parameter(self) -> inspect.Parameter:
        """Return the parameter of a function from which typer reads this option."""
        kind: Any = (
            StrEnum(self.key, [(text.replace("-", "_"), text) for text in self.choices]) if self.choices else self.kind
        )
        flag = self.kind is bool
        default = typer.Option(
            ... if self.required else (False if flag else None),
            *(self.flag, *([] if self.also is None else [self.also])),
            help=self.text,
            rich_help_panel=self.panel.value,
            metavar=None if flag else self.metavar,
            show_default=False,
            hidden=self.hidden,
        )
        kind = list[kind] if self.several else kind
        annotation = kind if flag or self.required else kind | None
        return inspect.Parameter(self.key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _name_of(flag: str) -> str:
    """Return the name of an option in Python."""
    return flag.strip("-").replace("-", "_")


def _own(flag: str, text: str, kind: type = str, panel: Panel = Panel.DATA, **rest: Any) -> Option:
    """Return an option of the command itself."""
    return Option(flag=flag, name=_name_of(flag), kind=kind, panel=panel, text=text.removesuffix("."), **rest)


def parts_of(text: str | None) -> list[str] | None:
    """Return the parts of a text between commas, without spaces around them, or None if the option was left out."""
    return None if text is None else [part.strip() for part in text.split(",")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """How one parameter is shown. What is None is read from the constructor and its docstring."""

    flag: str | None = None
    #: A second name of the option, by method.
    also: tuple[tuple[str, str], ...] = ()
    #: Panel when the parameter is one of an estimator.
    panel: Panel = Panel.METHOD
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


_READ = _Shown()
_GIVEN_BY_DATA_OR_ANOTHER_OPTION = _Shown(replaced=True)
_OPTIONS_OF_PARAMETERS = {
    **dict.fromkeys(
        (
            "classes",
            "low",
            "high",
            "bins",
            "events",
            "censored",
            "competing",
            "on_bad_record",
            "columns",
            "declared_columns",
            "law",
        ),
        _GIVEN_BY_DATA_OR_ANOTHER_OPTION,
    ),
    "epsilon": _Shown(flag="--epsilon", panel=Panel.PRIVACY),
    "delta": _Shown(flag="--delta", panel=Panel.PRIVACY),
    "accounting": _Shown(flag="--accounting", panel=Panel.PRIVACY),
    "relation": _Shown(flag="--relation", panel=Panel.PRIVACY, planned=False),
    "analysis": _Shown(flag="--analysis", panel=Panel.PRIVACY, planned=False),
    "max_labels": _Shown(flag="--max-labels", panel=Panel.PRIVACY, planned=False),
    "private": _Shown(flag="--private-teachers", panel=Panel.PRIVACY),
    "insecure_release_seed": _Shown(
        panel=Panel.PRIVACY, planned=False, kind=int, text="Seed the noise: repeatable, NOT FOR RELEASE"
    ),
    "teacher_privacy": _Shown(
        flag="--teacher-epsilon",
        replaced=True,
        more=(
            _own("--teacher-epsilon", "Epsilon of each private teacher or ballot", float, Panel.PRIVACY),
            _own("--teacher-delta", "Delta of each private teacher or ballot [0]", float, Panel.PRIVACY),
        ),
    ),
    "n_teachers": _Shown(flag="--teachers", also=(("bagging", "--models"),)),
    "n_partitions": _Shown(flag="--partitions"),
    "n_models": _Shown(flag="--models"),
    "n_units": _Shown(flag="--records"),
    "rule": _Shown(rule=True),
    "teacher": _Shown(
        planned=False,
        kind=str,
        text="Base learner: {learners}",
        more=(
            _own("--backend", "Fit teachers on a cluster", panel=Panel.METHOD, choices=("dask",)),
            _own("--scheduler", "Its address, such as tls://10.0.0.5:8786", panel=Panel.METHOD),
        ),
    ),
    "student": _Shown(planned=False, kind=str, text="Student; as --teacher, if it can be saved"),
    "random_state": _Shown(flag="--seed", planned=False, kind=int, text="Public seed; not of the noise"),
    "n_jobs": _Shown(
        flag="--jobs", planned=False, kind=int, text="Parallel workers; -1 takes all cores [-1]", default=-1
    ),
}


def _shown(name: str) -> _Shown:
    """Return how a parameter is shown."""
    return _OPTIONS_OF_PARAMETERS.get(name, _READ)


def flag_of(name: str) -> str:
    """Return the option of a parameter."""
    return _shown(name).flag or "--" + name.replace("_", "-")


_JSON = _own("--json", "Print the result as JSON.", bool, Panel.OUTPUT, default=False)
# Not a path, in which the // of an address would become /.
_PRIVATE_ROWS = _own("--private", "Records (repeatable): CSV, Excel, Parquet, folder", placeholder="FILE", several=True)
_PRIVATE_OR_STREAM = replace(_PRIVATE_ROWS, text="Records (repeatable): CSV, Excel, Parquet, SQL")
_SHEET = _own("--sheet", "Sheet of Excel workbooks. [the only visible one]", hidden=True)
_TRAIN = (
    _own("--dataset", "Packaged data, split in thirds", choices=("adult",)),
    _PRIVATE_ROWS,
    _own("--public", "Public rows with the same features.", Path),
    _own("--target", "Column to predict."),
    _own("--classes", "All possible labels, comma-separated."),
    _own("--test", "Rows with the target to score on.", Path),
    _own("--test-is-public", "Exact test scores may be shared.", bool, default=False),
    _own("--holdout-score", "Share of units to score on, with noise (--groups)", float),
    _own("--fewest-units", "Public lower bound on private units, for --delta.", int),
    _own("--unit", "Column naming whose record it is (--unit-name)."),
    _own("--drop", "Columns to leave out, comma-separated."),
    _own("--column", "Kind of a column (see --blank, --below-limit)", list[str], placeholder="NAME=KIND"),
    # Help is one screen, so the line of --column names the first of these.
    _own("--blank", "Entry that is a blank, for one column NAME=ENTRY.", list[str], placeholder="ENTRY", hidden=True),
    _own("--below-limit", "What <5 is [limit]", choices=("limit", "half"), hidden=True),
    _own("--fill", "Fill blanks from public rows, as fill='median'.", bool, default=False),
    # The one default that differs from Python, where an estimator and `ReadOptions` raise for a bad record. Its caller
    # sees the records. Others may see how a command ends, and that must not follow from a private record.
    _own(
        "--on-bad-record",
        "Bad records: zero (default), or raise an error",
        choices=("zero", "raise"),
        default="zero",
    ),
    _own("--strict", "Raise instead of printing notes about columns.", bool, default=False),
    _own("--sep", "Separator of columns in CSV, such as ';' or tab."),
    _own("--decimal", "Decimal sign of numbers in CSV: . or ,"),
    _own("--multiline-text", "Quoted texts in CSV may hold line breaks.", bool, default=False),
    # Help is one screen, so this line names the next option.
    _own("--skip-lines", "Lines above the header [seen] (Excel: --sheet)", int),
    _SHEET,
    _own(
        "--out",
        "Folder for report, student and labels. Required.",
        Path,
        Panel.OUTPUT,
        required=True,
        placeholder="FOLDER",
    ),
    _own("--ledger", "File or address of a ledger that must allow it.", panel=Panel.PRIVACY),
    _own("--data-set", "Name of the records' account in --ledger.", panel=Panel.PRIVACY),
    _own("--title", "Headline of the page.", panel=Panel.OUTPUT),
    # Help is one screen, so the line of --unit names this option.
    _own("--unit-name", "Noun for what --unit names, such as patient.", hidden=True),
    _own("--baseline", "Also train without privacy, as an experiment.", bool, Panel.OUTPUT, default=False),
    _own("--overwrite", "Replace an earlier run in --out.", bool, Panel.OUTPUT, default=False),
    _JSON,
    _own("--log-json", "File for events as lines of JSON, for programs.", Path, Panel.OUTPUT),
    _own("--quiet", "No progress bar.", bool, Panel.OUTPUT, default=False),
)
_QUALITY = (
    _own("--cost-false-negative", "With --cost-false-positive and --positive-class", float),
    # Help is one screen, so the lines of other options name these.
    _own("--groups", "Columns to score by: sex=f|m,ward.", hidden=True),
    _own("--cost-false-positive", "Cost of a false alarm.", float, hidden=True),
    _own("--positive-class", "Class to find [the last of two, sorted]", hidden=True),
)
# A number has a range in place of classes, and options about labels mean nothing for it.
_RANGE = _own("--range", "Smallest and largest number: 0,500000. Required.", placeholder="LOW,HIGH")
_NOT_OF_NUMBERS = ("--dataset", "--holdout-score", "--baseline")
# Times until an event have codes and bins in place of one column of targets. Their bad records always add zeros.
_TIMES = (
    _own("--time", "Column of the time until the event. Required."),
    _own("--event", "Column and codes of the event. Required.", placeholder="COLUMN=CODES"),
    _own("--bins", "End of each bin, such as 30,90,180,365. Required."),
    _own("--censored", "Codes of a censoring, comma-separated. [0]"),
    _own("--competing", "Codes of events after which it is not seen."),
    _own("--at", "Ends of bins on the first screen. [up to 3]"),
    _own("--time-unit", "What times count, such as days."),
)
_NOT_OF_TIMES = ("--dataset", "--baseline", "--target", "--classes", "--test", "--test-is-public", "--on-bad-record")
_PRIVATE_REPORT = _own(
    "--private-report", "Also write secret vote statistics, for you.", bool, Panel.OUTPUT, default=False
)
#: Options about labels, which a number has not.
OF_LABELS = frozenset({"--classes", *_NOT_OF_NUMBERS, *(option.flag for option in _QUALITY), _PRIVATE_REPORT.flag})
#: Options about times until an event, and options that such runs do not have.
OF_TIMES = frozenset({"--time", "--event", "--bins"})
NOT_OF_TIMES = frozenset({*_NOT_OF_TIMES, "--range", *OF_LABELS}) - {"--holdout-score"}
_IN_BLOCKS = _own("--in-blocks", "Read large private Parquet in blocks.", bool, default=False)
_PARTS = (
    _own("--cluster", "Sum on a cluster (--scheduler, or here: --jobs)", choices=("dask", "spark")),
    _own("--scheduler", "Its address, such as tls://10.0.0.5:8786.", hidden=True),
    _own("--jobs", "Processes that sum up parts of Parquet; -1 takes all cores [1]", int, hidden=True),
)
_CERTIFY = _own("--certificate", "Also certify votes; sums always are.", bool, Panel.OUTPUT, default=False)
_DECLARED = _own("--declared-columns", "Columns as JSON, when no rows are public.", Path)
_TRAIN_BY_GROUP = (
    _own("--budgets", "Private column of budgets, or a=0.5:20%,b=2:80%.", panel=Panel.PRIVACY),
    _own("--levels", "Epsilons of that column's entries: a=0.5,b=2.", panel=Panel.PRIVACY),
)
_PLAN = (
    _own("--labels", "Number of labels; computed if left out.", int),
    _own("--classes", "Number of classes [2]", int, default=2),
)
_PLAN_ALIKE = (_own("--agreement", "Share of teachers that agree on a row [0.8]", float),)
_PLAN_PARTITIONED = (_own("--label-accuracy", "Find the smallest ensemble this often right.", float),)
_PLOT = _own("--plot", "Also draw epsilon and wrong labels as SVG.", Path, Panel.OUTPUT)
_CERTIFICATE = _own("--certificate", "Also write what `dpensemble verify` checks.", Path, Panel.OUTPUT)
_PLAN_BY_GROUP = (_own("--budgets", "Groups and shares: high=0.5:20%,low=2:80%.", panel=Panel.PRIVACY),)
_PLAN_OF_DRAWS = (_own("--records", "Number of private records.", int),)
#: The method whose plan estimates how well a student would do.
SIMULATED = "label-moments"
#: The method that predicts a number.
OF_NUMBER = "label-moments-regressor"
#: The method that predicts the risk of an event by a time.
OF_RISK = "label-moments-survival"
_PLAN_OF_SIZE = (
    _own(
        "--records",
        "Numbers of private records [500,2000,10000]. You state them: with add-or-remove-one the number "
        "is private, so give a round one",
    ),
    _own("--classes", "All possible labels, comma-separated [no,yes]"),
    _own("--public", "Public rows with the same features", Path),
    _own("--target", "Column of --public with labels, if it has them"),
    _own("--declared-columns", "Columns as JSON, when no rows are public", Path),
    _own("--public-rows", "Number of made-up public rows [1000]", int),
    _own("--columns", "Number of their columns [10]", int),
    _own("--share", "Share of the last of two sorted classes [0.3]", float),
    _own("--unit-size", "Records of each unit [1]", int),
    _own("--auroc", "AUROC that you expect without privacy", float),
    _own("--unit", "Column of --public naming whose row it is"),
    _own("--drop", "Columns to leave out, comma-separated"),
    _own("--column", "Kind of a column (see --blank, --below-limit)", list[str], placeholder="NAME=KIND"),
    _own("--blank", "Entry that is a blank, for one column NAME=ENTRY.", list[str], placeholder="ENTRY", hidden=True),
    _own("--below-limit", "What <5 is [limit]", choices=("limit", "half"), hidden=True),
    _own("--sep", "Separator of columns in CSV, such as ';' or tab"),
    _own("--decimal", "Decimal sign of numbers in CSV: . or ,"),
    _own("--skip-lines", "Lines above the header [seen] (Excel: --sheet)", int),
    _SHEET,
    _own("--epsilon", "One or several, comma-separated [1]", panel=Panel.PRIVACY),
    _own("--seed", "Public seed of what is made up", int, Panel.METHOD),
    _JSON,
    _own("--quiet", "No progress bar", bool, Panel.OUTPUT, default=False),
)


def _options_of_command(command: str, method: Description) -> Iterator[Option]:
    """Yield the options that a command adds to those of a method."""
    by_group, votes = "budgets" in method.fit, "student" in method.parameters
    # Taken out before parsing. Here it is only refused when it has no value.
    yield Option(flag="--method", name="method", hidden=True)
    is_number, is_risk = method.name == OF_NUMBER, method.name == OF_RISK
    # Only sums can be computed in parts, and of streams.
    sums = method.in_blocks and ("declared_columns" in method.parameters or is_number or is_risk)
    if command == "train":
        for option in _TRAIN:
            if is_risk and option.flag == "--target":
                yield from _TIMES
            elif option.flag in (_NOT_OF_NUMBERS if is_number else _NOT_OF_TIMES if is_risk else ()):
                continue
            elif is_number and option.flag == "--classes":
                yield _RANGE
            elif is_risk and option.flag == "--holdout-score":
                # There are no scores by group.
                yield replace(option, text=option.text.removesuffix(" (--groups)"))
            else:
                yield _PRIVATE_OR_STREAM if sums and option is _PRIVATE_ROWS else option
        # Methods by group hold nothing back.
        yield from () if by_group or is_number or is_risk else _QUALITY
        yield from (_PRIVATE_REPORT,) if "diagnostics" in method.fit else ()
        # Methods by group already fill a screen with options, and their plans are certified.
        yield from (_CERTIFY,) if "diagnostics" in method.fit and not by_group else ()
        yield from _TRAIN_BY_GROUP if by_group else ()
        yield from (_DECLARED,) if "declared_columns" in method.parameters else ()
        yield from (_IN_BLOCKS,) if method.in_blocks else ()
        yield from _PARTS if sums else ()
        return
    if method.name == SIMULATED:
        yield from _PLAN_OF_SIZE
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
    options = {option.flag: option for option in _options_of_command(command, described_method(method))}
    for option in _options_of_estimator(command, method, law):
        options.setdefault(option.flag, option)
    return sorted(options.values(), key=lambda option: list(Panel).index(option.panel))


def _options_of_estimator(command: str, method: str, law: str | None) -> Iterator[Option]:
    described = described_method(method)
    parameters = [
        one
        for one in described.parameters.values()
        if (command != "plan" or _shown(one.name).planned)
        # A simulated run is that of the default settings.
        and not (command == "plan" and method == SIMULATED and one.name != "delta")
        # The budget of each record takes its place.
        and not (one.name == "epsilon" and "budgets" in described.fit)
    ]
    if described.law is not None:
        names = described.laws
        yield Option(flag="--law", name="law", choices=names, text=_values(names, described.law.default))
        # A method with its own rules also finds the noise of these rules.
        if law is not None and law in LAWS and set(names) <= set(LAWS):
            yield from _options_of_law(law, command, {flag_of(one.name) for one in parameters})
    for parameter in parameters:
        yield from _options_of_parameter(parameter, method)


def _options_of_parameter(parameter: Parameter, method: str) -> Iterator[Option]:
    """Yield the option of a method's parameter, and the options that belong to it."""
    how = _shown(parameter.name)
    if not how.replaced and (how.kind or parameter.scalar) is not None:
        yield replace(_read(parameter, _SETTING, how.panel), also=dict(how.also).get(method))
    yield from how.more
    if how.rule:
        yield from (
            _read(one, _RULE, Panel.METHOD) for one in _rule().parameters.values() if one.name not in parameter.choices
        )


def _options_of_law(law: str, command: str, taken: set[str]) -> Iterator[Option]:
    described = described_law(law)
    for one in described.parameters.values():
        option = _read(one, _LAW, Panel.METHOD)
        if command == "train" and one.name == described.noise:
            option = replace(option, text=f"{option.text}; else found")
        yield replace(option, flag=f"--law-{option.flag[2:]}") if option.flag in taken else option


def _read(parameter: Parameter, goes_to: str, panel: Panel) -> Option:
    """Return the option of a parameter that is a number, a text or a bool."""
    how = _shown(parameter.name)
    return Option(
        flag=flag_of(parameter.name),
        name=parameter.name,
        goes_to=goes_to,
        kind=how.kind or parameter.scalar or str,
        panel=panel,
        text=_line(parameter) if how.text is None else how.text.format(learners=", ".join(_learners())),
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


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that is being finished: its folder, and whether it may replace files of a later run there."""

    overwrite: bool
    folder: Path


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line, the interrupted run that it finishes, if any, and the function that runs another one."""

    run: Callable[[list[str], Unfinished], int]
    arguments: tuple[str, ...]
    resumed: Unfinished | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a command line requests, in Python's names. Options that were left out are absent.

    `arguments` are the command line itself, and `resumed` is the interrupted run that the command finishes, if any.
    """

    method: str
    law: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    law_fields: dict[str, Any] = field(default_factory=dict)
    rule_fields: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    resumed: Unfinished | None = None

    @classmethod
    def of(cls, method: str, law: str | None, options: dict[str, Option], values: dict[str, Any]) -> Request:
        """Sort the values of options, which a parser has read, by their destination."""
        sorted_values: dict[str, dict[str, Any]] = {_SETTING: {}, _LAW: {}, _RULE: {}, _OWN: {}}
        for key, option in options.items():
            if option.name in ("method", "law"):
                continue
            raw = values[key]
            value = raw.value if isinstance(raw, StrEnum) else raw
            absent = value is None or value == [] or (value is False and option.kind is bool)
            if option.goes_to == _OWN:
                sorted_values[_OWN][option.name] = option.default if absent else value
            elif not absent or option.default is not None:
                sorted_values[option.goes_to][option.name] = option.default if absent else value
        return cls(
            method=method,
            law=law,
            settings=sorted_values[_SETTING],
            law_fields=sorted_values[_LAW],
            rule_fields=sorted_values[_RULE],
            own=sorted_values[_OWN],
        )

    def estimator_settings(self) -> dict[str, Any]:
        """Return the settings of the method's estimator, with learners still as names."""
        settings = dict(self.settings)
        if self.own.get("teacher_epsilon") is not None:
            privacy = self.own["teacher_epsilon"], self.own["teacher_delta"]
            settings["teacher_privacy"] = privacy[0] if privacy[1] is None else privacy
        if self.rule_fields:
            # A page of help and a mistyped option need neither this class nor the next.
            from dpensemble.design import InfluenceRule  # noqa: PLC0415

            published = settings.get("rule") == "published"
            settings["rule"] = InfluenceRule(published=published, **self.rule_fields)
        if self.law is not None:
            from dpensemble.laws import LawChoice  # noqa: PLC0415

            settings["law"] = LawChoice.of(self.law, **self.law_fields) if self.law_fields else self.law
        return settings
