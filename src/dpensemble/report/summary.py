"""The first screen of a page, in lay words: what was trained on whom, the promise, the quality and the limits.

The promise is a guarantee in an attacker's terms: how much better than guessing an attacker can distinguish
neighbouring data sets. The attacker knows all records but one unit's, has two candidates for that unit, and raises an
alarm for one of them. Under add-or-remove-one, the question is instead whether the unit is there at all: exchanging it
would be two changes.

For every attack, the share of right alarms (true positives) is bounded by the share of false alarms (false positives).
A guarantee of (epsilon, delta) gives ``TPR <= min(exp(epsilon) FPR + delta, 1 - exp(-epsilon) (1 - delta - FPR))``
(P. Kairouz, S. Oh and P. Viswanath, ICML 2015, Theorem 2.1, rearranged). If all releases are Gaussian sums, they obey
the exact curve ``TPR <= Phi(Phi^-1(FPR) + mu)`` (J. Dong, A. Roth and W. Su, JRSS B 2022, Definition 2.6), which is
lower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from markupsafe import Markup

from dpensemble._checks import plural
from dpensemble.cost import gaussian_mu
from dpensemble.relations import Basis, Relation
from dpensemble.report import wording
from dpensemble.report.charts import Interval, Words, interval_chart
from dpensemble.report.quality import KnownArea
from dpensemble.report.record import RecordPart, RunRecord

_BAND = 1.959964
# Above this share of right guesses a promise hardly protects anybody.
_WEAK = 0.9
# With more classes the first screen does not name them.
_MOST_CLASSES = 6
_FALSE_ALARMS = (0.001, 0.01, 0.1)
# `gaussian_mu` is rounded down. This margin is far more than the rounding can have lost.
_ROUNDING = 1 + 1e-9
_NORMAL = NormalDist()


@dataclass(frozen=True)
class _Quality:
    """How often a student is right, beside always giving the most common class. Missing values are None."""

    rows: Sequence[Interval]
    source: str
    verdict: str
    #: The area under the ROC curve of the student as a share of pairs. Empty without an area.
    order: str

    @property
    def has_intervals(self) -> bool:
        """Whether some row has an interval."""
        return any(row.low is not None and row.high is not None for row in self.rows)

    @property
    def chart(self) -> Markup:
        """The rows as a drawing."""
        return interval_chart(self.rows, Words("right", "Share of right answers"))


def summary_view(record: RunRecord, *, is_private: bool) -> dict[str, object]:
    """Return the texts of the first screen. Without `is_private` they contain only what may be published."""
    quality = _quality(record, is_private=is_private)
    return {
        "trained": _trained(record),
        "promise": _promise(record),
        "quality": quality,
        "measure": None if quality else _how_to_measure(record),
        "not_for": _not_for(record, quality),
    }


def _trained(record: RunRecord) -> list[str]:
    data, withheld = record.data, record.unprotected_data
    classes = [str(label) for label in data.get("classes") or ()]
    what = f"“{data['target']}”" if data.get("target") else "a class"
    among = f" ({wording.either(classes)})" if 0 < len(classes) <= _MOST_CLASSES else ""
    columns = data.get("columns")
    by = f" from {wording.counted(columns, 'column')}" if columns else ""
    sentences = [f"A model that predicts {what}{among}{by}."]
    units, held = data.get("private_units"), data.get("held_back", 0)
    if units is None or "private_units" in withheld:
        sentences.append(f"It learned from private {plural(record.unit)}, whose number is not published.")
    else:
        sentences.append(f"It learned from {wording.counted(units - held, f'private {record.unit}')}.")
    if held:
        sentences.append(f"Another {held:,} were held back to measure how good it is.")
    if data.get("public_rows"):
        sentences.append(f"{wording.counted(data['public_rows'], 'public row')} helped, without their labels.")
    return sentences


def _promise(record: RunRecord) -> list[str]:
    """Return the guarantee as the share of right guesses of the best attacker, who otherwise tosses a coin."""
    stated, unit = record.statement(), record.unit
    many = plural(unit)
    # With two equally likely candidates, a guess is right with probability (1 + advantage) / 2 at most.
    right = math.ceil(50 * (1 + attack_bounds(record)["advantage"]) - 1e-9)
    own = "it" if unit == "record" else f"the records of one {unit}"
    if stated.relation is Relation.REPLACE_ONE:
        first = f"If any one {unit} had been different, what is published would have come out almost as likely."
        guess = f"who knows all other {many} and has two candidates for {own if unit != 'record' else 'the last one'}"
    else:
        first = f"Without any one {unit}, what is published would have come out almost as likely."
        guess = f"who knows all other {many} and asks whether {own} {'is' if unit == 'record' else 'are'} in the data"
        guess = guess.replace("whether it is", "whether one more record is")
    sentences = [first, f"Somebody {guess} guesses right at most {right} times in 100. A coin is right 50 times."]
    if right >= 100 * _WEAK:
        sentences.append("That is hardly any protection.")
    if stated.groups:
        sentences.append("This is the bound for the group with the largest budget. The other groups have more.")
    if stated.basis is Basis.DATA_DEPENDENT:
        sentences.append(_condition(record))
    if unit == "record":
        sentences.append("Somebody with several records is protected less.")
    return sentences


def _quality(record: RunRecord, *, is_private: bool) -> _Quality | None:
    """Return the released quality, or the quality on public test rows, or None."""
    score = record.data.get("released_score")
    if score:
        source = (
            f"Measured on {wording.counted(score['units'], f'private {record.unit}')} that the model did not learn "
            "from, with random noise. The promise covers these figures."
        )
        order = _order(KnownArea.of(score), record)
        answer = _only_answer(record, is_private=is_private)
        return _compared(_interval(score, "accuracy"), score.get("most_common"), source, order, answer)
    if record.student is None or not (record.scores_are_public or is_private):
        return None
    rows = record.data.get("test_rows") or 0
    exact = record.data.get("test_quality")
    student = _interval(exact, "accuracy") if exact else _wilson(record.student.get("accuracy"), rows)
    common = exact.get("most_common") if exact else record.data.get("most_common_label")
    if not isinstance(common, Mapping):
        common = None if common is None else _wilson(common, rows)
    covered = "public test rows" if record.scores_are_public else "test rows, for you only"
    source = f"Measured on {f'{rows:,} ' if rows else ''}{covered}, without noise."
    area = KnownArea.of(exact) if exact else None
    return _compared(student, common, source, _order(area, record), _only_answer(record, is_private=is_private))


def _order(area: KnownArea | None, record: RunRecord) -> str:
    """Return the area under the ROC curve as a share of pairs (J. Hanley and B. McNeil, Radiology 1982)."""
    case = (record.data.get("decision") or {}).get("positive_class") or record.data.get("positive_class")
    if area is None or case is None:
        return ""
    if not area.is_of_student:
        return f"An earlier version measured this: {area.name}, {area.numbers}. The AUROC may lie outside."
    # Rounded outwards, so that the interval stays one.
    low, high = math.floor(100 * area.low + 1e-9), math.ceil(100 * area.high - 1e-9)
    pair = f"Of one {record.unit} that is “{wording.shorten(str(case), 24)}” and one that is not"
    if area.value is not None:
        times = f"{round(100 * area.value)} times in 100 (95% interval: {low} to {high})"
        return f"{pair}, it gives the first the higher probability {times}. A coin does so 50 times."
    spread = ""
    if area.spread is not None:
        times = f"{round(100 * area.spread)} times"
        spread = f" These are {times} if probabilities are spread within the bins as on public rows."
    return (
        f"{pair}, it gives the first the higher probability between {low} and {high} times in 100 (95% interval, for "
        f"any order within the {area.n_bins or 'released'} bins).{spread} A coin does so 50 times."
    )


def _only_answer(record: RunRecord, *, is_private: bool) -> str | None:
    """Return the label that the student gives to all public rows, or None. The labels must be public."""
    answers = record.data.get("answers") or {}
    if not (record.labels_are_public or is_private):
        return None
    return next((str(label) for label, share in answers.items() if share == 1), None)


def _compared(student: RecordPart, common: RecordPart | None, source: str, order: str, answer: str | None) -> _Quality:
    """Compare the student, which may give all public rows one answer, with always giving the most common class."""
    rows = [Interval("this model", student["value"], student["low"], student["high"], "main")]
    verdict = ""
    if common is not None:
        name = common.get("class")
        label = f"always “{wording.shorten(str(name), 24)}”" if name is not None else "always the most common class"
        rows.append(Interval(label, common["value"], common["low"], common["high"], "other"))
        verdict = _verdict(student, common)
        if answer is not None and answer == str(name):
            # Both figures are of nearly the same labels, so a difference between them is chance and noise.
            shown = wording.shorten(answer, 24)
            verdict = f"It gives every public row the label “{shown}”. So both bars measure nearly the same labels."
    return _Quality(rows, source, verdict, order)


def _verdict(student: RecordPart, common: RecordPart) -> str:
    if student["value"] is None or common["value"] is None:
        return "Noise hides how the model compares with always giving the most common class."
    if student["value"] <= common["value"]:
        return "Its labels are not better than always giving the most common class."
    known = None not in (student["low"], common["high"])
    if known and student["low"] > common["high"]:
        return "Its labels are better than always giving the most common class."
    return "Its labels seem better than always giving the most common class, but the difference may be chance."


def _interval(score: RecordPart, name: str) -> dict[str, object]:
    return {"value": score[name], "low": score[f"{name}_low"], "high": score[f"{name}_high"]}


def _wilson(share: float | None, rows: int) -> dict[str, object]:
    """Return a share with its interval by the number of rows (E. B. Wilson, JASA 1927)."""
    if share is None or not math.isfinite(share) or not rows:
        return {"value": share, "low": None, "high": None}
    grown = 1 + _BAND**2 / rows
    middle = (share + _BAND**2 / (2 * rows)) / grown
    half = _BAND / grown * math.sqrt(share * (1 - share) / rows + _BAND**2 / (4 * rows**2))
    return {"value": share, "low": max(0.0, middle - half), "high": min(1.0, middle + half)}


def _how_to_measure(record: RunRecord) -> list[str]:
    """Explain how to get a figure that may be published."""
    many, withheld = plural(record.unit), record.student is not None
    first = (
        "Measured on test rows that were not declared public, so the figures are not on this page."
        if withheld
        else "Nobody measured this."
    )
    possible = record.statement().relation is Relation.REPLACE_ONE and record.labels_are_public
    held = (
        f"A run with --holdout-score 0.2 holds a fifth of the {many} back, and releases a noisy score on them within "
        "the same guarantee."
    )
    public = "Public test rows (--test FILE --test-is-public) need no noise."
    again = "A further run on the same records adds to the loss of privacy, so decide before the first one."
    return [first, *([held] if possible and not record.groups else []), public, again]


def _not_for(record: RunRecord, quality: _Quality | None) -> list[str]:
    value = quality.rows[0].value if quality else None
    wrong = "It makes mistakes."
    if value is not None and math.isfinite(value):
        wrong = f"It is wrong about {round(100 * (1 - value))} times in 100.{_wrong_at_threshold(record)}"
    by_group = (record.data.get("released_score") or {}).get("groups")
    fair = "The figures by group below do not prove it." if by_group else "Nobody measured that."
    return [
        f"Decisions about a person without somebody who checks them. {wrong}",
        "Statements about causes. The model shows only what goes together.",
        f"People, places or times unlike those of the private {plural(record.unit)}.",
        f"A claim that groups of people are treated alike. {fair}",
    ]


def _wrong_at_threshold(record: RunRecord) -> str:
    """Return how often labels by the threshold for the costs are wrong, which is usually more often."""
    decision = record.data.get("decision") or {}
    for row in decision.get("per_1000") or ():
        mistakes = (row["missed"]["value"], row["false_alarms"]["value"])
        if row["threshold"] == decision["threshold"] and None not in mistakes:
            return f" With the threshold {row['threshold']:.2g} it is wrong about {round(sum(mistakes) / 10)} times."
    return ""


def attack_bounds(record: RunRecord) -> dict[str, Any]:
    """Return the largest advantage, and pairs of false and right alarms, as shares, rounded up."""
    epsilon, delta = float(record.guarantee["epsilon"]), float(record.guarantee["delta"])
    mu = gaussian_mu(epsilon, delta) * _ROUNDING if record.released_sums else None
    pairs = [(alarm, _most_hits(alarm, epsilon, delta, mu)) for alarm in _FALSE_ALARMS]
    return {
        "is_exact": mu is not None,
        "advantage": _up(_advantage(epsilon, delta, mu)),
        "hits": [[alarm, _up(hit)] for alarm, hit in pairs],
    }


def risk_view(record: RunRecord) -> dict[str, Any]:
    """Return the advantage over guessing, and hits at some false-alarm rates, rounded up, in per cent."""
    bounds = attack_bounds(record)
    return {
        "is_exact": bounds["is_exact"],
        "advantage": _percent(bounds["advantage"]),
        "condition": _condition(record),
        "rows": [(f"{100 * alarm:g}%", _percent(hit)) for alarm, hit in bounds["hits"]],
    }


def _condition(record: RunRecord) -> str:
    """Return when limits on attacks hold if a guarantee depends on the data. Empty for a worst-case guarantee."""
    stated = record.statement()
    if stated.basis is Basis.WORST_CASE:
        return ""
    if stated.fixed_number:
        return (
            "This holds only for the private records of this run, and only while the privacy that was actually spent "
            "stays secret."
        )
    return (
        "This holds only for the private records of this run, and only for the labels, given their number. It does not "
        "cover the number of labels, and an attacker may learn more from that number."
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


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
