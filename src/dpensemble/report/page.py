"""The report of one run as one HTML document that loads nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dpensemble._checks import plural, round_up, with_article
from dpensemble.relations import Basis, Relation
from dpensemble.report import wording
from dpensemble.report.charts import GROUP_COLOURS, Bar, Limit, Series, Words, bar_chart, histogram, line_chart
from dpensemble.report.effects import effects_view
from dpensemble.report.groups import History, history_chart, personal_view
from dpensemble.report.quality import quality_lines, quality_view
from dpensemble.report.record import PrivateRecord, RunRecord
from dpensemble.report.summary import risk_view, summary_view
from dpensemble.report.usefulness import remarks

if TYPE_CHECKING:
    from jinja2 import Template

# Measures for which less is better. A bar would suggest the opposite.
_LESS_IS_BETTER = frozenset({"brier"})
# Settings that mean nothing without teachers or votes.
# Entries of the data that have their own place on the page.
_SHOWN_ABOVE = frozenset({"released_score", "test_quality", "decision", "title", "unlike", "unit_name"})
_OF_VOTES = frozenset({"n_teachers", "teacher", "gated"})
_OF_ONE_SUM = frozenset({"sigma", "law", "noise_in_words"})
_BASES = {
    Basis.WORST_CASE: "Worst case: every possible private data set",
    Basis.DATA_DEPENDENT: "Data-dependent: only this private data set",
}
_RELATIONS = {
    Relation.REPLACE_ONE: "Replace one: as many {units}, one of them different",
    Relation.ADD_OR_REMOVE_ONE: "Add or remove one: one {unit} more or fewer",
}
_SEEDED = "The noise came from a seed, so anybody who knows the seed can remove the noise."


def render(record: RunRecord, private: PrivateRecord | None = None) -> str:
    """Write the page of a run as self-contained HTML: for sharing, or with secret statistics and a warning."""
    view = {
        **_header(record),
        **_verdict(record),
        "summary": summary_view(record, is_private=private is not None),
        "palettes": GROUP_COLOURS,
        "personal": personal_view(record, private),
        "released": _released(record) if record.released_sums else None,
        "effects": effects_view(record),
        "known": quality_view(record, is_private=private is not None),
        "spend_chart": _spend_chart(record, private),
        "is_gated": record.gated,
        **_quality_view(record, is_private=private is not None),
        # A run without public rows has no such labels.
        "labels": _labels(record, is_private=private is not None) if record.asked or not record.released_sums else None,
        "risk": risk_view(record),
        "remarks": [one.text for one in remarks(record) if one.is_public or private is not None],
        "private": None if private is None else _private(record, private),
        "tables": _tables(record, is_private=private is not None),
    }
    return wording.legible(_template().render(view))


@lru_cache(maxsize=1)
def _template() -> Template:
    """Return the compiled page. Compiling takes longer than writing a page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  takes long to import

    environment = Environment(
        loader=PackageLoader("dpensemble", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html")


def _header(record: RunRecord) -> dict[str, Any]:
    """Return the name of the run, and the reasons why the run is an experiment, if there are any."""
    seeded = [] if record.statement().for_release else [_SEEDED]
    return {
        "data_set": record.title,
        "why": record.settings.get("chosen_because"),
        "method": f"{record.settings['title']}, {_law(record)}",
        "created": record.created,
        "date": wording.date(record.created),
        "experiment": record.experiment or seeded,
        "version": record.versions.get("dpensemble", ""),
    }


def _law(record: RunRecord) -> str:
    return wording.sums(record.n_sums) if record.released_sums else str(record.settings["law"])


def _verdict(record: RunRecord) -> dict[str, Any]:
    """Return the guarantee as figures, sentences and facts."""
    statement = record.statement()
    epsilon, delta = round_up(statement.epsilon, 4), round_up(statement.delta, 4)
    return {
        "epsilon": wording.number(epsilon, 4),
        "delta": wording.number(delta),
        "budget": {name: wording.number(value) for name, value in record.budget.items()},
        "twice": {
            "epsilon": wording.number(round_up(2 * epsilon, 4), 4),
            "delta": wording.number(round_up(2 * delta, 4)),
        },
        "factor": wording.number(round_up(math.exp(statement.epsilon), 3), 3) if statement.epsilon < 700 else None,
        "sentences": statement.sentences(),
        "basis": _BASES[statement.basis],
        "is_worst_case": statement.basis is Basis.WORST_CASE,
        "is_fixed": statement.fixed_number,
        "replaces": statement.relation is Relation.REPLACE_ONE,
        "relation": _RELATIONS[statement.relation].format(unit=statement.unit, units=plural(statement.unit)),
        "unit": statement.unit,
        "units": plural(statement.unit),
        "a_unit": with_article(statement.unit),
        "unit_column": record.data.get("unit_column"),
        "certificate": record.data.get("certificate"),
        "accounting": statement.accounting,
        "noise": wording.noise(record),
        "assumptions": statement.assumptions,
    }


def _released(record: RunRecord) -> dict[str, Any]:
    """Return what a run without votes released, and how much of the budget that used."""
    allowed = record.budget["epsilon"]
    share = 100 * record.guarantee["epsilon"] / allowed if allowed else 100.0
    return {
        "sums": wording.sums(record.n_sums),
        "is_one": record.n_sums == 1,
        "noise": record.settings["noise_in_words"],
        "described": [(record.in_words(what), wording.number(noise, 4)) for what, noise in record.described_sums],
        "tables": [
            (
                record.in_words(table["title"]),
                [(record.in_words(label), *wording.with_error(value, error)) for label, value, error in table["rows"]],
            )
            for table in record.released_tables
        ],
        "share": "all" if share > 99.9 else f"{share:.1f}%",
        "has_mean": bool(record.settings.get("compares_rows")),
        "is_synthetic": bool(record.settings.get("synthetic_rows")),
        "teachers": record.settings.get("n_teachers"),
        "answers": record.settings.get("answers"),
        "has_count": record.guarantee["relation"] == Relation.ADD_OR_REMOVE_ONE.value
        and not record.settings.get("n_teachers"),
    }


def _spend_chart(record: RunRecord, private: PrivateRecord | None) -> Markup | None:
    """Draw the whole public curve, so that its end reveals nothing about the votes."""
    axis = "queries asked" if record.gated else "labels answered"
    if record.groups:
        return history_chart(History.of_run(record, private), axis)
    curves = [Series("worst case", record.worst_case_spend, "main" if private is None or record.gated else "other")]
    if private is not None and not record.gated:
        curves.append(Series("spent", private.spend, "main"))
    if not any(curve.points for curve in curves):
        return None
    budget = record.budget["epsilon"]
    words = Words("spend", f"Privacy budget spent, by number of {axis}", axis, "epsilon")
    return line_chart(curves, [Limit(f"budget {wording.number(budget, 4)}", budget)], words)


def _quality_view(record: RunRecord, *, is_private: bool) -> dict[str, Any]:
    """Show exact scores only if the test rows are public, or if the page is the owner's version."""
    shown, score = record.scores_are_public or is_private, record.data.get("released_score")
    return {
        "quality": _quality(record) if shown else None,
        # Records of earlier versions have no curves.
        "score_lines": list(quality_lines(record)) if score and "one_against_rest" not in score else [],
    }


def _quality(record: RunRecord) -> dict[str, Any] | None:
    """Compare student and baseline, if they were evaluated."""
    models = {
        label: (values, css)
        for label, values, css in (("student", record.student, "main"), ("no privacy", record.baseline, "other"))
        if values
    }
    if not models:
        return None
    measures = list(dict.fromkeys(name for values, _ in models.values() for name in values))
    bars = {
        name: [Bar(label, _finite(values.get(name)), css) for label, (values, css) in models.items()]
        for name in measures
    }
    heads_of = {name: wording.MEASURES.get(name, wording.heading(name)) for name in measures}
    drawn = [(heads_of[name], bars[name]) for name in measures if name not in _LESS_IS_BETTER]
    heads = {"student": "Student", "no privacy": "Baseline (no privacy)"}
    return {
        "chart": bar_chart(drawn, Words("quality", " and ".join(heads[label] for label in models))),
        "heads": [heads[label] for label in models],
        "rows": [(heads_of[name], [wording.measure(bar.value) for bar in bars[name]]) for name in measures],
        "has_brier": "brier" in measures,
        "areas": _areas(record) if "auprc" in measures else None,
        "has_baseline": "no privacy" in models,
    }


def _areas(record: RunRecord) -> str:
    return wording.positive_class(record.data.get("classes") or (), record.data.get("positive_class"))


def _labels(record: RunRecord, *, is_private: bool) -> dict[str, Any]:
    """Show the number of labels and their accuracy only as exactly as the basis and the reader allow."""
    exact = record.labels_are_public or is_private
    share = record.label_accuracy
    return {
        "number": wording.number(record.labels) if exact else None,
        "asked": wording.number(record.asked) if exact and record.asked > record.labels else None,
        # A share of few labels, even a rounded share, would reveal their number.
        "accuracy": f"{100 * share:.1f}%" if share is not None and exact else None,
        "is_withheld": share is not None and not exact,
        "are_public": record.labels_are_public,
    }


def _private(record: RunRecord, private: PrivateRecord) -> dict[str, Any]:
    """Return statistics that only the owner of the private records may see."""
    budget = wording.number(record.budget["epsilon"], 4)
    times = {name: value for name, value in record.seconds.items() if name != "total"}
    stages = [(wording.heading(name), f"{value:,.1f} s") for name, value in times.items()]
    total = record.seconds.get("total", sum(times.values()))
    return {
        "rows": [
            (_spent_head(record), f"{wording.number(round_up(private.epsilon_spent, 4), 4)} of {budget}"),
            ("Public rows that got a label", wording.number(record.labels)),
            ("Constant teachers", wording.number(private.constant_teachers)),
            ("Failed teachers", wording.number(private.failed_teachers)),
        ],
        "stages": [*stages, ("All stages", f"{total:,.1f} s")] if stages else [],
        "margins": histogram(
            private.margins, Words("margins", "Histogram of vote margins", "winner's share minus runner-up's", "labels")
        ),
    }


def _spent_head(record: RunRecord) -> str:
    return "Epsilon actually spent" + (", largest of all groups" if record.groups else "")


def _tables(record: RunRecord, *, is_private: bool) -> list[tuple[str, list[tuple[str, str]]]]:
    """Write out settings, data and versions, without numbers that the guarantee does not protect."""
    versions: Mapping[str, Any] = record.versions
    withheld = frozenset() if is_private else record.unprotected_data
    shown = {k: v for k, v in record.data.items() if k not in _SHOWN_ABOVE}
    error = shown.pop("readable_share_error", None)
    if error is not None and shown.get("readable_share") is not None:
        shown["readable_share"] = wording.readable(shown["readable_share"], error)
    if shown.get("answers"):
        shown["answers"] = {label: wording.percent(share) for label, share in shown["answers"].items()}
    data = {k: "withheld: depends on private rows" if k in withheld and v is not None else v for k, v in shown.items()}
    # A law given as an object may have no short name.
    left_out = _OF_VOTES if record.released_sums and not record.settings.get("n_teachers") else frozenset()
    # The page lists the noise of each sum.
    left_out |= _OF_ONE_SUM if record.described_sums else frozenset()
    settings = {k: v for k, v in record.settings.items() if (k != "law_name" or v) and k not in left_out}
    return [
        ("Settings", [(wording.heading(k), wording.setting(k, v)) for k, v in settings.items()]),
        ("Data", [(wording.heading(k), wording.setting(k, v)) for k, v in data.items()]),
        ("Versions", [(k, str(v)) for k, v in versions.items()]),
    ]


def _finite(value: float | None) -> float:
    return math.nan if value is None else value
