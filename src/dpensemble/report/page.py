"""The documents of a run: the page as one HTML file that loads nothing, the model card, and an entry of a registry.

The parts of a card are those of M. Mitchell et al. ("Model Cards for Model Reporting", FAT* 2019) that a run knows.
A card contains nothing that the shareable page does not show.

The fields of an entry are those of OpenDP's registry of deployments (``opendp/deployments-registry-data``,
``schemas/deployments-schema.yaml`` of 2026), which follows P. Nanayakkara, E. Ghazi and S. Vadhan (arXiv:2509.13509).
Fields that a run cannot know are ``FILL IN``. The registry refuses an entry until they are filled in.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dpensemble._checks import plural, round_up, with_article
from dpensemble.relations import Basis, Relation
from dpensemble.report.charts import GROUP_COLOURS, Bar, Limit, Series, Words, bar_chart, histogram, line_chart
from dpensemble.report.life_table import RISK, card_quality_of_risk, life_table_card, life_table_view, risk_section
from dpensemble.report.numbers import NUMBER, OF_PUBLIC_ROWS, OF_TEST_ROWS, card_quality_of_number, number_section
from dpensemble.report.quality import KnownArea, quality_lines, quality_sections
from dpensemble.report.record import PrivateRecord, RecordPart, RunRecord
from dpensemble.report.sections import History, sections_of_some_runs
from dpensemble.report.wording import legible, number, percent, with_error

if TYPE_CHECKING:
    from jinja2 import Template

_MEASURES = {
    "accuracy": "Accuracy",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier score",
    "mae": "Mean absolute error of the median",
    "r2": "R2 of the mean",
    "area_of_binned_curve": "Area of a curve over bins, not the AUROC of the student",
}


# Measures for which less is better. A bar would suggest the opposite.
_LESS_IS_BETTER = frozenset({"brier"})
# Settings that mean nothing without teachers or votes.
# Entries of the data that have their own place on the page.
_SHOWN_ABOVE = frozenset({"life_table", "released_score", "test_quality", "decision", "title", "unlike", "unit_name"})
_SHOWN_ABOVE |= {NUMBER, OF_TEST_ROWS, OF_PUBLIC_ROWS, RISK}
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
        "palettes": GROUP_COLOURS,
        "life": life_table_view(record),
        "released": _released(record) if record.released_sums else None,
        **sections_of_some_runs(record, private),
        **quality_sections(record, is_private=private is not None),
        "spend_chart": _spend_chart(record, private),
        "number": number_section(record, is_private=private is not None),
        "risks": risk_section(record),
        "is_gated": record.gated,
        **_quality_view(record, is_private=private is not None),
        # A run without public rows has no such labels.
        "labels": _labels(record, is_private=private is not None) if record.asked or not record.released_sums else None,
        "remarks": [one.text for one in record.remarks() if one.is_public or private is not None],
        "private": None if private is None else _private(record, private),
        "tables": _tables(record, is_private=private is not None),
    }
    return legible(_template("template.html" if record.life_table is None else "life_table.html").render(view))


@lru_cache(maxsize=2)
def _template(name: str) -> Template:
    """Return the compiled page. Compiling takes longer than writing a page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  takes long to import

    environment = Environment(
        loader=PackageLoader("dpensemble", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _header(record: RunRecord) -> dict[str, Any]:
    """Return the name of the run, and the reasons why the run is an experiment, if there are any."""
    seeded = [] if record.statement().for_release else [_SEEDED]
    return {
        "data_set": record.title,
        "why": record.settings.get("chosen_because"),
        "method": f"{record.settings['title']}, {_law(record)}",
        "created": record.created,
        "date": date(record.created),
        "experiment": record.experiment or seeded,
        "version": record.versions.get("dpensemble", ""),
    }


def _law(record: RunRecord) -> str:
    return record.sums_in_words if record.released_sums else str(record.settings["law"])


def _verdict(record: RunRecord) -> dict[str, Any]:
    """Return the guarantee as figures, sentences and facts."""
    statement = record.statement()
    epsilon, delta = round_up(statement.epsilon, 4), round_up(statement.delta, 4)
    return {
        "epsilon": number(epsilon, 4),
        "delta": number(delta),
        "budget": {name: number(value) for name, value in record.budget.items()},
        "twice": {
            "epsilon": number(round_up(2 * epsilon, 4), 4),
            "delta": number(round_up(2 * delta, 4)),
        },
        "factor": number(round_up(math.exp(statement.epsilon), 3), 3) if statement.epsilon < 700 else None,
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
        "delta_rule": statement.delta_rule,
        "accounting": statement.accounting,
        "noise": record.noise_in_words,
        "assumptions": statement.assumptions,
    }


def _released(record: RunRecord) -> dict[str, Any]:
    """Return what a run without votes released, and how much of the budget that used."""
    allowed = record.budget["epsilon"]
    share = 100 * record.guarantee["epsilon"] / allowed if allowed else 100.0
    return {
        "sums": record.sums_in_words,
        "is_one": record.n_sums == 1,
        "noise": record.settings["noise_in_words"],
        "described": [(record.in_words(what), number(noise, 4)) for what, noise in record.described_sums],
        "tables": [
            (
                record.in_words(table["title"]),
                [(record.in_words(label), *with_error(value, error)) for label, value, error in table["rows"]],
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
        return History.of_run(record, private).chart(axis)
    curves = [Series("worst case", record.worst_case_spend, "main" if private is None or record.gated else "other")]
    if private is not None and not record.gated:
        curves.append(Series("spent", private.spend, "main"))
    if not any(curve.points for curve in curves):
        return None
    budget = record.budget["epsilon"]
    words = Words("spend", f"Privacy budget spent, by number of {axis}", axis, "epsilon")
    return line_chart(curves, [Limit(f"budget {number(budget, 4)}", budget)], words)


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
    bars = {name: [Bar(label, values.get(name), css) for label, (values, css) in models.items()] for name in measures}
    heads_of = {name: _MEASURES.get(name, _heading(name)) for name in measures}
    drawn = [(heads_of[name], bars[name]) for name in measures if name not in _LESS_IS_BETTER]
    heads = {"student": "Student", "no privacy": "Baseline (no privacy)"}
    return {
        "chart": bar_chart(drawn, Words("quality", " and ".join(heads[label] for label in models))),
        "heads": [heads[label] for label in models],
        "rows": [(heads_of[name], [_measure(bar.value) for bar in bars[name]]) for name in measures],
        "has_brier": "brier" in measures,
        "areas": record.areas_in_words if "auprc" in measures else None,
        "has_baseline": "no privacy" in models,
    }


def _labels(record: RunRecord, *, is_private: bool) -> dict[str, Any]:
    """Show the number of labels and their accuracy only as exactly as the basis and the reader allow."""
    exact = record.labels_are_public or is_private
    share = record.label_accuracy
    return {
        "number": number(record.labels) if exact else None,
        "asked": number(record.asked) if exact and record.asked > record.labels else None,
        # A share of few labels, even a rounded share, would reveal their number.
        "accuracy": f"{100 * share:.1f}%" if share is not None and exact else None,
        "is_withheld": share is not None and not exact,
        "are_public": record.labels_are_public,
    }


def _private(record: RunRecord, private: PrivateRecord) -> dict[str, Any]:
    """Return statistics that only the owner of the private records may see."""
    budget = number(record.budget["epsilon"], 4)
    times = {name: value for name, value in record.seconds.items() if name != "total"}
    stages = [(_heading(name), f"{value:,.1f} s") for name, value in times.items()]
    total = record.seconds.get("total", sum(times.values()))
    return {
        "rows": [
            (_spent_head(record), f"{number(round_up(private.epsilon_spent, 4), 4)} of {budget}"),
            ("Public rows that got a label", number(record.labels)),
            ("Constant teachers", number(private.constant_teachers)),
            ("Failed teachers", number(private.failed_teachers)),
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
        shown["readable_share"] = record.readable_in_words
    if shown.get("answers"):
        shown["answers"] = {label: percent(share) for label, share in shown["answers"].items()}
    data = {k: "withheld: depends on private rows" if k in withheld and v is not None else v for k, v in shown.items()}
    # A law given as an object may have no short name.
    left_out = _OF_VOTES if record.released_sums and not record.settings.get("n_teachers") else frozenset()
    # The page lists the noise of each sum.
    left_out |= _OF_ONE_SUM if record.described_sums else frozenset()
    settings = {k: v for k, v in record.settings.items() if (k != "law_name" or v) and k not in left_out}
    return [
        ("Settings", [(_heading(k), _setting(k, v)) for k, v in settings.items()]),
        ("Data", [(_heading(k), _setting(k, v)) for k, v in data.items()]),
        ("Versions", [(k, str(v)) for k, v in versions.items()]),
    ]


# The general rule would mislead for these names.
_HEADINGS = {
    "compares_rows": "One more sum, to compare public rows by",
    "looks_for_rare": "One more sum, to see whether a class is rare",
    "found_rare": "One class is rare, so few directions were taken",
    "public_rows_unlike": "Public rows differ from private ones",
    "readable_share": "Share of private records that could be read, as a released sum shows",
    "answers": "Share of each label among the public rows",
}
_FORMAT, _VERSION = "dpensemble model card", 1
_NOT_STATED = "not stated; the publisher of the model should state it"
_TASK, _TASK_OF_NUMBER = "tabular-classification", "tabular-regression"
# Entries that state what is predicted in place of classes.
_HAS_NO_CLASSES = {"range", "bins"}
# Names of measures on Hugging Face. AUPRC has none there.
_HUB_METRICS = {"accuracy": "accuracy", "auroc": "roc_auc", "brier": "brier_score", "mae": "mae", "r2": "r_squared"}
# Characters that Markdown would interpret.
_MARKS = re.compile(r"([\\`*_\[\]<>|#~])")
_FILL_IN = "FILL IN"
_OF_MODEL = ("predicts", "classes", "range", "bins", "method", "student", "created")
_EXACT_NOISE = "Noise is drawn exactly, without floating-point arithmetic, from the generator of the operating system."
_SEEDED_NOISE = "This run is an experiment, whose noise may have come from a seed."
_ADJACENT = {
    Relation.REPLACE_ONE: "Data sets are adjacent if they have equally many {units} and differ in all records of one.",
    Relation.ADD_OR_REMOVE_ONE: "Data sets are adjacent if one has all records of one {unit} more than the other.",
}


def _measure(value: float | None) -> str:
    """Write an accuracy or an area with three decimals."""
    return "not available" if value is None or not math.isfinite(value) else f"{value:.3f}"


def _setting(name: str, value: object) -> str:
    """Write one setting or fact of any type. A seed has no commas."""
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "yes", False: "no"}[value]
    if isinstance(value, int) and "seed" in name:
        return str(value)
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_setting(str(key), item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_setting(name, item) for item in value)
    return str(value)


def _heading(name: str) -> str:
    """Turn the name of a field into words. A name that begins with ``n_`` is a number of things."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    words = re.sub(r"^n_", "number_of_", name).replace("_", " ")
    return words[:1].upper() + words[1:]


def date(created: str) -> str:
    """Write an ISO 8601 date and time in words. A text that is not a date stays unchanged."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def model_card(record: RunRecord) -> dict[str, Any]:
    """Return the model card of a run, as plain values for JSON, without what its guarantee does not protect."""
    seeded = [] if record.statement().for_release else ["The noise came from a seed, so it can be removed."]
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "model": _model(record),
        "intended_use": _NOT_STATED,
        "data": _data(record),
        "quality": _card_quality(record),
        "privacy": _privacy(record),
        "cautions": [one.text for one in record.remarks() if one.is_public],
        **({} if record.life_table is None else {"life_table": life_table_card(record)}),
        "for_release": record.statement().for_release,
        "experiment": list(dict.fromkeys([*record.experiment, *seeded])),
    }


def _model(record: RunRecord) -> dict[str, Any]:
    return {
        "title": record.title,
        "predicts": f"the risk that {times['what']}" if (times := record.data.get(RISK)) else record.data.get("target"),
        "classes": [str(label) for label in record.data.get("classes") or ()],
        "method": record.settings["title"],
        "student": record.settings.get("student"),
        "created": record.created,
        "versions": dict(record.versions),
    } | _range(record)


def _range(record: RunRecord) -> dict[str, list[float]]:
    """Return the declared range of a number, or bins of times, as an entry of its own, or nothing for classes."""
    facts, times = record.data.get(NUMBER), record.data.get(RISK)
    if times is not None:
        return {"bins": list(times["bins"])}
    return {} if facts is None else {"range": [facts["low"], facts["high"]]}


def _data(record: RunRecord) -> dict[str, Any]:
    facts = {name: value for name, value in record.data.items() if name not in record.unprotected_data}
    return {
        "unit": record.unit,
        "unit_column": facts.get("unit_column"),
        "private_units": facts.get("private_units"),
        "private_records": facts.get("private_records"),
        "public_rows": facts.get("public_rows"),
        "columns": facts.get("kinds_of_columns"),
        "blanks": facts.get("blanks"),
    }


def _card_quality(record: RunRecord) -> dict[str, Any]:
    """Return how good the student is, and the source of the figures. Unprotected figures are withheld."""
    if NUMBER in record.data:
        return card_quality_of_number(record)
    if RISK in record.data:
        return dict(card_quality_of_risk(record))
    score = record.data.get("released_score")
    quality: dict[str, Any] = {"known_from": "nothing: there were no test rows", "measures": {}}
    if score:
        quality["known_from"] = f"{score['units']:,} held-back private {plural(record.unit)}, with noise"
        quality["measures"] = {} if score["accuracy"] is None else {"accuracy": score["accuracy"]}
        quality["intervals"] = {name: [score[f"{name}_low"], score[f"{name}_high"]] for name in quality["measures"]}
        area = KnownArea.of(score)
        if area is not None:
            # Bins determine an interval and no value. Earlier versions stated the area of a curve over the bins.
            name = "auroc" if area.is_of_student else "area_of_binned_curve"
            quality["intervals"][name] = [area.low, area.high]
            quality["measures"] |= {} if area.value is None else {name: area.value}
            if area.spread is not None:
                quality["auroc_if_spread_as_public_rows"] = area.spread
        if common := score.get("most_common"):
            quality["always_the_most_common_label"] = common["value"]
            quality["intervals"]["always_the_most_common_label"] = [common["low"], common["high"]]
    elif record.student is not None and record.scores_are_public:
        quality |= {"known_from": "public test rows", "measures": dict(record.student)}
        quality["always_the_most_common_label"] = record.data.get("most_common_label")
        quality["areas"] = record.areas_in_words
    elif record.student is not None:
        quality["known_from"] = "withheld: the test rows were not declared public"
    return quality


def _privacy(record: RunRecord) -> dict[str, Any]:
    statement = record.statement()
    return {
        "epsilon": round_up(statement.epsilon, 4),
        "delta": round_up(statement.delta, 4),
        "basis": statement.basis.value,
        "relation": statement.relation.value,
        "groups": [{"name": group.name, "epsilon": round_up(group.epsilon, 4)} for group in statement.groups],
        "in_words": statement.sentences(),
        "delta_rule": statement.delta_rule,
        "accounting": statement.accounting,
        "noise": record.noise_in_words,
        "released": [dict(one) for one in record.releases] if record.described_sums else [],
        "assumptions": list(statement.assumptions),
        "attack": record.attack_bounds(),
        "certificate": record.data.get("certificate"),
    }


def card_texts(record: RunRecord) -> tuple[str, str]:
    """Return the model card of a run as the text of a JSON file, and as Markdown."""
    card = model_card(record)
    return json.dumps(card, indent=2) + "\n", card_as_markdown(card)


def card_as_markdown(card: dict[str, Any]) -> str:
    """Write a model card as Markdown, with the front matter that Hugging Face reads."""
    model, data, quality, privacy = card["model"], card["data"], card["quality"], card["privacy"]
    attacked, life_table = privacy["attack"], card.get("life_table")
    hits = "; ".join(f"at {alarm:g} false alarms at most {hit:g} right ones" for alarm, hit in attacked["hits"])
    parts = [
        f"---\n{_without_tags(as_yaml(_front_matter(card)))}---",
        f"# {'Model card' if life_table is None else 'Card of a life table'}: {_plain(model['title'])}",
        *[f"**EXPERIMENT, NOT A RELEASE.** {_plain(reason)}" for reason in card["experiment"]],
        *(
            []
            if life_table is not None
            else [_table("Model", [(name, model[name]) for name in _OF_MODEL if name in model])]
        ),
        f"Intended use: {_plain(card['intended_use'])}.",
        _table("How good it is", [("known from", quality["known_from"]), *_measures(quality)])
        if life_table is None
        else f"## What it shows\n\n{_list(life_table['in_words'])}\n\n"
        f"It must not be used for:\n\n{_list(life_table['not_for'])}",
        *([_plain(quality["areas"])] if "areas" in quality else []),
        *(["Reasons for caution:\n\n" + _list(card["cautions"])] if card["cautions"] else []),
        "## What it promises\n\n" + _plain(" ".join(privacy["in_words"])),
        _table(
            "",
            [
                ("epsilon", privacy["epsilon"]),
                ("delta", privacy["delta"]),
                *([] if privacy["delta_rule"] is None else [("where delta is from", privacy["delta_rule"])]),
                ("unit protected", _unit(data)),
                ("basis", privacy["basis"]),
                ("neighbouring data sets", privacy["relation"]),
                ("accounting", privacy["accounting"]),
                ("noise", privacy["noise"]),
                ("certificate", privacy["certificate"] or "none"),
                ("advantage of any attacker over guessing", f"at most {attacked['advantage']:g}; {hits}"),
            ],
        ),
        *(["The guarantee assumes:\n\n" + _list(privacy["assumptions"])] if privacy["assumptions"] else []),
        *_released_in_markdown(privacy["released"]),
        _table("Data", [(name, data[name]) for name in ("private_units", "private_records", "public_rows", "columns")]),
        f"Made by dpensemble {_plain(model['versions'].get('dpensemble', ''))}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(card: RecordPart) -> dict[str, object]:
    """Return the metadata of a model on Hugging Face (``huggingface/hub-docs``, ``modelcard.md`` of 2025).

    The publisher of the model adds a licence. Figures are there if they may be published.
    """
    model, quality = card["model"], card["quality"]
    usual = _TASK_OF_NUMBER if _HAS_NO_CLASSES & model.keys() else _TASK
    task = {} if "life_table" in card else {"pipeline_tag": usual}
    tags = [*task.values(), "differential-privacy", "dpensemble", *(["experiment"] if card["experiment"] else [])]
    front: dict[str, object] = {"library_name": "dpensemble", **task, "tags": tags}
    metrics = [
        {"type": _HUB_METRICS[name], "name": _MEASURES[name], "value": round(value, 4)}
        for name, value in quality["measures"].items()
        if name in _HUB_METRICS and math.isfinite(value)
    ]
    if metrics:
        data = {"type": "private", "name": quality["known_from"]}
        result = {"task": {"type": task}, "dataset": data, "metrics": metrics}
        front["model-index"] = [{"name": model["title"], "results": [result]}]
    return front


def _without_tags(yaml: str) -> str:
    """Escape angle brackets, for programs that show front matter as part of the page."""
    return yaml.replace("<", "\\u003c").replace(">", "\\u003e")


def _released_in_markdown(releases: list[dict[str, Any]]) -> list[str]:
    """Write a table of the released sums and one of each statistic, or nothing if labels were released."""
    if not releases:
        return []
    noises = [(one["description"], number(one["noise"], 4)) for one in releases]
    parts = [_table("Released sums, and their noise in sensitivities", noises)]
    for table in [one["table"] for one in releases if one["table"] is not None]:
        values = [(label, " ± ".join(with_error(value, error))) for label, value, error in table["rows"]]
        parts.append(_table(table["title"], values, heading=str))
    return parts


def _measures(quality: dict[str, Any]) -> list[tuple[str, Any]]:
    between = quality.get("intervals", {})
    rows = []
    always = "always_the_most_common_label"
    commonest = {always: quality[always]} if quality.get(always) is not None else {}
    for name, value in (quality["measures"] | commonest).items():
        low, high = between.get(name, (None, None))
        interval = "" if low is None else f" (95% interval {_measure(low)} to {_measure(high)})"
        rows.append((_MEASURES.get(name, name), f"{_measure(value)}{interval}"))
    for name, (low, high) in between.items():
        if name not in quality["measures"] and name != always:
            interval = f"95% interval {_measure(low)} to {_measure(high)}"
            rows.append((_MEASURES.get(name, name), f"{interval}, for any order within the released bins"))
    if spread := quality.get("auroc_if_spread_as_public_rows"):
        rows.append(("AUROC if spread within bins as on public rows", _measure(spread)))
    return rows


def _unit(data: dict[str, Any]) -> str:
    column = data["unit_column"]
    return f"one {data['unit']}" + (f" (column {column})" if column else "")


def _table(title: str, rows: Sequence[tuple[str, object]], heading: Callable[[str], str] = _heading) -> str:
    lines = []
    for name, value in rows:
        shown = "withheld" if value is None else _setting(name, value)
        lines.append(f"| {_plain(heading(name))} | {_plain(shown)} |")
    head = f"## {title}\n\n" if title else ""
    return head + "\n".join(["| | |", "|---|---|", *lines])


def _list(texts: list[str]) -> str:
    return "\n".join(f"- {_plain(text)}" for text in texts)


def _plain(text: object) -> str:
    """Escape a text so that no part of it is read as Markdown or HTML."""
    return _MARKS.sub(r"\\\1", " ".join(str(text).split()))


def registry_text(record: RunRecord) -> tuple[str, str]:
    """Return the entry of a run in the registry as YAML, and the mark of what its publisher has to fill in."""
    return as_yaml(registry_entry(record)), _FILL_IN


def registry_entry(record: RunRecord) -> dict[str, Any]:
    """Return the entry of a run in the registry's schema. Its publisher fills in what the run does not know."""
    card = model_card(record)
    title, predicts = card["model"]["title"], card["model"]["predicts"]
    is_table = record.life_table is not None
    experiment = f"EXPERIMENT, NOT A RELEASE: {' '.join(card['experiment'])} " if card["experiment"] else ""
    kind = "Model" if _HAS_NO_CLASSES & card["model"].keys() else "Classifier"
    what = f"{kind} that predicts {predicts}, trained" if predicts else f"{kind}, trained"
    what = "Life table, computed" if is_table else what
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "model",
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [
                    {
                        "data_curator_name": f"{_FILL_IN}: who publishes the model",
                        "data_curator_type": f"{_FILL_IN}: Government, Industry or Nonprofit",
                    }
                ],
                "description": f"{experiment}{what} on private records and published with a guarantee.",
                "intended_use": f"{_FILL_IN}: what the model is for",
                "data_product_type": "Statistics" if is_table else "Machine learning model",
                "data_product_region": f"{_FILL_IN}: where the people live, or whose law applies",
                "publication_date": record.created[:10],
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if record.guarantee["delta"] else "Pure DP",
                "data_domain": f"Tables with the columns {card['data']['columns'] or 'that the model reads'}.",
                "unprotected_quantities": _unprotected(card),
            },
            "privacy_loss": _privacy_loss(record, card),
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": " ".join(card["privacy"]["assumptions"]) or "The curator holds the records.",
                "release_type": "One release",
                "release_type_details": f"{_FILL_IN}: whether the same records will be used again",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": _implementation(record, card),
            "administrative": {
                "status": "Draft",
                "registry_authors": [f"{_FILL_IN}: who writes this entry"],
                "tier": 3,
            },
        },
    }


def _unprotected(card: dict[str, Any]) -> str:
    units = card["data"]["private_units"]
    counted = "" if units is None else f" The number of {plural(card['data']['unit'])} is public."
    return f"Names, ranges and categories of columns and the possible labels are public.{counted}"


def _privacy_loss(record: RunRecord, card: dict[str, Any]) -> dict[str, Any]:
    unit, privacy = record.unit, card["privacy"]
    groups = "".join(f" Group {one['name']}: epsilon {one['epsilon']:g}." for one in privacy["groups"])
    entry: dict[str, Any] = {
        "privacy_unit": f"{unit} (all records with the same {card['data']['unit_column']})"
        if card["data"]["unit_column"]
        else unit,
        "privacy_unit_details": _ADJACENT[record.statement().relation].format(unit=unit, units=plural(unit)),
    }
    if card["data"]["private_units"] is not None:
        entry["number_of_privacy_units"] = int(card["data"]["private_units"])
    return entry | {
        "privacy_parameters": {"epsilon": privacy["epsilon"], "delta": round_up(record.guarantee["delta"], 4)},
        "privacy_parameters_details": " ".join(privacy["in_words"]) + groups,
    }


def _implementation(record: RunRecord, card: dict[str, Any]) -> dict[str, Any]:
    privacy, quality = card["privacy"], card["quality"]
    measures = [f"{name} {_measure(value)}" for name, value in quality["measures"].items()]
    measures += [
        f"{name} between {_measure(low)} and {_measure(high)} (95% interval)"
        for name, (low, high) in quality.get("intervals", {}).items()
        if name not in quality["measures"] and name != "always_the_most_common_label"
    ]
    measure_words = ", ".join(measures)
    return {
        "preprocessing_and_hyperparameter_tuning": "Encoding and settings come from public rows and declared facts "
        f"only. {_FILL_IN}: whether the private records were looked at in any other way",
        "mechanisms": f"{card['model']['method']}: {privacy['noise']}; by dpensemble "
        f"{record.versions.get('dpensemble', '')}. {_SEEDED_NOISE if card['experiment'] else _EXACT_NOISE}",
        "composition": privacy["accounting"],
        "post_processing": "Curves, bands and tests are computed from what was released."
        if record.life_table is not None
        else "The model is fitted to what was released and to public rows.",
        "utility": f"Known from {card['quality']['known_from']}{': ' if measure_words else ''}{measure_words}.",
        "justification": record.settings.get("chosen_because") or f"{_FILL_IN}: why this method and this budget",
    }


def as_yaml(value: Any, depth: int = 0) -> str:
    """Write mappings, lists, texts and numbers as YAML. Texts are in double quotes, as in JSON."""
    pad = "  " * depth
    if isinstance(value, dict):
        return "".join(f"{pad}{name}:{_yaml_below(one, depth)}" for name, one in value.items())
    lines = []
    for one in value:
        body = as_yaml(one, depth + 1) if isinstance(one, dict) else f"{pad}  {_yaml_scalar(one)}\n"
        lines.append(f"{pad}- {body[len(pad) + 2 :]}")
    return "".join(lines)


def _yaml_below(value: object, depth: int) -> str:
    if isinstance(value, dict | list):
        return "\n" + as_yaml(value, depth + 1)
    return f" {_yaml_scalar(value)}\n"


def _yaml_scalar(value: object) -> str:
    if isinstance(value, float):
        digits, power, exponent = f"{value:.10g}".partition("e")
        # Most readers of YAML take a number with an exponent but no point for a text.
        return f"{digits}{'' if '.' in digits else '.0'}{power}{exponent}"
    return json.dumps(value, ensure_ascii=False)
