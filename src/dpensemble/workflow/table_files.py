"""The files with the tables of one run, how to read them, and the workers that sum up private records where they are.

Two paths may be one file by another spelling, a link, or another mount. No file is read for that. Files with equal
contents are other files, because a refusal would show that contents are equal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble._checks import Label, declared_labels, folded, member, number_of_workers
from dpensemble._entries import Rows
from dpensemble._files import JSON, LARGEST_JSON, UnfitJSONError, file_bytes, is_pipe, parse_json, pipe_bytes
from dpensemble.clusters import on_cluster
from dpensemble.datasets import CSVFormat, read_table
from dpensemble.datasets.arrow import ArrowPart, Columns, ParquetTable, is_parquet, names_in, stacked
from dpensemble.datasets.arrow_sources import ArrowSource, names_source, opened_source
from dpensemble.datasets.csv import BLANKS, CSVLayout, Expected, csv_layout, is_csv, with_point
from dpensemble.datasets.excel import is_workbook
from dpensemble.datasets.formats import WRITTEN_NUMBERS, EntryRules, decimal_of_files
from dpensemble.datasets.partitions import ParquetOnSpark, ParquetParts, SparkParts, spark_session
from dpensemble.datasets.tables import readable
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.moments.residuals import NumberRange
from dpensemble.rows.arguments import OnBadRecord
from dpensemble.rows.source import RowSource
from dpensemble.workflow.targets import BOTH, ClassTarget, DeclaredTimes, NumberTarget, Target, TimesTarget

_TABLE = "spark:"
#: Larger tables are read in blocks without a request. In bytes without compression.
LARGE = 2**28


@dataclass(frozen=True, eq=False)
class Workers:
    """Who sums private records: `jobs` processes of this machine or, if one is named, a cluster.

    `session` is a session of Spark, for a cluster of Spark. `source` streams the private table to this process.
    """

    jobs: int = 1
    cluster: str | None = None
    session: Rows | None = None
    source: ArrowSource | None = None

    @classmethod
    @contextmanager
    def opened(
        cls,
        private: Path | None,
        source: ArrowSource | None,
        jobs: int | None = None,
        cluster: str | None = None,
        scheduler: str | None = None,
    ) -> Iterator[Workers | None]:
        """Yield who sums up private records, or None if this process does. A session of Spark ends with the block."""
        if source is not None:
            if jobs is not None or cluster is not None:
                parameter = "cluster" if jobs is None else "jobs"
                raise InvalidParameterError(
                    f"{parameter} cannot be used with a private table that this process streams: leave {parameter} "
                    "out, or write the table as .parquet.",
                    parameter=parameter,
                )
            yield cls(source=source)
        elif cluster == "spark":
            with spark_session(scheduler) as session:
                yield cls(1 if jobs is None else jobs, cluster, session)
        elif cluster is None and jobs is None:
            if private is not None:
                cls().require_session(private)
            yield None
        else:
            yield cls(1 if jobs is None else jobs, cluster)

    @staticmethod
    def opened_source(private: str | None) -> AbstractContextManager[ArrowSource | None]:
        """Return the context of a private table that is streamed from a database or an Arrow file, or an empty one."""
        return opened_source(private) if private is not None and names_source(private) else nullcontext()

    @staticmethod
    def refuse_several_sources(private: Sequence[str]) -> None:
        """Raise if one of several private tables is not a file."""
        named = [one for one in private if names_source(one) or Workers.is_table(Path(one))]
        if named and len(private) > 1:
            raise InvalidParameterError(
                f"private is given {len(private)} times, but several private tables must be files: give one "
                "view of all records.",
                parameter="private",
            )

    @staticmethod
    def opened_cluster(backend: str | None, cluster: str | None, scheduler: str | None) -> AbstractContextManager[None]:
        """Return the context of a Dask cluster for teachers (``--backend``) or sums (``--cluster``), or none."""
        if cluster == "spark":
            return nullcontext()
        if backend is None and cluster is None and scheduler is None:
            return nullcontext()
        if cluster == "dask" and scheduler is None:
            raise InvalidParameterError(
                "--cluster dask requires the address of a scheduler: give --scheduler tls://HOST:PORT.",
                parameter="scheduler",
            )
        if scheduler is None or (backend is None and cluster is None):
            raise InvalidParameterError(
                "--backend and --scheduler belong together, as do --cluster and --scheduler: give both, or neither.",
                parameter="scheduler",
            )
        return on_cluster(str(backend or cluster), scheduler)

    @staticmethod
    def repeatable(files: TableFiles, source: ArrowSource | None) -> bool:
        """Return whether a run can read the same records again later."""
        # Nobody can see here whether a table of Spark or of a server is the same.
        if any(map(Workers.is_table, files.all_private)) or not (source is None or source.files):
            return False
        # A pipe can be read only once.
        return not files.pipes

    def require_possible(self, private: Path) -> None:
        """Raise if the private table cannot be read by these workers."""
        number_of_workers("jobs", self.jobs)
        self.require_session(private)
        if self.source is not None:
            return
        if self.cluster is not None and self.jobs != 1:
            raise InvalidParameterError(
                f"jobs={self.jobs} are processes of this machine, and the cluster has workers of its own: leave jobs "
                "out.",
                parameter="jobs",
            )
        if not (self.is_table(private) or is_parquet(private)):
            what = f"jobs={self.jobs}" if self.cluster is None else f"cluster={self.cluster!r}"
            raise InvalidParameterError(
                f"{what} requires a private table in Parquet, but got {private.name}: write it as .parquet.",
                parameter="jobs" if self.cluster is None else "cluster",
            )

    def require_session(self, private: Path) -> None:
        """Raise if the private table is one of Spark, but there is no session of Spark."""
        if self.is_table(private) and self.session is None:
            raise InvalidParameterError(
                f"private={str(private)!r} is a table of Spark: give --cluster spark.", parameter="private"
            )

    @staticmethod
    def is_table(private: Path) -> bool:
        """Return whether ``spark:NAME`` names a table of Spark."""
        return str(private).startswith(_TABLE)

    def frame(self, private: Path) -> Rows:
        """Return the DataFrame of a table of Spark."""
        if self.session is None:
            raise InvalidParameterError("cluster must be 'spark' to read a table of Spark.", parameter="cluster")
        name = str(private).removeprefix(_TABLE)
        try:
            return self.session.table(name)
        except Exception as error:
            kind = type(error).__name__
        raise InvalidParameterError(
            f"private={str(private)!r} is not a table of Spark ({kind}): name one of its tables or views.",
            parameter="private",
        )

    def parts(self, private: Path, target: Columns, unit: str | None, columns: Sequence[str]) -> RowSource:
        """Return the private table in parts."""
        if self.source is not None:
            named = (*columns, *names_in(target), *(() if unit is None else (unit,)))
            fixed = bool(self.source.files)
            return ArrowPart(partial(self.source.stream, named), target, unit=unit, fixed_places=fixed)
        if self.session is not None:
            if self.is_table(private):
                return SparkParts(self.frame(private), target, unit=unit, columns=tuple(columns))
            return ParquetOnSpark(self.session, private, target, unit=unit, columns=tuple(columns))
        return ParquetParts(private, target, unit=unit, columns=tuple(columns), n_jobs=self.jobs)


_MOUNTS = Path("/proc/self/mountinfo")
# Octal codes in the list of mounts.
_CODES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def _is_same_file(one: Path, other: Path) -> bool:
    """Return whether two paths lead to one file or folder. A path that leads nowhere is no file."""
    try:
        # Spellings, capitals, links of either kind, and mounts of one file system.
        if one.samefile(other):
            return True
    except OSError:
        return False
    places = [_on_its_server(path.resolve()) for path in (one, other)]
    return places[0] is not None and places[0] == places[1]


def _share_files(one: Path, other: Path) -> bool:
    """Return whether a folder and a file, or two folders, have a file in common, such as a link."""
    if not (one.is_dir() or other.is_dir()):
        return False
    return bool(set(_identities(one)) & set(_identities(other)))


def _identities(path: Path) -> Iterator[tuple[int, int]]:
    for file in path.rglob("*") if path.is_dir() else (path,):
        if file.is_file():
            about = file.stat()
            yield about.st_dev, about.st_ino


def _on_its_server(path: Path) -> tuple[str, str] | None:
    """Return the device or server of a path, and the path there. None if the mount does not name any."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place, longest = None, -1
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        root, point = map(_decoded, before.split(" ")[3:5])
        source = _decoded(after.split(" ")[1])
        # The last of several mounts at one point is the one in use.
        if path.is_relative_to(point) and len(point) >= longest:
            # Only a device or a server is the same wherever its name stands.
            named = source.startswith(("/", "//")) or ":" in source
            inside = str(Path(root) / path.relative_to(point))
            place, longest = (source, inside) if named else None, len(point)
    return place


def _decoded(text: str) -> str:
    for code, sign in _CODES.items():
        text = text.replace(code, sign)
    return text


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """The files of one run, and the roles of their columns.

    Parameters
    ----------
    private, public : path
        CSV, Excel or Parquet, a folder of Parquet files, or ``-`` for CSV from standard input. The public table may
        lack the target, and is None when ``declared_columns`` is given.
    target : str
        Column to predict.
    classes : sequence of str, int or float, or None
        All possible labels. Public. They are numbers if all of them can be read as numbers.
    number : NumberRange, optional
        The range of the target if a number is predicted, in place of classes. Public.
    times : DeclaredTimes, optional
        What is declared about times until an event, in place of classes, which are then its codes. Public.
    declared_columns : path, optional
        JSON file that declares columns in place of a public table.
    test : path, optional
        Rows with the target, to score the student on.
    unit : str, optional
        Column of the private table that names the owner of a record, and of the public table if the column is there.
    drop : sequence of str
        Columns to leave out of every table.
    test_is_public : bool, default=False
        Whether exact scores on the test rows may be published.
    form : CSVFormat
        How CSV files are written.
    groups : mapping of str to sequence of str or None
        Columns by which the student's quality is stated, and their declared values. None takes the values of the public
        rows. Values that are not declared form the group "other".
    more_private : sequence of path
        Further files of private records with the same columns. Their records follow those of `private`, in this order.
    entries : EntryRules
        What is declared about the entries of columns.
    """

    private: Path
    public: Path | None
    target: str
    classes: Sequence[Any] | None = None
    declared_columns: Path | None = None
    test: Path | None = None
    unit: str | None = None
    drop: Sequence[str] = ()
    test_is_public: bool = False
    form: CSVFormat = field(default_factory=CSVFormat)
    groups: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    more_private: Sequence[Path] = ()
    entries: EntryRules = field(default_factory=EntryRules)
    number: NumberRange | None = None
    times: DeclaredTimes | None = None

    def __post_init__(self) -> None:
        # The reader of CSV files puts points into numbers with decimal commas.
        has_workbook = any(is_workbook(path) for path in (*self.all_private, self.public) if path is not None)
        decimal = decimal_of_files(self.form.decimal, has_workbook=has_workbook)
        object.__setattr__(self, "entries", replace(self.entries, decimal=decimal))

    @property
    def all_private(self) -> tuple[Path, ...]:
        """All files of private records, in order."""
        return (self.private, *self.more_private)

    @property
    def time(self) -> str | None:
        """Column of the times until an event, if there are any."""
        return None if self.times is None else self.times.time

    @property
    def targets(self) -> Columns:
        """Column of the target, or the columns of an event and of its time, which are read together."""
        return self.target if self.time is None else (self.target, self.time)

    @property
    def name(self) -> str:
        """The names of the files of private records."""
        return ", ".join("a pipe" if is_pipe(path) else path.name for path in self.all_private)

    @property
    def pipes(self) -> list[str]:
        """The options whose files can be read only once."""
        named: list[tuple[str, Path | None]] = [("private", path) for path in self.all_private]
        named += [("public", self.public), ("test", self.test), ("declared-columns", self.declared_columns)]
        return [f"--{option}" for option, path in named if path is not None and is_pipe(path)]

    @property
    def predicted(self) -> Target:
        """What is predicted. Raise if it is not declared, or declared in two ways."""
        if self.times is not None:
            return TimesTarget(self.times, self.entries)
        if self.number is None:
            return ClassTarget(self.labels)
        if self.classes is not None:
            raise InvalidParameterError(BOTH, parameter="range")
        return NumberTarget(self.number, self.target, self.entries)

    @cached_property
    def labels(self) -> list[Label]:
        """The declared classes, with numbers in the form in which this run's readers return them. None for a number."""
        classes = self.classes
        if self.number is not None:
            return []
        if self.form.decimal == "," and not isinstance(classes, str) and classes is not None and is_csv(self.private):
            classes = [with_point(str(label)) for label in classes]
        return declared_labels(classes)

    def read(
        self, path: Path, *, guess: bool = False, keep_broken: bool = False, like: Expected | None = None
    ) -> pd.DataFrame:
        """Read one of the files. See `read_table`."""
        return read_table(
            path,
            guess=guess,
            sep=self.form.sep,
            decimal=self.form.decimal,
            multiline_text=self.form.multiline_text,
            keep_broken=keep_broken,
            skip_lines=self.form.skip_lines,
            sheet=self.form.sheet,
            like=like,
            not_blank=self._labels_like_blanks(),
            # Earlier versions read every column of numbers as numbers.
            written=None if not guess or self.entries.rules < WRITTEN_NUMBERS else list(self.entries.columns),
        )

    def read_private(self, *, keep_broken: bool, like: Expected) -> pd.DataFrame:
        """Read the files of private records as one table. Raise if one has other columns than the first."""
        tables = [self.read(path, keep_broken=keep_broken, like=like) for path in self.all_private]
        first = list(tables[0].columns)
        for path, table in zip(self.all_private, tables, strict=True):
            if sorted(table.columns) != sorted(first):
                # The columns are not named, because the tables are private.
                raise DataError(
                    f"{path} has other columns than {self.private}: write all private tables with the same columns."
                )
        return tables[0] if len(tables) == 1 else stacked([table[first] for table in tables])

    def require_possible(self, options: ReadOptions) -> None:
        """Raise if the files cannot be read together, before any of them is read."""
        self._refuse_overlaps()
        if self.times is not None:
            self._refuse_with_times()
        if len(self.pipes) > 1:
            raise InvalidParameterError(
                f"{' and '.join(self.pipes)} are pipes, and only one can be: give files for the others.",
                parameter=self.pipes[0][2:].replace("-", "_"),
            )
        if not self.more_private:
            return
        if any(path.is_dir() for path in self.all_private):
            raise DataError("several private tables cannot be folders: put the parts of all into one folder.")
        if options.workers is not None or options.in_blocks:
            raise DataError("several private tables are read into memory: put their parts into one folder instead.")

    def named_columns(self, budgets: str | None = None) -> Expected:
        """Return what options state about columns: their names. `budgets` is the column of budgets."""
        names = (self.target, self.time, self.unit, budgets, *self.drop, *self.groups)
        return Expected(names=frozenset(name for name in names if name is not None))

    def expected_like_public(self, columns: Sequence[str], budgets: str | None = None) -> Expected:
        """Return what the public table, or a declaration with these columns, shows about the other files."""
        own = self.named_columns(budgets)
        layout = self.layout(self.public, own, public=True)
        return replace(
            own,
            names=own.names | set(columns),
            required=frozenset(columns) - set(self.drop),
            sep=None if layout is None else layout.sep,
            lines_above=0 if layout is None else layout.lines_above,
            whose="the public table" if self.declared_columns is None else "--declared-columns",
        )

    def layout(self, path: Path | None, like: Expected, *, public: bool = False) -> CSVLayout | None:
        """Return the layout of a CSV file, or None for any other table."""
        if path is None or not is_csv(path):
            return None
        with readable(path):
            return csv_layout(path, self.form, like=like, public=public)

    def private_columns(self, workers: Workers | None) -> list[str]:
        """Return the columns of a private table that is not read as a whole."""
        if workers is not None and workers.source is not None:
            return list(workers.source.columns)
        if workers is not None and workers.is_table(self.private):
            return list(workers.frame(self.private).columns)
        return list(ParquetTable(self.private).columns)

    def declared_features(self, budgets: str | None = None) -> dict[str, JSON] | None:
        """Return the declaration of each column that is a feature and not dropped, or None without a declaration."""
        columns = self.declared_columns
        if columns is None:
            return None
        if self.public is not None:
            raise InvalidParameterError(
                f"declared_columns={str(columns)!r} are only for runs without public rows, but "
                f"public={str(self.public)!r} has some: give one of them.",
                parameter="declared_columns",
            )
        if self.entries.settings()["columns"] or self.entries.blank or self.entries.below_limit != "limit":
            raise InvalidParameterError(
                "entries are read as public rows write them, but declared_columns replace public rows: leave column, "
                "blank and below_limit out, and write plain numbers.",
                parameter="entries",
            )
        declared = {name: one for name, one in _read_columns(columns).items() if name not in self.drop}
        both = [name for name in declared if name in (self.target, self.unit, budgets)]
        if both or not declared:
            what = f"{both[0]!r}, which is not a feature" if both else "no feature"
            raise InvalidParameterError(
                f"declared_columns={str(columns)!r} declares {what}: declare features.", parameter="declared_columns"
            )
        return declared

    def _labels_like_blanks(self) -> dict[str, frozenset[str]]:
        """Return texts that are classes although a CSV file may hold them as blanks, because a declared class wins."""
        declared = {folded(str(name)) for name in self.labels}
        texts = frozenset(text for text in BLANKS if text and folded(text) in declared)
        return {self.target: texts} if texts else {}

    def _refuse_with_times(self) -> None:
        """Raise for what runs about times until an event do not have."""
        asked: dict[str, object] = {
            "test": self.test,
            "declared_columns": self.declared_columns,
            "groups": self.groups or None,
        }
        for name, value in asked.items():
            if value is not None:
                raise InvalidParameterError(
                    f"{name} is not for times until an event, which are read beside public rows and not scored: leave "
                    "it out.",
                    parameter=name,
                )

    def _refuse_overlaps(self) -> None:
        """Raise if one file has two purposes, or is given twice."""
        for place, private in enumerate(self.all_private):
            if any(_is_same_file(private, other) for other in self.all_private[:place]):
                raise DataError(
                    f"private names one file twice ({private}), so its records would count twice: drop one."
                )
            self._refuse_overlaps_with(private)

    def _refuse_overlaps_with(self, private: Path) -> None:
        for name, other in (("public", self.public), ("test", self.test)):
            # A link that leads to itself has a real path, too.
            if other is not None and _real(private) in _real(other).parents:
                raise DataError(
                    f"the {name} table ({other}) is in the private table's folder: move it to another folder."
                )
            if other is not None and _is_same_file(private, other):
                raise DataError(f"the {name} table is the private table itself ({private}): give other rows.")
            if other is not None and _share_files(private, other):
                raise DataError(
                    f"the {name} table ({other}) and the private table ({private}) share a file: give other rows."
                )
        if self.declared_columns is not None and _is_same_file(private, self.declared_columns):
            raise DataError(f"declared_columns is the private table itself ({private}): give a description.")


_FORM = 'an object such as {"age": [17, 90], "sex": ["f", "m"]}'


def _read_columns(path: Path) -> dict[str, JSON]:
    """Return the declaration of each column in a JSON file: two numbers are a range, and texts are categories."""
    try:
        content = (
            pipe_bytes(path, LARGEST_JSON) if is_pipe(path) else file_bytes(path, links=True, largest=LARGEST_JSON)
        )
        columns = parse_json(content, special_numbers=True, pairs=_each_once)
    except InvalidParameterError:
        raise
    except OSError as error:
        raise FileError(
            f"declared_columns={str(path)!r} cannot be read ({error.strerror or error}): give a JSON file."
        ) from None
    except UnfitJSONError as error:
        raise FileError(
            f"declared_columns={str(path)!r} is not JSON that can be used ({error}): write {_FORM}."
        ) from None
    if not isinstance(columns, dict):
        raise InvalidParameterError(
            f"declared_columns={str(path)!r} declares nothing: write {_FORM}.", parameter="declared_columns"
        )
    declared_grid(columns)
    return columns


def _each_once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidParameterError(
            f"declared_columns names {twice[0]!r} twice: name each once.", parameter="declared_columns"
        )
    return dict(pairs)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a method can read.

    Parameters
    ----------
    blanks : bool, default=False
        Whether features may be missing: when the method takes tables as they are, or when blanks are filled in.
    takes_blocks : bool, default=False
        Whether the method can read private records in blocks. Folders and large files are then read in blocks.
    in_blocks : bool, default=False
        Whether to read the private records in blocks in any case.
    on_bad_record : {"raise", "zero"}, default="raise"
        Whether a bad private record raises an error, or is passed to the method, in which it adds nothing. The default
        is that of estimators. `dpensemble.cli.options` states why the command line has another default.
    workers : Workers, optional
        Processes or a cluster that sum up the private records where these are.
    """

    blanks: bool = False
    takes_blocks: bool = False
    in_blocks: bool = False
    on_bad_record: str = "raise"
    workers: Workers | None = None

    def reads_in_blocks(self, private: Path) -> bool:
        """Return whether private records are read in blocks: on request, or if the table is a folder or large."""
        if self.in_blocks and not is_parquet(private):
            raise InvalidParameterError(
                f"in_blocks=True requires a private table in Parquet, but got {private.name}: write it as .parquet."
            )
        if not (self.takes_blocks and private.exists() and is_parquet(private)):
            return False
        if self.in_blocks or private.is_dir():
            return True
        return private.stat().st_size > LARGE or ParquetTable(private).n_bytes > LARGE

    @property
    def keep_bad(self) -> bool:
        """Whether bad private records are kept."""
        return member("on_bad_record", self.on_bad_record, OnBadRecord) is OnBadRecord.ZERO


def require_two_records(rows: Sequence[Rows] | pd.DataFrame) -> None:
    """Raise if a private table has only one row."""
    if len(rows) < 2:
        raise DataError("the private table has only one row, and private learning requires more: give more rows.")
