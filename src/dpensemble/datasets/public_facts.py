"""What settings and public rows show to be a mistake or suspicious, judged before anything is charged.

No private entry is read, and public entries may be quoted. One odd entry makes a column text, because no private entry
may decide how a column is read. So the numbers of such a column become categories, and a note states this.

`judge` is the one place for mistakes. `train`, `check` and the service call it once for the settings and once more for
the public rows. Estimators judge what they get by the same parts: `declared_classes` for their classes, and
`warn_of_columns` for their public rows.

To add a check, write a function of `FactsToJudge` that raises an error or yields notes, and add the function to
`_CHECKS`. A check is silent if its facts are not known yet.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import shown
from dpensemble._entries import is_table, require_readable
from dpensemble._units import number_units
from dpensemble.datasets.columns import (
    as_text,
    in_parts,
    is_number,
    number_columns,
    numbers_of,
)
from dpensemble.datasets.csv import looks_like_decimal_comma
from dpensemble.datasets.dates import date_formats, which_are_dates
from dpensemble.datasets.formats import EntryRules, as_options
from dpensemble.datasets.identifiers import counts_rows, is_unnamed, names_person
from dpensemble.datasets.preparation import LEFT_OUT, TablePreparation
from dpensemble.errors import ColumnWarning, DataError, InvalidParameterError

# A share of entries above this is most of them.
_MOST_ODD = 0.5
# With fewer different numbers, categories serve as well. A note is then a remark, and with very few there is none.
_FEW, _VERY_FEW = 10, 3
_MOST_QUOTED, _LONGEST, _MOST_NAMED = 3, 24, 8
_UNITS, _SAME_UNIT, _CODES = 3, 0.5, 0.05

_THOUSANDS = "[.,'’ʼ`_\\s]"
_DRESSED = re.compile(
    rf"""
    [('"]*\s*
    (?:[<>≤≥=~≈≃±'*]|ca\.?|>=|<=)*\s*
    [+\-−–]?\s*(?:[$€£¥₹₽₩₺₫฿₴₪¢]|US\$|R\$|[A-Z]{{3}}\b|Fr\.?|kr\.?)?\s*[+\-−–]?\s*
    (?:\d{{1,3}}(?:,\d{{2}})*(?:{_THOUSANDS}\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)
    (?:[eE][+\-−]?\d+)?\s*
    (?P<unit>(?:10\^?\d|[^\d\s,;:()+*†\-])[^\s,;:()]{{0,11}}(?:\s[^\W\d]{{1,3}})?)?
    \s*[)'"]*[+\-*†‡]*
    """,
    re.VERBOSE,
)
_DECIMAL_COMMA = re.compile(r"^\D*\d{1,3}(\.\d{3})*,\d{1,2}\D*$|^\D*\d+,\d{1,2}\D*$")
_ORDINAL = re.compile(r"(st|nd|rd|th|º|ª|er|e|\.)", re.IGNORECASE)
_SHORT_DATE = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1\d{2}\s*|\s*\d{1,2}[ -]?[A-Za-z]{3}[ -]?\d{2}\s*")


@dataclass(frozen=True, slots=True)
class _NumberLike:
    """What a column of texts mostly holds, as the beginning of a sentence, the cure, and whether it is doubtful."""

    text: str
    cure: str
    is_doubtful: bool


def _number_like(name: str, entries: pd.Series) -> _NumberLike | None:
    """Return what is remarkable about a column of public texts without blanks, or None if it holds categories."""
    texts = as_text(entries).astype(str)
    if not len(texts):
        return None
    distinct = texts.value_counts()
    values, frequency = distinct.index.to_series(), distinct.to_numpy()
    numbers = numbers_of(pd.DataFrame({name: values.to_numpy(dtype=object)}))[0][:, 0]
    plain = np.isfinite(numbers)
    share = float(frequency[plain].sum() / len(texts))
    different = len(set(numbers[plain].tolist()))
    if _are_codes(values[plain]):
        return None
    if share > _MOST_ODD and different >= _VERY_FEW:
        return _with_odd_ones(name, distinct[~plain], share, different)
    dressed = _dressed(values, frequency)
    share = float(frequency[plain | dressed].sum() / len(texts))
    if share > _MOST_ODD and int((plain | dressed).sum()) >= _FEW:
        return _with_signs(name, distinct[dressed], distinct[~(plain | dressed)], share)
    return _dates(name, distinct, values, frequency)


def _with_odd_ones(name: str, odd: pd.Series, share: float, different: int) -> _NumberLike:
    if not len(odd):
        stored = f"column {name!r} is not read as numbers, because the table stores its numbers as texts"
        return _NumberLike(stored, "store them as numbers in all tables", False)
    return _NumberLike(
        f"column {name!r} is not read as numbers, because {_percent(1 - share)} of its public entries are none: "
        f"{_quoted_counts(odd)} (the other {_percent(share)} are)",
        "blank these entries, or write them as numbers, in all tables",
        different >= _FEW,
    )


def _with_signs(name: str, dressed: pd.Series, odd: pd.Series, share: float) -> _NumberLike:
    commas = sum(int(count) for text, count in dressed.items() if _DECIMAL_COMMA.fullmatch(str(text)))
    decimal = ' (if commas are decimal signs, with --decimal ",")' if 2 * commas > dressed.sum() else ""
    rest = f"; the others are {_quoted_counts(odd)}" if len(odd) else ""
    return _NumberLike(
        f"column {name!r} is not read as numbers, although {_percent(share)} of its public entries look like numbers "
        f"with signs or units: {_quoted_counts(dressed)}{rest}",
        f"write plain numbers such as 1200.5 in all tables{decimal}",
        True,
    )


def _dates(name: str, distinct: pd.Series, values: pd.Series, frequency: np.ndarray) -> _NumberLike | None:
    short = np.array([_SHORT_DATE.fullmatch(text) is not None for text in values], dtype=bool)
    share = float(frequency[short].sum() / frequency.sum())
    if share > _MOST_ODD and int(short.sum()) >= _FEW:
        return _NumberLike(
            f"column {name!r} is not read as dates, because the years of {_percent(share)} of its public entries have "
            f"two digits: {_quoted_counts(distinct[short])}",
            "write dates as 2025-12-31 in all tables",
            True,
        )
    if len(values) < _FEW:
        return None
    is_date = which_are_dates(values)
    share = float(frequency[is_date].sum() / frequency.sum())
    if share <= _MOST_ODD or is_date.all():
        return None
    return _NumberLike(
        f"column {name!r} is not read as dates, because {_percent(1 - share)} of its public entries are none in the "
        f"format of the others: {_quoted_counts(distinct[~is_date])}",
        "blank these entries, or write them as 2025-12-31, in all tables",
        True,
    )


def _dressed(values: pd.Series, frequency: np.ndarray) -> np.ndarray:
    """Return which distinct texts look like numbers with signs or units, if there are few units."""
    matches = [_DRESSED.fullmatch(text.strip()) for text in values]
    units: dict[str, int] = {}
    dressed = np.zeros(len(values), dtype=bool)
    for place, match in enumerate(matches):
        unit = (match["unit"] or "") if match else ""
        if match and not _ORDINAL.fullmatch(unit):
            dressed[place] = True
            units[unit] = units.get(unit, 0) + int(frequency[place])
    common = max(units.values(), default=0) > _SAME_UNIT * sum(units.values())
    return dressed if common or len(units) <= _UNITS else np.zeros(len(values), dtype=bool)


def _are_codes(plain: pd.Series) -> bool:
    """Return whether numbers are codes: some begin with zeros, as amounts rarely do."""
    return len(plain) > 0 and float(plain.str.fullmatch(r"0\d+").mean()) > _CODES


def _quoted_counts(counts: pd.Series) -> str:
    """Quote the most frequent of some texts, cut and without characters that a terminal obeys."""
    shown: Iterator[str] = ("".join(map(_visible, str(text))) for text in counts.index[:_MOST_QUOTED])
    quoted = [repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...") for text in shown]
    more = len(counts) - len(quoted)
    return ", ".join(quoted) + (f" and {more:,} more" if more > 0 else "")


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def _percent(share: float) -> str:
    """Return a share as a percentage in words, never rounded up to 100 %."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{int(10_000 * share) / 100:g} %"


# With fewer rows, ids and measurements cannot be distinguished, nor texts and categories.
_FEWEST = 20
_SOME, _MOSTLY = 0.1, 0.5
_NEARLY_ALL = 0.95
_MOST_SHOWN, _MOST_WARNED = 12, 5
# Columns that a row of units or of further names has at least.
_FEWEST_HEADED = 2
_KEY = "id|ids|nr|no|num|number|key|code|uuid|guid|pseudonym|mrn|ssn"


_ENCODER = ", or let an encoder that never saw private texts turn them into numbers"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a column, and what to do. A doubtful column should be checked before training."""

    column: str
    text: str
    is_doubtful: bool = True


def _table_notes(
    public: pd.DataFrame, preparation: TablePreparation, *, has_unit: bool, n_units: int | None = None
) -> list[Note]:
    """Return remarks on a public table of `n_units` units, on which `preparation` was fitted. By default each row."""
    words, remarks = preparation.words(), _Remarks(has_unit, len(public) if n_units is None else n_units)
    written, declared = _written_notes(public, preparation), preparation.columns or {}
    notes: list[Note] = []
    for place in _worth_a_look(public):
        name, column = str(public.columns[place]), public.iloc[:, place]
        if name in written:
            notes.append(written[name])
        elif name not in declared:
            notes += remarks.of_column(name, column, words[name])
    notes += _second_header(public)
    told = {note.column for note in notes}
    identifiers = {name: what for name, what in preparation.identifiers_.items() if name not in told}
    return notes if not identifiers else [_identifier_note(identifiers), *notes]


def _second_header(public: pd.DataFrame) -> list[Note]:
    """Return a remark if the first row has texts in columns whose other entries are numbers, as a row of units has."""
    numbers = number_columns(public)
    if len(public) < _FEWEST or public.iloc[0, np.flatnonzero(numbers)].notna().any():
        return []
    texts = public.iloc[:, np.flatnonzero(~numbers)]
    values = numbers_of(texts.iloc[:_FEWEST])[0]
    # Few entries decide about most columns.
    headed = np.flatnonzero(np.isnan(values[0]) & texts.iloc[0].notna() & ~np.isnan(values[1:]).all(axis=0)).tolist()
    of_numbers = [place for place in headed if _are_numbers(texts.iloc[1:, place])]
    if len(of_numbers) < _FEWEST_HEADED:
        return []
    names = [str(texts.columns[place]) for place in of_numbers]
    rest = len(names) - _MOST_QUOTED
    listed = ", ".join(map(repr, names[:_MOST_QUOTED])) + (f" and {rest:,} more" if rest > 0 else "")
    return [
        Note(
            names[0],
            f"the first public row looks like a second header: columns {listed} have a text there and only numbers "
            "below; delete such a row from all tables, or give --skip-lines, because it is read as a record.",
        )
    ]


def _are_numbers(entries: pd.Series) -> bool:
    values, _ = numbers_of(entries.to_frame())
    return bool(entries.notna().any()) and bool((~np.isnan(values[:, 0]) | entries.isna().to_numpy()).all())


def _identifier_note(identifiers: Mapping[str, str]) -> Note:
    """Return one remark on all columns that are left out because they name people or number records."""
    first = next(iter(identifiers))
    text = f"{_in_words(identifiers)}; --column {_quoted(first)}=category keeps {_it(identifiers, first)}."
    return Note(first, text, is_doubtful=False)


def _it(identifiers: Mapping[str, str], first: str) -> str:
    return "it" if len(identifiers) == 1 else repr(first)


def _in_words(identifiers: Mapping[str, str]) -> str:
    """State which columns are left out, and what they look like."""
    shown_names = list(identifiers)[:_MOST_NAMED]
    named = ", ".join(f"{name!r} ({identifiers[name]})" for name in shown_names)
    more = len(identifiers) - len(shown_names)
    listed = f"{named}{f' and {more:,} more' if more else ''}"
    if len(identifiers) == 1:
        return f"column {listed} names people or numbers records, and is left out"
    return f"columns {listed} name people or number records, and are left out"


def _written_notes(public: pd.DataFrame, preparation: TablePreparation) -> dict[str, Note]:
    """Return a remark on each column of written numbers, and on what becomes blank there."""
    blank, notes = preparation.blank_entries(public), {}
    for name, kind in preparation.words().items():
        if name not in preparation.formats_:
            continue
        entries = as_text(public[name])
        lost = entries[blank[name]].value_counts()
        blanks = f"; blank are {_quoted_counts(lost)}" if len(lost) else ""
        example = _quoted_counts(entries[~blank[name]].value_counts())
        text = f"column {name!r} is read as {kind}: {example}{blanks}"
        cure = "" if name in (preparation.columns or {}) else "; if that is wrong, give --column NAME=KIND"
        notes[name] = Note(name, f"{text}{cure}.", is_doubtful=False)
    return notes


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


def warn_of_identifiers(public: pd.DataFrame, identifiers: Mapping[str, str], *, has_unit: bool) -> None:
    """Warn about columns of public rows that are left out, because they name people or number records."""
    if not has_unit:
        _warn_of_persons(public[list(identifiers)])
    if identifiers:
        first = next(iter(identifiers))
        cure = f"columns={{{first!r}: 'category'}} keeps {_it(identifiers, first)}"
        warnings.warn(f"{_in_words(identifiers)}; {cure}.", ColumnWarning, stacklevel=5)


def _not_numbers(name: str, entries: pd.Series) -> _NumberLike | None:
    """Return what is remarkable about a column of texts that are neither dates nor numbers with decimal commas."""
    return None if date_formats(as_text(entries)) else _number_like(name, entries)


def _warn_of_persons(public: Any) -> None:
    """Warn about named columns of public rows that look like whose record it is."""
    names = []
    for place, name in enumerate(map(str, public.columns if is_table(public) else ())):
        if names_person(name, has_many=True):
            entries = public.iloc[:, place].dropna()
            if _may_be_key(entries) and names_person(name, has_many=entries.nunique() > _SOME * len(entries)):
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
    named = [
        is_unnamed(name) or names_person(name, has_many=True) or _is_called_key(name)
        for name in map(str, public.columns)
    ]
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
        if kind.startswith(LEFT_OUT):
            drop = f"it is not used, and --drop {_quoted(name)} removes this note"
        entries = values.dropna()
        different = entries.nunique()
        if is_unnamed(name) and not kind.startswith(LEFT_OUT):
            yield Note(name, f"column {name!r} has no name, and is often the row number of an earlier table; {drop}.")
        elif (
            not self.has_unit and _may_be_key(entries) and names_person(name, has_many=different > _SOME * len(entries))
        ):
            left_out = " (left out)" if kind.startswith(LEFT_OUT) else ""
            yield Note(
                name,
                f"column {name!r}{left_out} looks like whose record it is; with --unit {_quoted(name)} all records of "
                "one person are protected together, without it only each single record.",
            )
        elif ": " in kind and kind.startswith(LEFT_OUT):
            # One remark names all such columns.
            return
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
        if len(texts) and texts.map(looks_like_decimal_comma).mean() > _NEARLY_ALL:
            yield Note(
                name,
                f'column {name!r} looks like numbers with decimal commas, but is read as text: give --decimal ",".',
            )
        elif (like := _number_like(name, entries)) is not None:
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


_FEWEST_DECLARED = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class FactsToJudge:
    """Public facts of a run. What is not known yet is None.

    `purposes` has the column of each purpose, such as ``{"unit": "patient"}``. `groups` are columns of groups, and
    `drop` columns to leave out. `labels` has two columns for each public table with the target: labels as they are
    written, and in the form of the classes. `rows` are public rows as they are learned from, without rows if columns
    are declared. `units` has the unit of each of these rows if the public table has that column. `entries` states how
    entries are read.
    """

    classes: Sequence[object]
    target: str
    purposes: Mapping[str, str | None] = field(default_factory=dict)
    groups: Sequence[str] = ()
    drop: Sequence[str] = ()
    labels: Mapping[str, tuple[pd.Series, pd.Series]] = field(default_factory=dict)
    rows: pd.DataFrame | None = None
    units: Sequence[object] | None = None
    entries: EntryRules = field(default_factory=EntryRules)


@dataclass(frozen=True, slots=True)
class _Judgement:
    """How each column is read, in words, and notes on what is suspicious. Both may be published.

    `preparation` was fitted on the public rows. It is None without any.
    """

    columns: Mapping[str, str]
    notes: tuple[Note, ...]
    preparation: TablePreparation | None = None


def judge(facts: FactsToJudge) -> _Judgement:
    """Return how columns are read, and notes. Raise if a setting or a public table shows that a run is a mistake."""
    notes = [note for check in _CHECKS for note in check(facts)]
    if facts.rows is None or not len(facts.rows):
        return _Judgement({}, tuple(notes))
    with as_options():
        preparation = TablePreparation(**facts.entries.settings()).fit(facts.rows)
    n_units = None if facts.units is None else len(number_units(facts.units)[0])
    notes += _table_notes(facts.rows, preparation, has_unit=facts.purposes.get("unit") is not None, n_units=n_units)
    return _Judgement(preparation.words(), tuple(notes), preparation)


def ids_of_two_forms(ids: Sequence[object]) -> int:
    """Return how many ids are written as 7.0 although another id is written as 7. They are two ids of two units."""
    texts = {one.strip() for one in ids if isinstance(one, str)}
    return sum(whole in texts for one in texts if (whole := re.sub(r"\.0+$", "", one)) != one)


def _ids_have_one_form(facts: FactsToJudge) -> Iterator[Note]:
    if number := ids_of_two_forms(facts.units or ()):
        unit = str(facts.purposes["unit"])
        yield Note(
            unit,
            f"column {unit!r} of the public table has {number:,} ids in two forms, such as 7 and 7.0, which count as "
            "two units: write each id alike, in the private table too.",
        )


def _columns_have_one_purpose(facts: FactsToJudge) -> Iterator[Note]:
    contents = {"unit": "identifies whose record it is", "budgets": "holds the budgets", "time": "holds the times"}
    what = "target" if facts.purposes.get("time") is None else "event"
    for purpose, column in facts.purposes.items():
        if column == facts.target:
            raise InvalidParameterError(
                f"{purpose}={column!r} is also the {what}: name the column that {contents[purpose]}.",
                parameter=purpose,
            )
    others: dict[str, str] = {}
    for purpose, column in facts.purposes.items():
        if column in others:
            raise InvalidParameterError(
                f"{purpose}={column!r} is also the {others[column]}: name another column.", parameter=purpose
            )
        if column is not None:
            others[column] = purpose
    for column in facts.groups:
        if column == facts.target or column in others:
            raise InvalidParameterError(
                f"groups={column!r} is also the target, the unit or the column of budgets: name another column.",
                parameter="groups",
            )
    yield from ()


def _no_needed_column_is_dropped(facts: FactsToJudge) -> Iterator[Note]:
    target = "target" if facts.purposes.get("time") is None else "event"
    for purpose, column in {target: facts.target, **facts.purposes}.items():
        if column in facts.drop:
            raise InvalidParameterError(
                f"drop={column!r} is also the {purpose}, which every record needs: leave the column out of drop.",
                parameter="drop",
            )
    yield from ()


def _public_labels_are_declared(facts: FactsToJudge) -> Iterator[Note]:
    for name, (written, read) in facts.labels.items():
        present = written.notna().to_numpy()
        declared = read.isin(facts.classes).to_numpy()
        share = declared.sum() / max(present.sum(), 1)
        if not present.any() or share == 1:
            continue
        others = written[present & ~declared].astype(str).value_counts()
        what = (
            f"{_percent(1 - share)} of the labels in column {facts.target!r} of the {name} table are not among "
            f"classes={shown(list(facts.classes))}: {_quoted_counts(others)}"
        )
        if share < _FEWEST_DECLARED:
            raise DataError(
                f"{what}; declare every possible label as it is written, or leave the column out of the {name} table."
            )
        yield Note(facts.target, f"{what}; declare every possible label, if these are labels.")


#: What `judge` tries, in this order.
_CHECKS = (
    _columns_have_one_purpose,
    _no_needed_column_is_dropped,
    _public_labels_are_declared,
    _ids_have_one_form,
)
