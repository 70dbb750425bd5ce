"""What a run predicts: one of some declared classes, or a number in a declared range.

Both kinds of targets state how entries of their column are read, and which entries are wrong. They also state the
settings of an estimator, and what stands in for targets in a rehearsal. Everything else of a run is the same for both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import Label, bare, declared_labels, folded, shown, split_names
from dpensemble._entries import Floats, Integers, Rows
from dpensemble.datasets.columns import as_text, is_number, numbers_of
from dpensemble.datasets.formats import EntryRules, Kind, NumberFormat, as_options
from dpensemble.datasets.preparation import blanked
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.methods.life_table import LifeTable
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
    #: The target itself if it is the time until an event.
    times_until: TimesTarget | None = None
    #: Whether targets of public and of test rows are read, to score by.
    is_scored: bool = True
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

    def as_given(self, targets: Rows) -> Rows:
        """Return private targets in the form that `fit` takes."""
        return targets.to_numpy()

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

    def table_of_stand_ins(self, ranks: Integers) -> Rows:
        """Return made-up targets in the form in which targets are read."""
        return pd.Series(self.stand_ins(ranks), name="label")

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


# Times of the first screen if none are declared.
_MOST_SHOWN = 3
_LONGEST_UNIT = 30
#: Columns of private targets that are times until an event.
EVENT, TIME = "event", "time"


@dataclass(frozen=True, kw_only=True)
class DeclaredTimes:
    """What options declare about times until an event. All of it is public.

    Parameters
    ----------
    time : str
        Column of the time until the event or the censoring.
    event : str
        Column of the codes.
    events, censored, competing : sequence of str
        Codes of the event, of a censoring, and of competing events, as they are written.
    bins : sequence of float
        End of each bin.
    at : sequence of float or None
        Ends of bins that the first screen shows. None for up to three.
    time_unit : str or None
        What times count, such as ``"days"``.
    """

    time: str
    event: str
    events: Sequence[str]
    censored: Sequence[str]
    bins: Sequence[float]
    competing: Sequence[str] = ()
    at: Sequence[float] | None = None
    time_unit: str | None = None

    @classmethod
    def of_options(
        cls,
        time: str,
        event: str,
        bins: str,
        *,
        censored: str | None = None,
        competing: str | None = None,
        at: str | None = None,
        time_unit: str | None = None,
    ) -> DeclaredTimes:
        """Return what options such as ``--event status=1`` and ``--bins 30,90`` declare."""
        column, events = parsed_codes("event", event, "died=1")
        return cls(
            time=time,
            event=column,
            events=events,
            censored=split_names("0" if censored is None else censored),
            competing=() if competing is None else split_names(competing),
            bins=parsed_times("bins", bins),
            at=None if at is None else parsed_times("at", at),
            time_unit=time_unit,
        )

    @property
    def codes(self) -> list[Label]:
        """All declared codes: numbers if all of them are. Raise if one is given twice."""
        codes = [*self.events, *self.censored, *self.competing]
        if len({code.casefold() for code in codes}) < len(codes):
            given = {"event": self.events, "censored": self.censored, "competing": self.competing}
            words = " and ".join(f"{name}={','.join(own)!r}" for name, own in given.items() if own)
            raise InvalidParameterError(f"{words} must not share a code: give each code once.", parameter="event")
        return declared_labels(codes)

    @property
    def settings(self) -> dict[str, Rows]:
        """The settings of an estimator, with codes as they are compared."""
        codes, n_events = self.codes, len(self.events)
        ends = n_events + len(self.censored)
        named = {"events": codes[:n_events], "censored": codes[n_events:ends], "competing": codes[ends:]}
        return {"bins": list(self.bins)} | named

    def require_shown(self) -> None:
        """Raise for times of the first screen, or a name of what times count, that cannot be shown."""
        shown = self.shown_times
        if any(one not in self.bins for one in shown):
            raise InvalidParameterError(
                f"at={shown!r} must be ends of bins, since a curve is known there only: choose from "
                f"{list(self.bins)!r}.",
                parameter="at",
            )
        unit = self.time_unit
        if unit is not None and not (unit.replace(" ", "").isalpha() and len(unit) <= _LONGEST_UNIT):
            raise InvalidParameterError(
                f"time_unit={unit!r:.60} must be a word for what times count, such as days.", parameter="time_unit"
            )

    @property
    def shown_times(self) -> list[float]:
        """Ends of bins that the first screen shows."""
        if self.at is not None:
            return list(self.at)
        places = np.linspace(0, len(self.bins) - 1, _MOST_SHOWN + 1)[1:] if len(self.bins) > _MOST_SHOWN else None
        return list(self.bins) if places is None else [self.bins[int(place)] for place in places]

    def facts(self) -> dict[str, object]:
        """Return what a record states about the declarations."""
        return {
            "what": f"{self.event} is {' or '.join(self.events)}",
            "time": self.time,
            "time_unit": self.time_unit or "",
            "at": self.shown_times,
            "codes": {
                "event": list(self.events),
                "censored": list(self.censored),
                "competing": list(self.competing),
            },
        }


@dataclass(frozen=True)
class TimesTarget(Target):
    """The time until an event: a column of codes and a column of times.

    Parameters
    ----------
    declared : DeclaredTimes
        Columns, codes and bins.
    entries : EntryRules
        What is declared about entries, those of the times among them.
    times : NumberTarget, optional
        How times are read. By default as `entries` declare, or as plain numbers.
    """

    declared: DeclaredTimes
    entries: EntryRules = field(default_factory=EntryRules)
    times: NumberTarget | None = None
    is_scored = False

    def __post_init__(self) -> None:
        kind, declared = self.entries.kind(self.declared.time), self.declared
        if kind not in (None, Kind.NUMBER, Kind.DROP):
            raise InvalidParameterError(
                f"column {declared.time!r} is declared to hold {kind.value}, but a time is a number: declare number "
                f"with an example, such as {declared.time}=number:1.234,5, or leave it out.",
                parameter="column",
            )
        LifeTable(**declared.settings).check()
        declared.require_shown()

    @property
    def times_until(self) -> TimesTarget:  # type: ignore[override]
        """The target itself."""
        return self

    def settings(self) -> dict[str, object]:
        """Return bins and codes."""
        return dict(self.declared.settings)

    def features(self, entries: EntryRules) -> EntryRules:
        """Return what is declared about the entries of features, without the times."""
        return entries.without(self.declared.time)

    def shown_by(self, written: pd.Series | None) -> TimesTarget:
        """Return the target with the format that public times show, if there are any."""
        return replace(self, times=self._times.shown_by(written))

    @property
    def _times(self) -> NumberTarget:
        declared = self.declared
        own = NumberTarget(NumberRange.of(0.0, declared.bins[-1]), declared.time, self.entries)
        return own if self.times is None else self.times

    def read(self, column: Rows) -> Rows:
        """Return codes and times, NaN for an entry that is none. The first column has codes."""
        codes = ClassTarget(self.declared.codes).read(column.iloc[:, 0])
        return pd.DataFrame({EVENT: codes, TIME: self._times.read(column.iloc[:, 1])})

    def read_private(self, column: Rows, *, keep_bad: bool) -> Rows:  # noqa: ARG002
        """Return codes and times, NaN for an entry that is none."""
        return self.read(column)

    def as_given(self, targets: Rows) -> Rows:
        """Return both columns."""
        return targets

    def wrong(self, targets: Rows) -> NDArray[np.bool_]:
        """Return which records lack a declared code or a time from 0."""
        times = targets[TIME].to_numpy(dtype=np.float64)
        known = np.isfinite(times) & (times >= 0)
        return np.asarray(~known | ClassTarget(self.declared.codes).wrong(targets[EVENT].to_numpy()))

    def require_private(self, targets: Rows) -> None:  # noqa: ARG002
        """Raise in any case: such records add zeros, and stop no run."""
        raise DataError(f"a bad record cannot stop this run: {self.leave_out}.")

    @property
    def what_is_unreadable(self) -> str:
        """Entries that cannot be read."""
        return "an undeclared code, or a time that is not a number from 0"

    @property
    def what_is_wrong(self) -> str:
        """Entries that cannot be read."""
        return self.what_is_unreadable

    def stand_ins(self, ranks: Integers) -> list[object]:
        """Return pairs of a code and a time, all over the bins and beyond them."""
        codes, horizon = self.declared.codes, 1.2 * self.declared.bins[-1]
        return [(codes[rank % len(codes)], horizon * float(rank) / len(ranks)) for rank in ranks]

    def table_of_stand_ins(self, ranks: Integers) -> pd.DataFrame:
        """Return made-up codes and times as columns."""
        return pd.DataFrame(self.stand_ins(ranks), columns=[EVENT, TIME])

    def words(self) -> dict[str, str]:
        """Return in words how both columns are read."""
        declared, form = self.declared, self._times.form
        codes = f"event {', '.join(declared.events)}; censored {', '.join(declared.censored)}"
        codes += f"; competing {', '.join(declared.competing)}" if declared.competing else ""
        how = "plain numbers" if form is None else form.words()
        return {declared.time: f"the time, {how}", declared.event: f"codes: {codes}"}


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


def parsed_codes(parameter: str, text: str, example: str) -> tuple[str, list[str]]:
    """Return the column and the values of an option such as ``--event status=1,2``."""
    # A name may hold the sign, as in BMI>=30.
    name, equals, values = text.rpartition("=")
    if not equals or not name or not values:
        raise InvalidParameterError(
            f"{parameter}={text!r:.80} must be COLUMN=VALUE,VALUE, such as {example}: values are declared, since "
            "nothing is read off the private records.",
            parameter=parameter,
        )
    return name, split_names(values)


def parsed_times(parameter: str, text: str) -> list[float]:
    """Return the times of an option such as ``--bins 30,90,180``."""
    numbers = []
    for part in text.split(","):
        try:
            numbers.append(float(part))
        except ValueError:
            numbers.append(math.nan)
    if not all(map(math.isfinite, numbers)):
        raise InvalidParameterError(
            f"{parameter}={text!r:.80} must be numbers between commas, all in the one unit of the times and without "
            "its name, such as 30,90,180,365.",
            parameter=parameter,
        )
    return numbers
