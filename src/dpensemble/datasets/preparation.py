"""Prepare and encode a table by statistics of public rows only.

Dates become parts, blanks are filled in, and all columns become finite numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from numbers import Number
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from dpensemble._entries import Rows, is_readable, is_table, require_readable
from dpensemble.datasets.columns import (
    as_text,
    assembled,
    distinct_entries,
    distinct_texts,
    encoded_texts_of,
    filled_texts,
    in_parts,
    is_number,
    number_columns,
    plain_texts,
    text_of,
)
from dpensemble.datasets.dates import (
    PIVOT,
    date_formats,
    date_parts,
    require_one_date_format,
    unreadable_dates,
    without_time,
)
from dpensemble.datasets.formats import (
    RULES,
    WRITTEN_NUMBERS,
    EntryRules,
    Kind,
    NumberFormat,
    is_blank_text,
    without_blank_texts,
)
from dpensemble.datasets.identifiers import counts_rows, identifier, is_unnamed
from dpensemble.datasets.tables import LibraryTransformer, as_kinds, as_table, first_row
from dpensemble.errors import DataError, InvalidParameterError


def fit_encoder(public: pd.DataFrame) -> Any:
    """Fit one-hot encoding and standardisation on public rows.

    Parameters
    ----------
    public : DataFrame of shape (n_rows, n_columns)
        Public rows. Never pass private rows: the fitted statistics are published with the student.

    Returns
    -------
    ColumnTransformer
        Numeric columns are standardised. Others are one-hot encoded, with zeros for a category that no public row has.

    Examples
    --------
    >>> public = pd.DataFrame({"age": [20.0, 40.0], "sex": ["f", "m"]})
    >>> fit_encoder(public).transform(pd.DataFrame({"age": [30.0], "sex": ["x"]}))
    array([[0., 0., 0.]])
    """
    # As masks: looking up 100,000 names one at a time takes minutes.
    numeric = number_columns(public)
    encoder = ColumnTransformer(
        [
            (_NUMBERS, StandardScaler(), numeric),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ~numeric),
        ]
    )
    return encoder.fit(public)


def numeric_columns(encoder: Any) -> list[str]:
    """Return the numeric columns of an encoder of `fit_encoder` or of a feature map of tables."""
    if hasattr(encoder, "numeric_columns"):
        return list(encoder.numeric_columns)
    columns = next(columns for name, _, columns in encoder.transformers_ if name == _NUMBERS)
    # Students of earlier versions store the names themselves.
    return list(encoder.feature_names_in_[columns] if hasattr(columns, "dtype") else columns)


_NUMBERS = "numbers"

# The first rules that leave out columns that name people, and that read only the day of a declared date.
_IDENTIFIERS = 3
LEFT_OUT, WRITTEN = "left out", "written number"
#: Entry for a blank text if blanks are filled in.
_BLANK = "(blank)"
_FILLS = ("median", "nan")
# A text is left out if this many public rows have mostly different ones, and few share theirs with others.
_ENOUGH, _MOSTLY, _SHARED_BY, _FEW = 20, 0.5, 5, 0.2


class TablePreparation(LibraryTransformer, TransformerMixin, BaseEstimator):
    """Turns tables with dates and blanks into tables of numbers and texts, learned only from public rows.

    Parameters
    ----------
    fill : {"median", "nan"}, optional
        What blanks become. ``"median"`` puts the public median into numbers and a separate category into texts.
        ``"nan"`` only fills texts, for learners that take NaN. None leaves blanks unchanged. The option ``--fill`` of
        the command line means ``"median"``, or ``"nan"`` if both teacher and student take NaN.
    columns : dict of str to str, optional
        The kind of a column where public rows do not show it: ``"number"``, ``"percent"``, ``"money"``,
        ``"date:%d.%m.%Y"``, ``"category"``, ``"text"``, ``"id"`` or ``"drop"``. An example shows the marks of numbers:
        ``"number:1.234,5"``. The last two are left out.
    blank : list, or dict of str to list, optional
        Entries that stand for a blank, in all columns or by column: ``{"age": [99]}``.
    below_limit : {"limit", "half"}, default="limit"
        What an entry such as <0.1 is: the limit itself, or half of it.
    decimal : {".", ","}, optional
        Decimal mark of the files that the rows were read from. By default public rows show it.
    rules : int, default=3
        Version of the rules of reading. 1 and 2 are those of runs that earlier versions began.

    Attributes
    ----------
    kinds_ : list of str
        How each column is read: ``"number"``, ``"written number"``, ``"category"``, ``"date"`` or ``"left out"``. May
        be published.
    formats_ : dict
        How the numbers of each column of written numbers are written.
    blanks_ : dict
        Declared blanks of each column that has some, as texts.
    medians_ : ndarray of shape (n_columns,)
        Public medians of numbers. 0 elsewhere, and for columns without a median.
    identifiers_ : dict
        What each column holds that is left out because it names people or numbers records, such as ``"names"``.
    dates_ : dict
        ``format``, ``parts`` and their medians (``fill``) of each column of dates.
    feature_names_in_ : ndarray
        Names of the columns.

    Notes
    -----
    A column of texts holds dates if at least 95 % of its public entries are dates in one format. It becomes year, month
    (both numbers) and weekday (a text). Parts that are the same in all public rows are left out. Each entry is read
    separately, so that no private row affects how another is read. An entry that is not such a date becomes blank.

    A column of texts may hold written numbers, such as 12.5%, $1,200.50, 70 kg, (1,200) or <0.1. Then at least 95 % of
    its public entries are numbers with one sign or unit. Texts such as . or n/a do not count, and are blanks. Each
    entry is read by the format that public rows show. An entry in another format becomes blank. If public rows allow
    two formats, as 1,234 does, `fit` raises `DataError` and names both declarations for `columns`.

    Two kinds of columns are left out, since new rows have other entries. First, texts that hardly ever occur in several
    public rows, such as remarks. Second, columns that name people or number records by their header and their public
    entries: names, e-mail addresses, phone numbers, ids and row numbers. A declaration in ``columns`` keeps a column.

    Examples
    --------
    >>> public = pd.DataFrame({"age": [30.0, None, 50.0], "seen": ["2025-03-01", "2025-04-02", "2024-04-07"]})
    >>> TablePreparation(fill="median").fit_transform(public).to_dict("records")[1]
    {'age': 40.0, 'seen: year': 2025.0, 'seen: month': 4.0, 'seen: weekday': 'Wednesday'}
    """

    takes_blanks = True
    # Files of earlier versions lack these.
    columns = blank = decimal = None
    below_limit, rules = "limit", 1
    formats_: Mapping[str, dict[str, Rows]] = MappingProxyType({})
    blanks_: Mapping[str, list[str]] = MappingProxyType({})
    identifiers_: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        fill: str | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        blank: Mapping[str, Sequence[object]] | Sequence[object] | None = None,
        below_limit: str = "limit",
        decimal: str | None = None,
        rules: int = RULES,
    ) -> None:
        self.fill = fill
        self.columns = columns
        self.blank = blank
        self.below_limit = below_limit
        self.decimal = decimal
        self.rules = rules

    def fit(self, X: Any, y: Any = None) -> TablePreparation:  # noqa: ARG002
        """Learn formats, medians and parts from public rows. Never pass private rows."""
        if self.fill is not None and self.fill not in _FILLS:
            raise InvalidParameterError(f"fill={self.fill!r} is unknown: use one of {', '.join(_FILLS)}, or None.")
        require_readable("X", X)
        table = as_table(X)
        if not len(table):
            raise DataError("X has no rows: give public rows.")
        self.n_features_in_ = table.shape[1]
        self.feature_names_in_ = np.asarray([str(name) for name in table.columns], dtype=object)
        self._learn_kinds(table)
        if not self.output_columns:
            raise DataError(
                "no column of the public rows can be learned from: they are ids, free text, or one date in every row; "
                "give others."
            )
        written = self._read(self.as_declared(table))
        numbers = number_columns(written)
        self.medians_ = _medians(written, numbers) if self.fill == "median" else np.zeros(len(numbers))
        return self

    def _learn_kinds(self, table: pd.DataFrame) -> None:
        """Learn from public rows how each column is read."""
        declared, names = self._declared(), self.feature_names_in_
        declared.require_columns(list(names))
        self.formats_ = {}
        self.dates_: dict[str, dict[str, Any]] = {}
        self.blanks_ = {name: blanks for name in names if (blanks := declared.blanks_of(name))}
        numbers, self.kinds_ = number_columns(table), ["number"] * len(names)
        self.identifiers_ = self._identifiers(table, declared)
        for place, name in enumerate(names):
            kind = declared.kind(name)
            if kind in (Kind.ID, Kind.DROP) or name in self.identifiers_:
                self.kinds_[place] = LEFT_OUT
            elif not numbers[place] or kind in (Kind.CATEGORY, Kind.TEXT, Kind.DATE):
                entries = blanked(as_text(table.iloc[:, place]), self.blanks_.get(name, []))
                self.kinds_[place] = self._read_texts(name, entries, declared)
            elif kind is None and is_unnamed(name) and counts_rows(table.iloc[:, place]):
                self.kinds_[place] = LEFT_OUT

    def _identifiers(self, table: pd.DataFrame, declared: EntryRules) -> dict[str, str]:
        """Return what columns hold that nobody declared and that name people or number records."""
        if self.rules < _IDENTIFIERS:
            return {}
        undeclared = [
            (name, blanked(table.iloc[:, place], self.blanks_.get(name, [])))
            for place, name in enumerate(self.feature_names_in_)
            if declared.kind(name) is None
        ]
        return {name: what for name, column in undeclared if (what := identifier(name, column)) is not None}

    def _declared(self) -> EntryRules:
        return EntryRules(
            columns=dict(self.columns or {}),
            blank=self.blank or {},
            below_limit=self.below_limit,
            decimal=self.decimal,
            rules=self.rules,
        )

    def _read_texts(self, name: str, entries: pd.Series, declared: EntryRules) -> str:
        kind = declared.kind(name)
        if kind == Kind.CATEGORY:
            return "category"
        if kind in (None, Kind.DATE):
            formats = self._date_formats(name, entries, declared)
            if len(formats) == 1:
                self._read_dates(name, entries, formats[0])
                return "date"
        form = declared.format_of(name, entries)
        if form is not None:
            self.formats_ = {**self.formats_, name: asdict(form)}
            return WRITTEN
        return LEFT_OUT if _are_all_different(entries) else "category"

    def _date_formats(self, name: str, entries: pd.Series, declared: EntryRules) -> list[str]:
        if declared.form(name):
            form = declared.form(name) if self.rules < _IDENTIFIERS else without_time(declared.form(name))
            present = without_blank_texts(entries)
            declared.require_some(name, "dates", present, ~unreadable_dates(present, form))
            return [form]
        if self.rules < WRITTEN_NUMBERS:
            return date_formats(entries, more=False)
        formats = date_formats(without_blank_texts(entries))
        require_one_date_format(name, formats)
        return formats

    def _read_dates(self, name: str, entries: pd.Series, how: str) -> None:
        parts = date_parts(entries, how)
        varying = [part for part, values in parts.items() if values.nunique() > 1]
        fill = {part: _median(parts[part]) for part in varying if part != "weekday"}
        self.dates_[name] = {"format": how, "parts": varying, "fill": fill}

    def _read(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return rows, with written numbers as numbers and declared blanks as blanks. No entry changes another."""
        if not (self.formats_ or self.blanks_):
            return table
        table = table.copy(deep=False)
        for place, name in _places_of({*self.formats_, *self.blanks_}, table):
            column = table.iloc[:, place]
            if name in self.blanks_:
                column = blanked(column, self.blanks_[name])
                table.isetitem(place, column.array)
            if name in self.formats_ and not is_number(column):
                table.isetitem(place, NumberFormat(**self.formats_[name]).numbers(column))
        return table

    def as_declared(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return rows in which stored numbers are texts, where public rows have categories or written numbers.

        A number without the unit of its column stays as it is, if no public row has such a number.
        """
        kinds = {name: declared.partition(":")[0] for name, declared in (self.columns or {}).items()}
        as_texts = {name for name, kind in kinds.items() if kind in (Kind.CATEGORY, Kind.TEXT, Kind.DATE)}
        formats = {name: form for name, one in self.formats_.items() if (form := NumberFormat(**one)).bare}
        for place, name in _places_of({*as_texts, *formats}, table):
            column = table.iloc[:, place]
            if name in formats:
                texts = _as_written(column, formats[name])
            else:
                texts = as_text(column) if is_number(column) else column
            if texts is not column:
                table = table.copy(deep=False)
                table.isetitem(place, texts.array)
        return table

    def blank_entries(self, X: Rows) -> pd.DataFrame:
        """Return which entries are blank, or are not numbers and dates as public rows write them."""
        table = self._as_fitted(X)
        blank = self._read(table).isna()
        for name, date in self.dates_.items():
            blank[name] |= unreadable_dates(table[name], date["format"])
        return blank.reindex(columns=X.columns, fill_value=False) if is_table(X) else blank

    def unread(self, X: Rows) -> pd.DataFrame:
        """Return which entries are present, but are not written as public rows write them, for dates and numbers."""
        table = self._as_fitted(X)
        columns = {name: unreadable_dates(table[name], date["format"]) for name, date in self.dates_.items()}
        read = self._read(table[list(self.formats_)])
        # What usually stands for a blank is written as it should be.
        columns |= {name: _has_text(table[name]) & read[name].isna() for name in self.formats_}
        return pd.DataFrame(columns, index=table.index)

    def transform(self, X: Any) -> pd.DataFrame:
        """Return a table without dates and, if they are filled in, without blanks.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_columns)
            Rows with the fitted columns, in any order.
        """
        return plain_texts(self.encoded(X))

    def encoded(self, X: Rows) -> pd.DataFrame:
        """Return the table of `transform` with texts as categories of pandas, which hold each distinct text once."""
        check_is_fitted(self)
        table = self._read(self._as_fitted(X))
        prepared = self._without_blanks(table.drop(columns=list(self.dates_)))
        parts = [self._parts_of(name, table[name]) for name in self.dates_]
        return pd.concat([prepared, *parts], axis=1) if parts else prepared

    def _without_blanks(self, table: pd.DataFrame) -> pd.DataFrame:
        if self.fill is None:
            return table
        numbers = number_columns(table)
        others = filled_texts(table.iloc[:, np.flatnonzero(~numbers)], _BLANK)
        values = table.iloc[:, np.flatnonzero(numbers)].to_numpy(dtype=float, copy=True)
        if self.fill == "median":
            medians = dict(zip(self.feature_names_in_, self.medians_, strict=True))
            rows, columns = np.nonzero(np.isnan(values))
            values[rows, columns] = np.array([medians[name] for name in table.columns[numbers]])[columns]
        return assembled(table, np.flatnonzero(numbers), values, others)

    def _parts_of(self, name: str, entries: pd.Series) -> pd.DataFrame:
        date = self.dates_[name]
        parts = date_parts(entries, date["format"])
        columns = {}
        for part in date["parts"]:
            middle, column = date["fill"].get(part), parts[part]
            if self.fill is not None and (middle is None or self.fill == "median"):
                column = column.fillna(_BLANK if middle is None else middle)
            columns[self._part_names[name, part]] = (
                column if middle is not None else encoded_texts_of(column.to_frame()).iloc[:, 0]
            )
        return pd.DataFrame(columns, index=entries.index)

    def _as_fitted(self, X: Any) -> pd.DataFrame:
        require_readable("X", X)
        table = as_table(X)
        if not is_table(X):
            if table.shape[1] != self.n_features_in_:
                raise DataError(
                    f"X has {table.shape[1]} columns, but the public rows had {self.n_features_in_}: give the same."
                )
            table.columns = pd.Index(self.feature_names_in_)
        lacks = [name for name in self.needed_columns if name not in table.columns]
        if lacks:
            raise DataError(f"X lacks the columns {', '.join(lacks)}, which the public rows had: add them.")
        return as_kinds("new", self.as_declared(table[self.needed_columns]), self.numeric_columns, encoded=True)

    def require_dates(self, X: Any) -> None:
        """Raise if an entry in a column of dates is not a date, and name its row. The entry itself is not shown."""
        table = self._as_fitted(X)
        for name, date in self.dates_.items():
            wrong = unreadable_dates(table[name], date["format"])
            if wrong.any():
                row = int(wrong.to_numpy().argmax()) + first_row(table)
                raise DataError(
                    f"column {name!r} holds dates in most public rows, but an entry is not a date in such a format "
                    f"(row {row:,}, counting from 0): correct that entry, or fill it in from public rows (--fill)."
                )
        written = self._read(table[list(self.formats_)])
        for name in self.formats_:
            read = written[name]
            if read.isna().any():
                row = int(read.isna().to_numpy().argmax()) + first_row(table)
                raise DataError(
                    f"column {name!r} holds numbers, but an entry is not written as public rows write them (row "
                    f"{row:,}, counting from 0): correct that entry, or fill it in from public rows (--fill)."
                )

    def _named(self, *kinds: str) -> list[str]:
        return [name for name, kind in zip(self.feature_names_in_, self.kinds_, strict=True) if kind in kinds]

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that are read as numbers."""
        return self._named("number")

    @property
    def needed_columns(self) -> list[str]:  # type: ignore[override]
        """Columns that are not left out."""
        return self._named("number", WRITTEN, "category", "date")

    @property
    def output_columns(self) -> list[str]:
        """Columns of the transformed tables."""
        return [*self._named("number", WRITTEN, "category"), *self._part_names.values()]

    @property
    def _part_names(self) -> dict[tuple[str, str], str]:
        """The column that each part of a date becomes, by column and part. No other column has its name."""
        taken, names = set(self.feature_names_in_), {}
        for name, date in self.dates_.items():
            for part in date["parts"]:
                text = f"{name}: {part}"
                while text in taken:
                    text = f"({text})"
                taken.add(text)
                names[name, part] = text
        return names

    @property
    def source_columns(self) -> list[str]:  # type: ignore[override]
        """The fitted column that each column of the transformed tables comes from."""
        parts = [name for name, date in self.dates_.items() for _ in date["parts"]]
        return [*self._named("number", WRITTEN, "category"), *parts]

    @property
    def changes_nothing(self) -> bool:
        """Whether the transformation changes nothing."""
        return self.fill is None and not self.blanks_ and not {"date", LEFT_OUT, WRITTEN} & set(self.kinds_)

    def words(self) -> dict[str, str]:
        """Return in words how each column is read."""
        kinds = dict(zip(self.feature_names_in_, self.kinds_, strict=True))
        kinds |= {name: f"{LEFT_OUT}: {what}" for name, what in self.identifiers_.items()}
        kinds |= {name: NumberFormat(**form).words() for name, form in self.formats_.items()}
        for name, date in self.dates_.items():
            pivot = f"; years 00 to {PIVOT % 100 - 1} are 20.." if "%y" in date["format"] else ""
            kinds[name] = f"date: {', '.join(date['parts'])}{pivot}"
        return kinds


class TableEncoder(LibraryTransformer, TransformerMixin, BaseEstimator):
    """Turns tables with dates, texts and blanks into arrays of numbers, learned only from public rows.

    Parameters
    ----------
    fill : {"median", "nan"}, optional
        What blanks become, as for `TablePreparation`. By default, blanks raise an error.
    columns, blank, below_limit, decimal, rules
        How entries are read, as for `TablePreparation`.

    Attributes
    ----------
    preparation_ : TablePreparation
        The step that converts dates and blanks.
    encoder_ : ColumnTransformer
        Numbers standardised, texts one-hot encoded: `fit_encoder`.

    Examples
    --------
    >>> public = pd.DataFrame({"age": [30.0, None, 50.0], "ward": ["a", "b", None]})
    >>> encoder = TableEncoder(fill="median").fit(public)
    >>> encoder.transform(pd.DataFrame({"age": [None], "ward": ["b"]})).tolist()
    [[0.0, 0.0, 0.0, 1.0]]
    """

    encodes_rows_alone = True
    # Files of earlier versions lack these.
    columns = blank = decimal = None
    below_limit, rules = "limit", 1

    def __init__(
        self,
        fill: str | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        blank: Mapping[str, Sequence[object]] | Sequence[object] | None = None,
        below_limit: str = "limit",
        decimal: str | None = None,
        rules: int = RULES,
    ) -> None:
        self.fill = fill
        self.columns = columns
        self.blank = blank
        self.below_limit = below_limit
        self.decimal = decimal
        self.rules = rules

    def fit(self, X: Any, y: Any = None) -> TableEncoder:  # noqa: ARG002
        """Learn from public rows. Never pass private rows, because what is learned is published with the student."""
        self.preparation_ = TablePreparation(**self.get_params()).fit(X)
        self.n_features_in_, self.feature_names_in_ = (
            self.preparation_.n_features_in_,
            self.preparation_.feature_names_in_,
        )
        self.encoder_ = fit_encoder(self.preparation_.transform(X))
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return rows as an array of shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        prepared = self.preparation_.transform(X)
        if self.fill is None and prepared.isna().to_numpy().any():
            self.preparation_.require_dates(X)
        return self.encoder_.transform(prepared)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the name of each feature."""
        check_is_fitted(self)
        return self.encoder_.get_feature_names_out()

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that are read as numbers."""
        return self.preparation_.numeric_columns

    @property
    def needed_columns(self) -> list[str]:  # type: ignore[override]
        """Columns that are not left out."""
        return self.preparation_.needed_columns

    @property
    def takes_blanks(self) -> bool:  # type: ignore[override]
        """Whether entries may be missing."""
        return self.fill is not None

    @property
    def source_columns(self) -> list[str]:  # type: ignore[override]
        """The fitted column that each feature comes from."""
        sources = np.array(self.preparation_.source_columns, dtype=object)
        (_, _, numbers), (_, one_hot, texts) = self.encoder_.transformers_[:2]
        widths = [len(entries) for entries in one_hot.categories_] if np.any(texts) else []
        return [*sources[numbers], *np.repeat(sources[texts], widths)]

    @property
    def known_categories(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Categories of each column of texts that occur in public rows."""
        name, one_hot, mask = self.encoder_.transformers_[1]
        if name != "categories" or not np.any(mask):
            return {}
        pairs = zip(self.encoder_.feature_names_in_[mask], one_hot.categories_, strict=True)
        return {column: {str(entry) for entry in entries} - {_BLANK} for column, entries in pairs}


def _places_of(names: Collection[str], table: pd.DataFrame) -> list[tuple[int, str]]:
    """Return the place and the name of some columns. There may be many others."""
    return [(place, str(name)) for place, name in enumerate(table.columns) if str(name) in names] if names else []


def blanked(column: pd.Series, blanks: Sequence[str]) -> pd.Series:
    """Return entries, with a blank for each that is written as one of some texts, or is the same number."""
    if not blanks:
        return column
    numbers = [number for text in blanks if np.isfinite(number := _float(text))]
    if is_number(column):
        return column.mask(column.isin(numbers))
    places, entries = distinct_entries(column)
    texts = [str(entry).strip() for entry in entries.tolist()]
    is_blank = np.array([text in blanks or _float(text) in numbers for text in texts] + [False], dtype=bool)[places]
    return column.mask(pd.Series(is_blank, index=column.index))


def _has_text(column: pd.Series) -> pd.Series:
    """Return which entries are present, and no text that usually stands for a missing one."""
    places, texts = distinct_texts(column)
    return pd.Series(np.array([*(not is_blank_text(text) for text in texts), False])[places], index=column.index)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _as_written(column: pd.Series, form: NumberFormat) -> pd.Series:
    """Return entries as texts, with stored numbers as the format of a column writes them."""
    places, entries = distinct_entries(column)
    if not any(map(_is_stored, entries.tolist())):
        return column
    texts = [form.written(entry) if _is_stored(entry) else text_of(entry) for entry in entries.tolist()]
    return pd.Series(np.array([*texts, np.nan], dtype=object)[places], index=column.index, dtype=object)


def _is_stored(entry: object) -> bool:
    return isinstance(entry, Number) and not isinstance(entry, bool | np.bool_) and is_readable(entry)


def _are_all_different(entries: pd.Series) -> bool:
    present = entries.dropna()
    if len(present) < _ENOUGH:
        return False
    counts = present.value_counts()
    return len(counts) > _MOSTLY * len(present) and counts[counts >= _SHARED_BY].sum() < _FEW * len(present)


def _medians(table: pd.DataFrame, numbers: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the median of each column of numbers, and 0 for other columns."""
    medians = np.zeros(len(numbers))
    for part, middles in in_parts(table, np.flatnonzero(numbers), lambda part: part.median().to_numpy(dtype=float)):
        medians[part] = np.nan_to_num(middles)
    return medians


def _median(values: pd.Series) -> float:
    middle = values.median()
    return 0.0 if pd.isna(middle) else float(middle)
