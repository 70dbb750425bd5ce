"""What a run predicts: one of some declared classes, or a number in a declared range.

Both kinds of targets state how entries of their column are read, and which entries are wrong. They also state the
settings of an estimator, and what stands in for targets in a rehearsal. Everything else of a run is the same for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import Label, bare, folded, shown
from dpensemble._entries import Floats, Integers, Rows
from dpensemble.datasets.columns import as_text, is_number, numbers_of
from dpensemble.datasets.formats import EntryRules, Kind, NumberFormat, as_options
from dpensemble.datasets.preparation import blanked
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.residuals import NumberRange
from dpensemble.rows.arguments import BAD, class_ids_or_bad, sorted_classes

_TRUTH = {"false": 0.0, "true": 1.0}
_DIGITS = {"0": "false", "1": "true"}


def _read_labels(column: pd.Series, classes: Sequence[Label]) -> pd.Series:
    """Return labels in the form of the classes, or NaN. Each label is read separately.

    A text in quotation marks or brackets is the class in them. Truth values are read in any capitals, or as 0 and 1.
    """
    if isinstance(classes[0], str):
        return _each(as_text(column), _names_in_marks(list(map(str, classes))))
    if set(classes) == {0, 1}:
        truth = column.map(lambda entry: _TRUTH.get(bare(str(entry)).casefold(), entry), na_action="ignore")
        return _labels_as_numbers(truth)
    return _labels_as_numbers(column)


def _names_in_marks(classes: Sequence[str]) -> Callable[[str], str]:
    names = {name: name for name in classes}
    truth = {name.casefold(): name for name in classes}
    if set(truth) != {"false", "true"}:
        return lambda entry: names.get(entry) or names.get(bare(entry), entry)
    truth |= {digit: truth[word] for digit, word in _DIGITS.items()}
    return lambda entry: truth.get(bare(entry).casefold(), entry)


def _each(texts: pd.Series, read: Callable[[str], str]) -> pd.Series:
    """Return what `read` makes of each text. Equal texts are read once."""
    known: dict[str, str] = {}

    def known_or_read(entry: object) -> str:
        text = str(entry)
        if text not in known:
            known[text] = read(text)
        return known[text]

    return texts.map(known_or_read, na_action="ignore")


def _labels_as_numbers(column: pd.Series) -> pd.Series:
    if column.dtype.kind == "O":
        column = column.map(lambda entry: bare(entry) if isinstance(entry, str) else entry, na_action="ignore")
    return pd.Series(numbers_of(column.to_frame())[0][:, 0], index=column.index, name=column.name)


def _labels_as_classes(column: pd.Series, classes: Sequence[Label]) -> pd.Series:
    """Return labels as `_read_labels` does. A text that is `folded` to the same as a class is that class."""
    labels = _read_labels(column, classes)
    if not isinstance(classes[0], str):
        return labels
    names = {folded(str(name)): str(name) for name in classes}
    return _each(labels, lambda entry: names.get(folded(entry)) or names.get(folded(bare(entry)), entry))


def _refuse_unlike(labels: pd.Series, classes: Sequence[Label]) -> None:
    """Raise for labels that differ from a class only in capitals or spaces. Other undeclared labels raise later."""
    names = {folded(str(name)) for name in classes}
    odd = ~labels.isin(classes).to_numpy()
    unlike = odd & labels.map(lambda entry: folded(str(entry)) in names).to_numpy(dtype=bool)
    if unlike.any():
        raise DataError(
            f"the private table's target has labels that differ from classes={list(classes)!r} only in capitals or "
            f"spaces (the first in row {int(unlike.argmax()):,}, counting from 0): write them alike."
        )


class Target(ABC):
    """What a run predicts, as public declarations state it."""

    #: Declared classes, none for a number.
    classes: Sequence[Label] = ()
    #: The target itself if it is a number.
    number: NumberTarget | None = None
    #: What a record without a target may do, in errors.
    leave_out = "let such records add nothing (--on-bad-record zero)"

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Return the settings of an estimator for this target."""

    @abstractmethod
    def read(self, column: pd.Series) -> pd.Series:
        """Return public targets as they are compared. Each entry is read separately."""

    @abstractmethod
    def read_private(self, column: pd.Series, *, keep_bad: bool) -> pd.Series:
        """Return private targets without any check. Each entry is read separately."""

    @abstractmethod
    def wrong(self, targets: Rows) -> NDArray[np.bool_]:
        """Return which targets make a record bad."""

    @abstractmethod
    def require_private(self, targets: pd.Series) -> None:
        """Raise for a private target that is present and wrong, and name its row."""

    def require_block(self, targets: pd.Series) -> None:
        """Raise for a wrong private target of a block, whose place in the whole table is not known."""
        if targets.isna().any():
            raise DataError(f"the private table's target has {self.what_is_unreadable}, or {self.leave_out}.")

    @property
    @abstractmethod
    def what_is_unreadable(self) -> str:
        """What private targets are that cannot be read, and what to do."""

    @property
    @abstractmethod
    def what_is_wrong(self) -> str:
        """What is wrong with a public table with wrong targets, in words."""

    @abstractmethod
    def stand_ins(self, ranks: Integers) -> list[object]:
        """Return made-up targets for all ranks of some rows, for a rehearsal."""

    def shown_by(self, written: pd.Series | None) -> Target:  # noqa: ARG002
        """Return the target as public entries show how it is written."""
        return self

    def features(self, entries: EntryRules) -> EntryRules:
        """Return what is declared about the entries of features."""
        return entries


@dataclass(frozen=True)
class ClassTarget(Target):
    """One of some declared classes."""

    classes: Sequence[Label]

    def settings(self) -> dict[str, object]:
        """Return the classes."""
        return {"classes": self.classes}

    def read(self, column: pd.Series) -> pd.Series:
        """Return labels in the form of the classes, also if they differ in capitals or spaces."""
        return _labels_as_classes(column, self.classes)

    def read_private(self, column: pd.Series, *, keep_bad: bool) -> pd.Series:
        """Return private labels in the form of the classes."""
        return _labels_as_classes(column, self.classes) if keep_bad else _read_labels(column, self.classes)

    def wrong(self, targets: Rows) -> NDArray[np.bool_]:
        """Return which labels are not declared."""
        return np.asarray(class_ids_or_bad(sorted_classes(self.classes), targets) == BAD)

    def require_private(self, targets: pd.Series) -> None:
        """Raise for a text where classes are numbers, or a label that differs from a class only in its writing."""
        if targets.isna().any():
            raise DataError(
                f"the private table's target has labels that are not numbers, but all of classes={self.classes!r} are "
                f"(the first in row {int(targets.isna().to_numpy().argmax()):,}, counting from 0): declare every "
                f"possible label as it is written, or {self.leave_out}."
            )
        _refuse_unlike(targets, self.classes)

    @property
    def what_is_unreadable(self) -> str:
        """Texts where classes are numbers."""
        return "labels that are not numbers, but all declared ones are: declare every possible label as it is written"

    @property
    def what_is_wrong(self) -> str:
        """Labels that are missing or no class."""
        return f"missing labels or labels outside classes={self.classes!r}"

    def stand_ins(self, ranks: Integers) -> list[object]:
        """Return labels that are equally frequent."""
        return [self.classes[rank * len(self.classes) // len(ranks)] for rank in ranks]


@dataclass(frozen=True)
class NumberTarget(Target):
    """A number in a declared range.

    Parameters
    ----------
    range : NumberRange
        The declared range. A number outside counts as its end.
    column : str
        Name of the target.
    entries : EntryRules
        What is declared about entries, those of the target among them.
    form : NumberFormat, optional
        How texts are written, by the declaration and by public rows with the target. By default as plain numbers.
    """

    range: NumberRange
    column: str
    entries: EntryRules = field(default_factory=EntryRules)
    form: NumberFormat | None = None

    def __post_init__(self) -> None:
        kind = self.entries.kind(self.column)
        if kind is not None and not kind.is_number and kind is not Kind.DROP:
            raise InvalidParameterError(
                f"column {self.column!r} is declared to hold {kind.value}, but a number is predicted: declare number, "
                "percent or money, or leave it out.",
                parameter="column",
            )

    @property
    def number(self) -> NumberTarget:  # type: ignore[override]
        """The target itself."""
        return self

    def settings(self) -> dict[str, object]:
        """Return the ends of the range."""
        return {"low": self.range.low, "high": self.range.high}

    def features(self, entries: EntryRules) -> EntryRules:
        """Return what is declared about the entries of features, without the target."""
        return entries.without(self.column)

    def shown_by(self, written: pd.Series | None) -> NumberTarget:
        """Return the target with the format that its declaration, and public entries if there are any, show.

        Raises
        ------
        DataError
            If most public entries are not numbers, or if they allow two formats.
        """
        public = pd.Series([], dtype=object) if written is None else blanked(written, self._blanks)
        as_texts = self.entries.kind(self.column) is not None or not (written is None or is_number(written))
        with as_options():
            form = self.entries.format_of(self.column, as_text(public)) if as_texts else None
        known = replace(self, form=form)
        present = public.notna().to_numpy()
        share = float(np.mean(~known.wrong(known.read(public).to_numpy())[present])) if present.any() else 1.0
        if share < _FEWEST_NUMBERS:
            raise DataError(
                f"column {self.column!r} of the public table is the target, and {1 - share:.0%} of its entries are not "
                f"numbers: declare how they are written (--column {self.column}=KIND), or leave the column out of the "
                "public table."
            )
        return known

    @property
    def _blanks(self) -> list[str]:
        return self.entries.blanks_of(self.column)

    def read(self, column: pd.Series) -> pd.Series:
        """Return numbers, NaN for any other entry."""
        column = blanked(column, self._blanks)
        values = numbers_of(column.to_frame())[0][:, 0] if self.form is None else self._written(column, self.form)
        return pd.Series(values, index=column.index, name=column.name)

    @staticmethod
    def _written(column: pd.Series, form: NumberFormat) -> Floats:
        """Return numbers by a format. Numbers that a table stores are what they are."""
        if is_number(column):
            return numbers_of(column.to_frame())[0][:, 0]
        is_text = np.fromiter((isinstance(entry, str) for entry in column), dtype=bool, count=len(column))
        stored = ~is_text & column.notna().to_numpy()
        values = form.numbers(as_text(column.mask(stored)))
        plain = numbers_of(column.where(stored).to_frame())[0][:, 0]
        return np.where(stored, plain, values)

    def read_private(self, column: pd.Series, *, keep_bad: bool) -> pd.Series:  # noqa: ARG002
        """Return numbers, NaN for any other entry."""
        return self.read(column)

    def wrong(self, targets: Rows) -> NDArray[np.bool_]:
        """Return which targets are not finite numbers."""
        return ~np.isfinite(np.asarray(targets, dtype=np.float64))

    def require_private(self, targets: pd.Series) -> None:
        """Raise for a target that is not a finite number."""
        wrong = self.wrong(targets.to_numpy())
        if wrong.any():
            raise DataError(
                f"the private table's target has an entry that is not a finite number (the first in row "
                f"{int(wrong.argmax()):,}, counting from 0): correct it, declare how numbers are written (--column "
                f"{self.column}=KIND), or {self.leave_out}."
            )

    @property
    def what_is_unreadable(self) -> str:
        """Entries that are not numbers."""
        return (
            f"an entry that is not a number: correct it, declare how numbers are written (--column {self.column}=KIND)"
        )

    @property
    def what_is_wrong(self) -> str:
        """Entries that are missing or no numbers."""
        return "entries that are missing or not numbers"

    def beyond(self, targets: Rows) -> tuple[int, int]:
        """Return how many targets are below and above the range."""
        values = np.asarray(targets, dtype=np.float64)
        values = values[np.isfinite(values)]
        return int(np.sum(values < self.range.low)), int(np.sum(values > self.range.high))

    def stand_ins(self, ranks: Integers) -> list[object]:
        """Return numbers all over the range."""
        return [self.range.low + self.range.width * float(rank) / len(ranks) for rank in ranks]

    def words(self) -> str:
        """Return in words how the target is read."""
        how = "plain numbers" if self.form is None else self.form.words()
        return f"the target, {how} from {self.range.low:g} to {self.range.high:g}"


#: Two declarations of one target.
BOTH = "range is for a number and classes are for labels, so only one of them can be given."
# Share of public targets that must be numbers.
_FEWEST_NUMBERS = 0.5


def parsed_range(text: str) -> NumberRange:
    """Return the range of an option such as ``--range 0,500000``."""
    try:
        low, high = map(float, text.split(","))
        return NumberRange.of(low, high)
    except (ValueError, InvalidParameterError):
        raise InvalidParameterError(
            f"range={shown(text)} must be two numbers, first the smallest that can occur and then a larger one, such "
            "as 0,500000, without a look at private records.",
            parameter="range",
        ) from None
