"""What one training run leaves behind: a public part and a private part, which never mix.

A record also states what a protected unit is called: a patient if the unit column is ``patient_id``, not a unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dpensemble import _files
from dpensemble._checks import plural, with_article
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.relations import Basis, Relation

#: A part of a record, as JSON holds it.
RecordPart = Mapping[str, Any]
_SCHEMA = 5
#: Entry of the file with exact counts for the owner, which no record, page or card shows.
FOR_OWNER = "for_owner"
_LABELS: dict[str, Any] = {"description": "labels", "table": None, "noise": None}
_OLD_SUM: dict[str, Any] = {"description": "noisy sum", "table": None, "noise": None}
_RELEASE = frozenset(_LABELS)
# Entries of `RunRecord.data` that the summary in the terminal shows.
_SHOWN_DATA = frozenset({"private_units", "public_rows", "most_common_label", "kinds_of_columns"})
_SHOWN_SETTINGS = frozenset({"n_teachers", "title", "law", "gated", "noise_chosen", "noise_in_words"})
_GROUP = frozenset({"name", "budget", "epsilon", "records", "teachers", "copies", "weight", "frequency"})
_BASELINE = frozenset({"name", "epsilon", "labels"})
_EFFECT = frozenset({"column", "kind", "importance", "points"})
# Entries that effects of some models, and of earlier versions, lack.
_MORE_OF_EFFECT = frozenset({"deviations", "approximation", "rows"})
_RECORD = "record"
# The unit column states whose record it is, so that a unit is a person when the column's name states nothing else.
_USUAL_NOUN = "person"
_KEYS = "id|ids|nr|no|num|number|key|code|uuid|guid|hash|name|pseudonym"
_KNOWN_NOUNS = (
    "patient|person|subject|participant|member|customer|client|user|employee|student|pupil|donor|voter|citizen|"
    "resident|insured|policyholder|owner|driver|tenant|child|respondent|visitor|applicant|borrower|taxpayer|worker|"
    "household|family|couple|class|school|site|hospital|clinic|practice|ward|centre|center|company|firm|business|shop|"
    "store|device|vehicle|machine|case|visit|admission|stay|episode|encounter|session|order|trip|claim|loan|contract|"
    "account|address"
)
# Words before a key that name a register or the key itself, and not whose record it is.
_NO_NOUN = "unique|study|record|entry|data|main|hash|national|social|security|medical"
_FEWEST_LETTERS, _MOST_LETTERS = 4, 30
_TOGETHER = "A unit is all records that share"
_UNIT_WORD = re.compile(r"\b([Aa] )?([Uu])nit(s?)\b(?! column)")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A training run as its owner sees it. The shareable report shows a part of it.

    Parameters
    ----------
    method : str
        Short name, as on the command line.
    guarantee : dict
        `Guarantee.to_dict`.
    budget : dict
        ``epsilon`` and ``delta`` that were allowed.
    labels : int
        Number of labels answered. Not protected if the spend determined the number.
    asked : int
        Number of public rows queried, including queries without an answer.
    label_accuracy : float or None
        Share of answered labels that equal the truth, if the public rows have true labels.
    student, baseline : dict or None
        ``accuracy``, ``auroc``, ``auprc`` on the test rows, if there are test rows.
    worst_case_spend : list of [int, float]
        Epsilon of the data-independent analysis by number of labels (or queries, under a gate). Public.
    data : dict
        Name of the data set, and numbers of rows, features and classes.
    settings : dict
        Public settings of the run.
    versions : dict
        Versions of Python and of the libraries used.
    seconds : dict
        Wall-clock seconds by stage. For the owner. Not in the shareable report.
    experiment : list of str
        Reasons why this run is an experiment and not a release. Empty for a release.
    created : str
        Date and time, ISO 8601, UTC.
    groups : list of dict
        If groups of records have their own budgets, an entry for each group, the strictest first: ``name``, ``budget``,
        ``epsilon`` of its guarantee, number of ``records``, number of ``teachers`` (None if groups share teachers),
        ``copies`` of each record, ``weight`` of a ballot and ``frequency`` of voting.
    group_spend : list of [int, list of float]
        Epsilon of each group by number of labels (or queries, under a gate). Empty if the spend is secret.
    plain_spend : list of [int, float]
        Cost of as many labels for every record, in an ensemble with the same noise and no groups. Public.
    plain_labels : list of dict
        ``name``, ``epsilon`` and ``labels`` of that ensemble at the smallest, average and largest budget.
    effects : list of dict
        How strongly each column pushes towards each class, if the student has effects. See
        `moments.explanation.column_effects`.
    releases : list of dict
        Each release computed from the private records, labels or a noisy sum: its ``description``, its ``table``
        (None if the sum is not for readers) and its ``noise`` in sensitivities (None for labels).
    schema : int
        Version of this format.
    """

    method: str
    guarantee: dict[str, Any]
    budget: dict[str, float]
    labels: int
    asked: int
    label_accuracy: float | None
    student: dict[str, float] | None
    baseline: dict[str, float] | None
    worst_case_spend: list[list[float]]
    data: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    seconds: dict[str, float]
    experiment: list[str] = field(default_factory=list)
    created: str = ""
    groups: list[dict[str, Any]] = field(default_factory=list)
    group_spend: list[list[Any]] = field(default_factory=list)
    plain_spend: list[list[float]] = field(default_factory=list)
    plain_labels: list[dict[str, Any]] = field(default_factory=list)
    effects: list[dict[str, Any]] = field(default_factory=list)
    releases: list[dict[str, Any]] = field(default_factory=lambda: [_LABELS])
    schema: int = _SCHEMA

    @property
    def released_sums(self) -> bool:
        """Whether noisy sums were released instead of labels. The labels are then predictions of the model."""
        return self.releases != [_LABELS]

    @property
    def described_sums(self) -> list[tuple[str, float]]:
        """Description of each noisy sum and its noise in sensitivities, in order. Empty if the record lacks them."""
        return [(one["description"], one["noise"]) for one in self.releases if one["noise"] is not None]

    @property
    def n_sums(self) -> int:
        """Number of noisy sums: all sums, or only the label sums in records that do not describe their sums."""
        return len(self.releases)

    @property
    def released_tables(self) -> list[dict[str, Any]]:
        """Released statistics for readers: ``title``, and ``rows`` of label, value and noise."""
        return [one["table"] for one in self.releases if one["table"] is not None]

    @property
    def labels_are_public(self) -> bool:
        """Whether the number of labels may be published."""
        return bool(self.guarantee["basis"] == Basis.WORST_CASE.value or self.guarantee["fixed_number"])

    @property
    def unprotected_data(self) -> frozenset[str]:
        """Keys of `data` in which neighbouring private data sets may differ. Their values must not be published."""
        withheld = set() if self.scores_are_public else {"most_common_label", "test_quality"}
        if self.guarantee["relation"] == Relation.ADD_OR_REMOVE_ONE.value:
            withheld |= {"private_records", "private_units"}
        elif self.guarantee["unit"] != "record":
            withheld.add("private_records")
        if not self.labels_are_public:
            withheld |= {"answers", "public_truth", "released_labels"}
        return frozenset(withheld)

    @property
    def gated(self) -> bool:
        """Whether queries may go unanswered."""
        return bool(self.settings["gated"])

    @property
    def group_spend_is_promised(self) -> bool:
        """Whether each group's guarantee is the spend of the group, rather than its budget."""
        return bool(self.group_spend) and not self.gated

    @property
    def group_sizes_are_public(self) -> bool:
        """Whether the number of records in each group may be published."""
        return "private_records" not in self.unprotected_data

    @property
    def scores_are_public(self) -> bool:
        """Whether exact scores on the test rows may be published."""
        return bool(self.data.get("test_is_public", False))

    @property
    def unit(self) -> str:
        """The noun for what is protected: record, or what the unit column names, such as patient."""
        return unit_noun(self.guarantee["unit"], self.data.get("unit_column"), self.data.get("unit_name"))

    @property
    def title(self) -> str:
        """The headline: the declared one, or what is predicted, or the name of the data."""
        target = self.data.get("target")
        usual = f"Predicting {target}" if target else self.data.get("name")
        return str(self.data.get("title") or usual or "Unnamed data set")

    def in_words(self, text: str) -> str:
        """Return a sentence about units with the noun for what is protected."""
        return _with_unit_noun(text, self.unit, self.data.get("unit_column"))

    def statement(self) -> Guarantee:
        """Return the guarantee as a value, with the noun for what is protected."""
        stated = Guarantee.from_dict(self.guarantee)
        return replace(stated, unit=self.unit, assumptions=tuple(map(self.in_words, stated.assumptions)))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunRecord:
        """Rebuild a record. Raise if the schema is wrong, or if a field is missing or unknown."""
        names = {item.name for item in fields(cls)}
        values = {name: value for name, value in values.items() if name != FOR_OWNER}
        if "releases" not in values and isinstance(values.get("settings"), dict):
            # Earlier versions did not write this field.
            values = values | {"releases": [_OLD_SUM] * values["settings"].get("rounds", 0) or [_LABELS]}
        if isinstance(values.get("releases"), list) and all(isinstance(one, dict) for one in values["releases"]):
            # Earlier versions did not write the noise of each sum.
            values = values | {"releases": [{"noise": None} | one for one in values["releases"]]}
        if values.get("schema") != _SCHEMA or set(values) != names:
            raise FileError(f"the run record must have schema {_SCHEMA}: train again with this version.")
        record = cls(**values)
        if not set(record.data) >= _SHOWN_DATA or not set(record.settings) >= _SHOWN_SETTINGS:
            raise FileError("the run record lacks entries of its summary: train again with this version.")
        if any(set(group) != _GROUP for group in record.groups) or any(
            set(entry) != _BASELINE for entry in record.plain_labels
        ):
            raise FileError("the run record's groups lack entries or have unknown ones: train again with this version.")
        if any(set(one) != _RELEASE for one in record.releases):
            raise FileError("the run record's releases do not have the format of this version: train again with it.")
        if not _are_effects(record.effects, record.data.get("classes")):
            raise FileError("the run record's effects do not have the format of this version: train again with it.")
        record.statement()
        return record


@dataclass(frozen=True, kw_only=True)
class PrivateRecord:
    """Statistics of the secret votes: one margin and one spend for each label. Never share them."""

    epsilon_spent: float
    spend: list[list[float]]
    margins: list[float]
    constant_teachers: int
    failed_teachers: int
    group_spent: list[float] = field(default_factory=list)
    for_release: bool | None = None
    schema: int = _SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PrivateRecord:
        """Rebuild a record. Raise if the schema is wrong, or if a field is missing or unknown."""
        names = {item.name for item in fields(cls)}
        if values.get("schema") != _SCHEMA or set(values) | {"for_release"} != names:
            raise FileError(f"the private record must have schema {_SCHEMA}: train again with this version.")
        return cls(**values)


def _are_effects(effects: Any, classes: Any) -> bool:
    """Return whether these are effects of columns, each point with a value for every class (for two: the second)."""
    if not isinstance(effects, list) or not all(map(_is_effect, effects)):
        return False
    counts = {len(values) for one in effects for _, values in one["points"]}
    allowed = {1 if len(classes) == 2 else len(classes)} if classes else counts - {0, 2}
    return len(counts) <= 1 and counts <= allowed


def _is_effect(one: object) -> bool:
    return (
        isinstance(one, dict)
        and set(one) - _MORE_OF_EFFECT == _EFFECT
        and isinstance(one["column"], str | int)
        and one["kind"] in ("number", "category")
        and _is_finite(one["importance"])
        and one["importance"] >= 0
        and isinstance(one["points"], list)
        and all(map(_is_point, one["points"]))
        and isinstance(one.get("approximation", ""), str)
        and _are_rows(one.get("rows"), one["points"])
        and _are_deviations(one.get("deviations"), one["points"])
    )


def _are_rows(rows: object, points: Sequence[object]) -> bool:
    """Return whether there are no rows, or a number of at least 0 for each point."""
    if rows is None:
        return True
    return isinstance(rows, list) and len(rows) == len(points) and all(_is_count(row) for row in rows)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_deviations(deviations: object, points: list[list[Any]]) -> bool:
    """Return whether there are no deviations, or one of at least 0 for each value of each point."""
    if deviations is None:
        return True
    return (
        isinstance(deviations, list)
        and [len(row) if isinstance(row, list) else -1 for row in deviations] == [len(values) for _, values in points]
        and all(_is_finite(value) and value >= 0 for row in deviations for value in row)
    )


def _is_point(point: object) -> bool:
    return (
        isinstance(point, list)
        and len(point) == 2
        and (isinstance(point[0], str) or _is_finite(point[0]))
        and isinstance(point[1], list)
        and all(map(_is_finite, point[1]))
    )


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or raise `FileError` with one sentence."""

    def failed(reason: str) -> FileError:
        return FileError(f"{path} cannot be read as a run record ({reason}): train again.")

    try:
        # Earlier versions wrote NaN and infinity, and the checks of a record refuse them where they do not belong.
        values = _files.read_json(path, failed, special_numbers=True)
    except FileNotFoundError:
        raise failed("there is no such file") from None
    if not isinstance(values, dict):
        raise FileError(f"{path} must contain a run record: train again.")
    return values


def unit_noun(protected: str, column: str | None, declared: str | None = None) -> str:
    """Return the noun for what a guarantee protects.

    Parameters
    ----------
    protected : str
        What the guarantee names: ``"record"``, ``"unit"``, or a noun.
    column : str or None
        The declared unit column. Only its name is read.
    declared : str, optional
        A noun that the owner of the data declares. It wins if units are protected.

    Returns
    -------
    str
        ``"record"`` if single records are protected. Else the declared noun, the noun that the column's name
        contains, or ``"person"``.

    Examples
    --------
    >>> unit_noun("unit", "PatientID"), unit_noun("unit", "pid"), unit_noun("record", "patient_id")
    ('patient', 'person', 'record')
    """
    if protected != "unit":
        return protected
    return declared or _noun_in(column or "") or _USUAL_NOUN


def declared_noun(noun: str, unit_column: str | None) -> str:
    """Return the noun that an owner of data declares for units, in lower case. Raise if the noun would mislead."""
    words = " ".join(noun.split()).lower()
    if unit_column is None:
        raise InvalidParameterError(
            f"unit_name={noun!r} requires a unit column, because single records are protected without one; give "
            "--unit COLUMN, or leave it out.",
            parameter="unit_name",
        )
    if not re.fullmatch(r"[^\W\d_]+(?:[ -][^\W\d_]+)*", words) or len(words) > _MOST_LETTERS:
        raise InvalidParameterError(
            f"unit_name={noun!r} must be a noun in the singular, of letters and at most {_MOST_LETTERS} characters, "
            "such as patient.",
            parameter="unit_name",
        )
    return words


def _with_unit_noun(text: str, noun: str, column: str | None) -> str:
    """Return a sentence about units with their noun instead."""
    if text.startswith(_TOGETHER) and column is not None:
        entry = f"All records with the same entry in the column “{column}”"
        return f"{entry} belong to one {noun} and are protected together."
    text = re.sub(r"\b([Uu]nits?) \(or records?\)", r"\1", text)
    text = re.sub(r"\brecords? \(or (units?)\)", r"\1", text)
    if noun == _RECORD:
        text = text.replace(", each by its first record", "")
    return _UNIT_WORD.sub(lambda found: _in_place(found, noun), text)


def _in_place(found: re.Match[str], noun: str) -> str:
    article, first, many = found.groups()
    words = plural(noun) if many else with_article(noun) if article else noun
    capital = (article or first)[:1].isupper()
    return words[:1].upper() + words[1:] if capital else words


def _noun_in(column: str) -> str | None:
    """Return the noun in the name of a column, such as patient of ``PatientID``, or None."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
    parts = re.sub(r"[^a-z]+", " ", words.lower()).split()
    has_key = len(parts) > 1 and re.fullmatch(_KEYS, parts[-1]) is not None
    last = parts[-2] if has_key else parts[-1] if parts else ""
    for word in (last, last.removesuffix("s")):
        if re.fullmatch(_KNOWN_NOUNS, word):
            return word
    glued = re.fullmatch(rf"({_KNOWN_NOUNS})({_KEYS})", last)
    if glued:
        return glued[1]
    # A key names its owner: the turbine of turbine_id. Short words are abbreviations.
    return last if has_key and len(last) >= _FEWEST_LETTERS and not re.fullmatch(_NO_NOUN, last) else None
