"""Notes on suspicious columns of a public table, and what to do about them. No private row is read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import is_table
from dpensemble._refusals import require_readable
from dpensemble.datasets.columns import as_text, in_parts, is_number, number_columns
from dpensemble.datasets.csv_files import looks_like_decimal_comma
from dpensemble.datasets.dates import date_formats
from dpensemble.datasets.number_like import NumberLike, number_like
from dpensemble.datasets.preparation import LEFT_OUT, TablePreparation, counts_rows, is_unnamed
from dpensemble.errors import ColumnWarning, DataError

# With fewer rows, ids and measurements cannot be distinguished, nor texts and categories.
_FEWEST = 20
_SOME, _MOSTLY = 0.1, 0.5
_NEARLY_ALL = 0.95
_MOST_SHOWN, _MOST_WARNED = 12, 5
_PEOPLE = (
    "patient|person|subject|participant|member|customer|client|user|account|employee|staff|student|pupil|"
    "household|family|donor|patron|voter|citizen|resident|insured|policyholder|owner|driver|tenant"
)
_KEY = "id|ids|nr|no|num|number|key|code|uuid|guid|pseudonym|mrn|ssn"


_ENCODER = ", or let an encoder that never saw private texts turn them into numbers"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a column, and what to do. A doubtful column should be checked before training."""

    column: str
    text: str
    is_doubtful: bool = True


def table_notes(
    public: pd.DataFrame, preparation: TablePreparation, *, has_unit: bool, n_units: int | None = None
) -> list[Note]:
    """Return remarks on a public table of `n_units` units, on which `preparation` was fitted. By default each row."""
    words, remarks = preparation.words(), _Remarks(has_unit, len(public) if n_units is None else n_units)
    return [
        note
        for place in _worth_a_look(public)
        for note in remarks.of_column(
            str(public.columns[place]), public.iloc[:, place], words[str(public.columns[place])]
        )
    ]


def warn_of_columns(public: Any, *, has_unit: bool) -> None:
    """Warn about columns of public rows that `fit` gets: whose record it is, and numbers that are not read as such."""
    # pandas itself fails on some of these entries.
    require_readable("X_public", public)
    if not has_unit:
        _warn_of_persons(public)
    if not is_table(public):
        return
    doubts = [
        (f"{note.text}; {note.cure}, or leave the column out of X and X_public.")
        for place in np.flatnonzero(~number_columns(public)).tolist()
        if (note := _not_numbers(str(public.columns[place]), public.iloc[:, place].dropna())) and note.is_doubtful
    ]
    for text in doubts[:_MOST_WARNED]:
        warnings.warn(text, ColumnWarning, stacklevel=5)
    if len(doubts) > _MOST_WARNED:
        more = f"and {len(doubts) - _MOST_WARNED:,} more columns are not read as numbers or dates, although most of "
        warnings.warn(f"{more}their public entries are.", ColumnWarning, stacklevel=5)


def _not_numbers(name: str, entries: pd.Series) -> NumberLike | None:
    """Return what is remarkable about a column of texts that are neither dates nor numbers with decimal commas."""
    return None if date_formats(as_text(entries)) else number_like(name, entries)


def _warn_of_persons(public: Any) -> None:
    """Warn about named columns of public rows that look like whose record it is."""
    names = []
    for place, name in enumerate(map(str, public.columns if is_table(public) else ())):
        if _is_persons(name, True):
            entries = public.iloc[:, place].dropna()
            if _may_be_key(entries) and _is_persons(name, entries.nunique() > _SOME * len(entries)):
                names.append(name)
    if names:
        warnings.warn(
            f"column {names[0]!r} looks like whose record it is: give the private column as units= of fit, so that all "
            "records of one person are protected together, and leave it out of X and X_public.",
            ColumnWarning,
            stacklevel=6,
        )


def _worth_a_look(public: pd.DataFrame) -> list[int]:
    """Return the places of texts, and of numbers that are constant, blank or named like keys. There may be many."""
    numbers = number_columns(public)
    doubtful = ~numbers
    for part, alike in in_parts(public, np.flatnonzero(numbers), _hardly_vary):
        doubtful[part] = alike
    named = [is_unnamed(name) or _is_persons(name, True) or _is_called_key(name) for name in map(str, public.columns)]
    steps = public.iloc[:2].iloc[:, np.flatnonzero(numbers)].to_numpy(dtype=float, na_value=np.nan)
    doubtful[np.flatnonzero(numbers)] |= (np.diff(steps, axis=0) == 1).all(axis=0)
    return np.flatnonzero(doubtful | np.array(named)).tolist()


def _hardly_vary(part: pd.DataFrame) -> NDArray[np.bool_]:
    values = part.to_numpy(dtype=float, na_value=np.nan)
    present = ~np.isnan(values)
    low, high = np.where(present, values, np.inf).min(axis=0), np.where(present, values, -np.inf).max(axis=0)
    return low >= high


@dataclass(frozen=True, slots=True)
class _Remarks:
    """Remarks on columns of a table that has several rows of each unit if there are fewer units than rows."""

    has_unit: bool
    n_units: int

    def of_column(self, name: str, values: pd.Series, kind: str) -> Iterator[Note]:
        drop = f"leave it out (--drop {_quoted(name)})"
        if kind == LEFT_OUT:
            drop = f"it is not used, and --drop {_quoted(name)} removes this note"
        entries = values.dropna()
        different = entries.nunique()
        if is_unnamed(name):
            yield Note(name, f"column {name!r} has no name, and is often the row number of an earlier table; {drop}.")
        elif not self.has_unit and _may_be_key(entries) and _is_persons(name, different > _SOME * len(entries)):
            yield Note(
                name,
                f"column {name!r} looks like whose record it is; with --unit {_quoted(name)} all records of one person "
                "are protected together, without it only each single record.",
            )
        elif not len(entries):
            yield Note(
                name, f"column {name!r} is blank in every public row, so nothing can be learned from it; {drop}."
            )
        elif different == 1 and len(values) > 1 and len(entries) == len(values):
            yield Note(
                name, f"column {name!r} has the same entry in every public row, so it carries no information; {drop}."
            )
        elif kind.startswith("date"):
            parts = kind.removeprefix("date: ") or "nothing, because all public dates are alike"
            yield Note(name, f"column {name!r} holds dates; used parts: {parts}.", is_doubtful=False)
        elif is_number(values):
            if different > _NEARLY_ALL * len(entries) and len(entries) >= _FEWEST and _is_key(name, entries):
                yield Note(
                    name, f"column {name!r} seems to number the rows ({different:,} in {len(entries):,}); {drop}."
                )
        else:
            yield from self._of_text(name, entries, different, drop)

    def _of_text(self, name: str, entries: pd.Series, different: int, drop: str) -> Iterator[Note]:
        """Distinguish free text, ids and unreadable dates from categories."""
        texts = as_text(entries)
        if len(date_formats(texts)) > 1:
            yield Note(
                name,
                f"column {name!r} holds dates in which days may be months, so it is read as text: write them as "
                "2025-12-31, or leave it out.",
            )
        elif len(texts) and texts.map(looks_like_decimal_comma).mean() > _NEARLY_ALL:
            yield Note(
                name,
                f'column {name!r} looks like numbers with decimal commas, but is read as text: give --decimal ",".',
            )
        elif (like := number_like(name, entries)) is not None:
            yield Note(name, f"{like.text}; {like.cure}; otherwise {drop}.", is_doubtful=like.is_doubtful)
        elif different > _MOSTLY * min(len(entries), self.n_units) and len(entries) >= _FEWEST:
            words = texts.str.count(r"\s").mean() >= 1
            what = (
                "free text"
                if words
                else "an id"
                if different > _NEARLY_ALL * len(entries)
                else "text with hardly a group"
            )
            whose = f" of {self.n_units:,} units" if self.n_units < len(entries) else ""
            yield Note(
                name,
                f"column {name!r} has {different:,} different entries in {len(entries):,} public rows{whose}, like "
                f"{what}, and entries of few rows carry little information; {drop}, or form a few groups of entries"
                f"{_ENCODER if words else ''}.",
            )


def _may_be_key(entries: pd.Series) -> bool:
    return not is_number(entries) or bool((entries.to_numpy(dtype=float) % 1 == 0).all())


def _is_persons(name: str, has_many: bool) -> bool:
    """Return whether a column is named like the id of a person: patient_id, CustomerNo or, with `has_many`, person."""
    key = f" ?({_KEY})"
    return re.fullmatch(rf"({_PEOPLE})s?({f'{key}|' if has_many else key})", _words(name)) is not None


def _is_key(name: str, entries: pd.Series) -> bool:
    """Return whether whole numbers are named like a key, or count the rows."""
    return _may_be_key(entries) and (_is_called_key(name) or counts_rows(entries))


def _is_called_key(name: str) -> bool:
    return re.search(rf"(^| )({_KEY}|index|row)$", _words(name)) is not None


def _words(name: str) -> str:
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.sub(r"[^a-z]+", " ", parted.lower()).strip()


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else f'"{name}"'


def refuse_doubts(notes: Sequence[Note]) -> None:
    """Raise if one of the notes is doubtful."""
    doubts = [note.text.removesuffix(".") for note in notes if note.is_doubtful]
    if doubts:
        more = f"; and {len(doubts) - _MOST_SHOWN:,} more" if len(doubts) > _MOST_SHOWN else ""
        raise DataError(f"strict: {'; '.join(doubts[:_MOST_SHOWN])}{more}; check these columns, or leave out --strict.")


def lines(notes: Sequence[Note]) -> list[str]:
    """Return the texts of notes, doubts first. If there are many, the last text is the number of the others."""
    texts = [note.text for note in sorted(notes, key=lambda note: not note.is_doubtful)]
    return (
        texts
        if len(texts) <= _MOST_SHOWN
        else [*texts[:_MOST_SHOWN], f"and {len(texts) - _MOST_SHOWN:,} more columns."]
    )
