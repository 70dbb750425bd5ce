"""Remarks on how useful a run is, computed from what the run released anyway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpensemble._checks import plural
from dpensemble.report.record import RunRecord

# With fewer labels a student has little to learn from, and with fewer units a teacher has.
_FEW_LABELS, _FEW_UNITS, _GOOD_UNITS = 50, 25, 40
_NEARLY_ALL = 0.99
# A remark is made if the share of readable records is below this value by this many standard deviations.
_NEARLY_ALL_READABLE, _DEVIATIONS = 0.97, 3.0
_HALF = 0.5
# Usual reason why nearly all labels are undeclared.
_RANGES = ", and a number to predict has to be cut into ranges first, because there are only classes"
_MORE = (
    "a larger epsilon, more private records or fewer and better columns may help, but another run costs budget again"
)
_RANKS = "the probabilities may still rank rows if {rare} rare: use 'dpensemble predict --probabilities'"


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about usefulness, and whether it may be published."""

    text: str
    is_public: bool


def remarks(record: RunRecord) -> list[Remark]:
    """Return reasons for caution before relying on a student, or nothing if there are none."""
    parts = (_unlike, _many_unreadable, _one_answer, _few_labels, _no_better, _public_labels_do, _small_teachers)
    return [Remark(text, public) for part in parts for text, public in part(record)]


def _unlike(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Repeat the warning that public rows are unlike private rows, or that the test of this cannot decide.

    The warning follows from public facts and from what was released.
    """
    if "unlike" in record.data:
        yield record.data["unlike"], record.labels_are_public


def _many_unreadable(record: RunRecord) -> Iterator[tuple[str, bool]]:
    """Warn if a released estimate shows that many private records added nothing."""
    share, error = record.data.get("readable_share"), record.data.get("readable_share_error")
    if share is not None and error is not None and share + _DEVIATIONS * error < _NEARLY_ALL_READABLE:
        yield (
            f"about {1 - share:.1%} of the private records could not be read and added nothing (standard deviation "
            f"of this estimate: {error:.1%}); 'dpensemble check' shows their owner why"
            f"{_RANGES if share < _HALF else ''}.",
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
    """Compare with always giving the most common label, on all labels that exist."""
    test, most = record.student, record.data.get("most_common_label")
    if test is not None and most is not None and test["accuracy"] <= most:
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
