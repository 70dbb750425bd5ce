"""Options of ``train`` and ``plan`` that do not come from a method."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dpensemble.cli.manifest import Description
from dpensemble.cli.option import OUTPUT, PRIVACY, Option, own

_JSON = own("--json", "Print the result as JSON.", bool, OUTPUT, default=False)
# Not a path, in which the // of an address would become /.
_PRIVATE = own("--private", "Private records: CSV, Parquet or a folder of it.", placeholder="FILE")
_PRIVATE_OR_STREAM = own("--private", "Private records: CSV, Parquet, folder, database.", placeholder="FILE")
_TRAIN = (
    own("--dataset", "Packaged data, split in thirds", choices=("adult",)),
    _PRIVATE,
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
        yield from (_PRIVATE_OR_STREAM if sums and option is _PRIVATE else option for option in _TRAIN)
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
