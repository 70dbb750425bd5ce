"""What one training run leaves behind: a public part and a private part, which never mix, and reasons for caution.

A record also states what a protected unit is called: a patient if the unit column is ``patient_id``, not a unit.
Reasons for caution before relying on a student follow from what the run released anyway.

A record bounds attacks on its guarantee. For every attack, the share of right alarms (true positives) is bounded by the
share of false alarms (false positives). A guarantee of (epsilon, delta) gives
``TPR <= min(exp(epsilon) FPR + delta, 1 - exp(-epsilon) (1 - delta - FPR))``
(P. Kairouz, S. Oh and P. Viswanath, ICML 2015, Theorem 2.1, rearranged). If all releases are Gaussian sums, they obey
the exact curve ``TPR <= Phi(Phi^-1(FPR) + mu)`` (J. Dong, A. Roth and W. Su, JRSS B 2022, Definition 2.6), which is
lower.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from dpensemble import _files
from dpensemble._checks import plural, with_article
from dpensemble.cost import gaussian_mu
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.relations import Basis, Relation
from dpensemble.report.wording import BAND, number, percent

# Shares of false alarms at which attacks are bounded.
_FALSE_ALARMS = (0.001, 0.01, 0.1)
# `gaussian_mu` is rounded down. This margin is far more than the rounding can have lost.
_ROUNDING = 1 + 1e-9
_NORMAL = NormalDist()
#: A part of a record, as JSON holds it.
RecordPart = Mapping[str, Any]
_SCHEMA = 5
# Entry of the file with exact counts for the owner, which no record, page or card shows.
_FOR_OWNER = "for_owner"
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
_MORE_OF_EFFECT = frozenset({"deviations", "approximation", "rows", "output"})
# What effects move, in runs of an earlier version logits only.
_OUTPUTS = ("logit", "mean", "logarithm", "log hazard")
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
        `moments.model.column_effects`.
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
        withheld = set() if self.scores_are_public else {"most_common_label", "test_quality", "test_number"}
        if self.guarantee["relation"] == Relation.ADD_OR_REMOVE_ONE.value:
            withheld |= {"private_records", "private_units"}
        elif self.guarantee["unit"] != "record":
            withheld.add("private_records")
        if not self.labels_are_public:
            withheld |= {"answers", "public_truth", "released_labels"}
        return frozenset(withheld)

    @property
    def life_table(self) -> RecordPart | None:
        """The released curves and tests of a life table, or None for a run that made a student."""
        return self.data.get("life_table")

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
        if (times := self.life_table or self.data.get("risk")) is not None:
            usual = f"Time until {times['what']}"
        return str(self.data.get("title") or usual or "Unnamed data set")

    def in_words(self, text: str) -> str:
        """Return a sentence about units with the noun for what is protected."""
        return _with_unit_noun(text, self.unit, self.data.get("unit_column"))

    def statement(self) -> Guarantee:
        """Return the guarantee as a value, with the noun for what is protected."""
        stated = Guarantee.from_dict(self.guarantee)
        return replace(stated, unit=self.unit, assumptions=tuple(map(self.in_words, stated.assumptions)))

    @property
    def noise_in_words(self) -> str:
        """The noise of the run, and how it was chosen."""
        settings, rows = self.settings, self.data.get("public_rows", 0)
        chosen = settings["noise_chosen"]
        if noises := [each for _, each in self.described_sums]:
            least, most = (number(bound, 4) for bound in (min(noises), max(noises)))
            spread = least if least == most else f"{least} to {most}"
            return f"Gaussian, {spread} times as large as one record can change a sum ({chosen})"
        if chosen == "none":
            return "none on the votes"
        queries = min(rows, settings.get("max_labels") or rows)
        how = f"fitted to {'the ' if queries == rows else ''}{queries:,} public rows" if chosen == "fitted" else chosen
        return f"{settings['noise_in_words']} ({how})"

    @property
    def areas_in_words(self) -> str:
        """Which class the areas under curves refer to."""
        classes, positive = self.data.get("classes") or (), self.data.get("positive_class")
        if positive is None:
            return f"AUROC and AUPRC are means over {len(classes)} classes, each against the rest."
        return f"AUROC and AUPRC treat {positive!r} as positive; the student's probability is that of this class."

    @property
    def sums_in_words(self) -> str:
        """How many noisy sums were released."""
        return f"{self.n_sums:,} noisy sum{'' if self.n_sums == 1 else 's'}"

    @property
    def readable_in_words(self) -> str | None:
        """The estimated share of readable records with its 95 % interval by the noise, both within 0 and 1.

        None if the interval holds 100 %: then nothing shows that any record could not be read.
        """
        share, error = self.data.get("readable_share"), self.data.get("readable_share_error")
        if share is None or error is None:
            return None
        # Around the share within 0 and 1, the interval holds the true share at least as often.
        value = min(max(share, 0.0), 1.0)
        low, high = max(value - BAND * error, 0.0), min(value + BAND * error, 1.0)
        if high >= 1.0:
            return None
        return f"About {percent(value)} (95% interval by noise: {percent(low)} to {percent(high)})"

    @property
    def unreadable_share(self) -> float | None:
        """The estimated share of private records that added nothing, if it is large beside its error. None if not."""
        share, error = self.data.get("readable_share"), self.data.get("readable_share_error")
        if share is None or error is None or share + _DEVIATIONS * error >= _NEARLY_ALL_READABLE:
            return None
        return 1 - min(max(float(share), 0.0), 1.0)

    @property
    def accuracy_misleads(self) -> bool:
        """Whether no verdict should rest on accuracy: costs were given, or nearly all rows are of one class.

        This reads the shares of classes that were released, or that public rows show.
        """
        released = [table["rows"] for table in self.released_tables if table["title"] == _CLASS_SHARES]
        shares = [share for rows in released for _, share, _ in rows]
        score = (self.data.get("released_score") or {}).get("most_common") or {}
        shares.append(score.get("value") or 0.0)
        names = ["public_truth", "released_labels"]
        shares += [(self.data.get(name) or {}).get("most_common", 0.0) for name in names]
        if self.scores_are_public:
            shares.append(self.data.get("most_common_label") or 0.0)
        return "decision" in self.data or max(shares, default=0.0) >= _COMMON

    def remarks(self) -> list[Remark]:
        """Return reasons for caution before relying on a student, or nothing if there are none."""
        parts = (_many_unreadable, _unlike, _one_answer, _few_labels, _no_better, _public_labels_do, _small_teachers)
        return [Remark(text, public) for part in parts for text, public in part(self)]

    def attack_bounds(self) -> dict[str, Any]:
        """Return the largest advantage, and pairs of false and right alarms, as shares, rounded up."""
        epsilon, delta = float(self.guarantee["epsilon"]), float(self.guarantee["delta"])
        mu = gaussian_mu(epsilon, delta) * _ROUNDING if self.released_sums else None
        pairs = [(alarm, _most_hits(alarm, epsilon, delta, mu)) for alarm in _FALSE_ALARMS]
        return {
            "is_exact": mu is not None,
            "advantage": _up(_advantage(epsilon, delta, mu)),
            "hits": [[alarm, _up(hit)] for alarm, hit in pairs],
        }

    @property
    def attack_condition(self) -> str:
        """When limits on attacks hold if a guarantee depends on the data. Empty for a worst-case guarantee."""
        stated = self.statement()
        if stated.basis is Basis.WORST_CASE:
            return ""
        if stated.fixed_number:
            return (
                "This holds only for the private records of this run, and only while the privacy that was actually "
                "spent stays secret."
            )
        return (
            "This holds only for the private records of this run, and only for the labels, given their number. It does "
            "not cover the number of labels, and an attacker may learn more from that number."
        )

    def to_dict(self, for_owner: Mapping[str, int | None] | None = None) -> dict[str, Any]:
        """Return the record as plain values, ready for JSON. `for_owner` are exact counts that only the file has."""
        return asdict(self) | ({_FOR_OWNER: dict(for_owner)} if for_owner else {})

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Read a record from a file of JSON."""
        return cls.from_dict(_read_json(path))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunRecord:
        """Rebuild a record. Raise if the schema is wrong, or if a field is missing or unknown."""
        names = {item.name for item in fields(cls)}
        values = {name: value for name, value in values.items() if name != _FOR_OWNER}
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
    def read(cls, path: Path) -> PrivateRecord:
        """Read a record from a file of JSON."""
        return cls.from_dict(_read_json(path))

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
        and one.get("output", "logit") in _OUTPUTS
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


def _read_json(path: Path) -> dict[str, Any]:
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


# With fewer labels a student has little to learn from, and with fewer units a teacher has.
_FEW_LABELS, _FEW_UNITS, _GOOD_UNITS = 50, 25, 40
_NEARLY_ALL = 0.99
# A remark is made if the share of readable records is below this value by this many standard deviations.
_NEARLY_ALL_READABLE, _DEVIATIONS = 0.97, 3.0
_HALF = 0.5
# Title of the released table of classes' shares.
_CLASS_SHARES = "Share of each class"
# Share of the most common class from which accuracy hardly shows whether cases are found.
_COMMON = 0.9
# Usual reason why nearly all labels are undeclared.
_RANGES = ", and a number to predict needs its range (--range) in place of classes"
_TIMES = ": compare codes with the declared ones; a time must be a number, not a date"
_MORE = (
    "a larger epsilon, more private records or fewer and better columns may help, but another run costs budget again"
)
_RANKS = "the probabilities may still rank rows if {rare} rare: use 'dpensemble predict --probabilities'"


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about usefulness, and whether it may be published."""

    text: str
    is_public: bool


def _unlike(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Repeat the warning that public rows are unlike private rows, or that the test of this cannot decide.

    The warning follows from public facts and from what was released.
    """
    # Records that could not be read are unlike public rows in any case.
    if "unlike" in record.data and (record.unreadable_share or 0.0) < _HALF:
        yield record.data["unlike"], record.labels_are_public


def _many_unreadable(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Warn if a released estimate shows that many private records added nothing."""
    unreadable = record.unreadable_share
    if unreadable is not None:
        usual = _RANGES if unreadable > _HALF and "number" not in record.data else ""
        if record.life_table is not None or "risk" in record.data:
            usual = _TIMES if unreadable > _HALF else ""
        yield (
            f"about {unreadable:.1%} of the private {plural(record.unit)} could not be read and added nothing "
            f"(standard deviation of this estimate: {record.data['readable_share_error']:.1%}); 'dpensemble check' "
            f"shows their owner why{usual}.",
            record.labels_are_public,
        )


def _one_answer(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Warn if the student gives nearly all rows the same label."""
    answers = record.data.get("answers") or {}
    if not answers:
        return
    label, share = max(answers.items(), key=lambda one: one[1])
    if share < _NEARLY_ALL:
        return
    where = "every public row" if share == 1 else f"{share:.1%} of the public rows"
    carries = f"these labels carry {'no' if share == 1 else 'little'} information"
    if len(answers) > 2:
        ranks = _RANKS.format(rare="other classes are")
    else:
        ranks = f"{_RANKS.format(rare='the other class is')} or '--threshold'"
    decision = record.data.get("decision")
    advice = (
        f"Use the threshold for the costs instead: 'dpensemble predict --threshold {decision['threshold']:.4g}'."
        if decision
        else f"But {ranks}. Otherwise {_MORE}."
    )
    yield (
        f"the student answers {label!r} for {where}, so {carries}. {advice}",
        record.labels_are_public,
    )


def _few_labels(record: RunRecord) -> Iterator[tuple[str, bool]]:
    if record.released_sums or record.labels >= _FEW_LABELS:
        return
    yield (
        f"{record.labels:,} label{' is' if record.labels == 1 else 's are'} few to learn from; 'dpensemble plan' shows "
        "what buys more labels, and label-moments labels every public row.",
        record.labels_are_public,
    )


def _no_better(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Compare with always giving the most common label, on all labels that exist.

    Where accuracy misleads, there is no verdict. A remark for the owner may rest on private test rows.
    """
    if record.accuracy_misleads:
        return
    test, most = record.student, record.data.get("most_common_label")
    if test is not None and most is not None and test["accuracy"] <= most < _COMMON:
        yield _worse("on the test rows", test["accuracy"], most), record.scores_are_public
    truth = record.data.get("public_truth") or {}
    if truth and truth["student"] <= truth["most_common"]:
        text = _worse("on the public rows, whose labels are known", truth["student"], truth["most_common"])
        yield text, record.labels_are_public
    released = record.data.get("released_labels") or {}
    if released and released["student"] <= released["most_common"] < 1:
        text = _worse("as far as the released labels show", released["student"], released["most_common"])
        yield text, record.labels_are_public


def _public_labels_do(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Warn if a model of the public labels does as well."""
    alone, truth = record.data.get("public_alone") or {}, record.data.get("public_truth") or {}
    if alone and truth and alone["accuracy"] >= truth["student"]:
        yield (
            f"a model of only the {alone['rows']:,} public labels is right for {alone['accuracy']:.1%} of public rows "
            f"that it did not learn from, the student for {truth['student']:.1%}: you may not need private records.",
            record.labels_are_public,
        )


def _worse(where: str, student: float, commonest: float) -> str:
    return (
        f"{where}, the student is no better than always giving the most common label: {student:.1%} against "
        f"{commonest:.1%}; {_MORE}."
    )


def _small_teachers(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Warn if each teacher learns from few units."""
    teachers, everybody = record.settings.get("n_teachers"), record.data.get("private_units")
    if record.released_sums or not teachers or not everybody or record.settings.get("sharing") == "everyone":
        return
    units = everybody - record.data.get("held_back", 0)
    if units / teachers >= _FEW_UNITS:
        return
    better = max(2, units // _GOOD_UNITS)
    yield (
        f"{teachers:,} teachers for {units:,} {plural(record.unit)} are about {units / teachers:.0f} "
        f"{plural(record.unit)} each, which is few to learn from; --teachers {better:,} would give better, but "
        "fewer, answers.",
        "private_units" not in record.unprotected_data,
    )


def _most_hits(false_alarms: float, epsilon: float, delta: float, mu: float | None = None) -> float:
    """Return the largest share of right alarms of any attack with this share of false alarms."""
    grow = math.exp(min(epsilon, 700.0))
    bound = min(1.0, grow * false_alarms + delta, 1 - (1 - delta - false_alarms) / grow)
    return bound if mu is None else min(bound, _NORMAL.cdf(_NORMAL.inv_cdf(false_alarms) + mu))


def _advantage(epsilon: float, delta: float, mu: float | None = None) -> float:
    """Return the largest difference of right and false alarms of any attack: 0 is guessing, 1 is certainty."""
    # The difference is largest where both bounds meet.
    bound = min(1.0, math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(min(epsilon, 700.0))))
    return bound if mu is None else min(bound, 2 * _NORMAL.cdf(mu / 2) - 1)


def _up(share: float) -> float:
    """Round a share up to three decimals."""
    return math.ceil(min(share, 1.0) * 1000 - 1e-9) / 1000
