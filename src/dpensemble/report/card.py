"""The model card of a run, for machines and people, and the run as an entry of OpenDP's registry of deployments.

The parts of a card are those of M. Mitchell et al. ("Model Cards for Model Reporting", FAT* 2019) that a run knows.
A card contains nothing that the shareable page does not show.

The fields of an entry are those of the registry's schema (``opendp/deployments-registry-data``,
``schemas/deployments-schema.yaml`` of 2026), which follows P. Nanayakkara, E. Ghazi and S. Vadhan (arXiv:2509.13509).
Fields that a run cannot know are ``FILL IN``. The registry refuses an entry until they are filled in.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from dpensemble._checks import plural, round_up
from dpensemble.relations import Relation
from dpensemble.report import wording
from dpensemble.report.quality import KnownArea
from dpensemble.report.record import RecordPart, RunRecord
from dpensemble.report.summary import attack_bounds
from dpensemble.report.usefulness import remarks

_FORMAT, _VERSION = "dpensemble model card", 1
_NOT_STATED = "not stated; the publisher of the model should state it"
_TASK = "tabular-classification"
# Names of measures on Hugging Face. AUPRC has none there.
_HUB_METRICS = {"accuracy": "accuracy", "auroc": "roc_auc", "brier": "brier_score"}
# Characters that Markdown would interpret.
_MARKS = re.compile(r"([\\`*_\[\]<>|#~])")
FILL_IN = "FILL IN"
_EXACT_NOISE = "Noise is drawn exactly, without floating-point arithmetic, from the generator of the operating system."
_SEEDED_NOISE = "This run is an experiment, whose noise may have come from a seed."
_RELATIONS = {
    Relation.REPLACE_ONE: "Data sets are adjacent if they have equally many {units} and differ in all records of one.",
    Relation.ADD_OR_REMOVE_ONE: "Data sets are adjacent if one has all records of one {unit} more than the other.",
}


def model_card(record: RunRecord) -> dict[str, Any]:
    """Return the model card of a run, as plain values for JSON, without what its guarantee does not protect."""
    seeded = [] if record.statement().for_release else ["The noise came from a seed, so it can be removed."]
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "model": _model(record),
        "intended_use": _NOT_STATED,
        "data": _data(record),
        "quality": _quality(record),
        "privacy": _privacy(record),
        "cautions": [one.text for one in remarks(record) if one.is_public],
        "for_release": record.statement().for_release,
        "experiment": list(dict.fromkeys([*record.experiment, *seeded])),
    }


def _model(record: RunRecord) -> dict[str, Any]:
    return {
        "title": record.title,
        "predicts": record.data.get("target"),
        "classes": [str(label) for label in record.data.get("classes") or ()],
        "method": record.settings["title"],
        "student": record.settings.get("student"),
        "created": record.created,
        "versions": dict(record.versions),
    }


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


def _quality(record: RunRecord) -> dict[str, Any]:
    """Return how good the student is, and the source of the figures. Unprotected figures are withheld."""
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
        quality["areas"] = wording.positive_class(record.data.get("classes") or (), record.data.get("positive_class"))
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
        "accounting": statement.accounting,
        "noise": wording.noise(record),
        "released": [dict(one) for one in record.releases] if record.described_sums else [],
        "assumptions": list(statement.assumptions),
        "attack": attack_bounds(record),
        "certificate": record.data.get("certificate"),
    }


def card_as_markdown(card: dict[str, Any]) -> str:
    """Write a model card as Markdown, with the front matter that Hugging Face reads."""
    model, data, quality, privacy = card["model"], card["data"], card["quality"], card["privacy"]
    attacked = privacy["attack"]
    hits = "; ".join(f"at {alarm:g} false alarms at most {hit:g} right ones" for alarm, hit in attacked["hits"])
    parts = [
        f"---\n{_without_tags(as_yaml(_front_matter(card)))}---",
        f"# Model card: {_plain(model['title'])}",
        *[f"**EXPERIMENT, NOT A RELEASE.** {_plain(reason)}" for reason in card["experiment"]],
        _table("Model", [(name, model[name]) for name in ("predicts", "classes", "method", "student", "created")]),
        f"Intended use: {_plain(card['intended_use'])}.",
        _table("How good it is", [("known from", quality["known_from"]), *_measures(quality)]),
        *([_plain(quality["areas"])] if "areas" in quality else []),
        *(["Reasons for caution:\n\n" + _list(card["cautions"])] if card["cautions"] else []),
        "## What it promises\n\n" + _plain(" ".join(privacy["in_words"])),
        _table(
            "",
            [
                ("epsilon", privacy["epsilon"]),
                ("delta", privacy["delta"]),
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
        *_released(privacy["released"]),
        _table("Data", [(name, data[name]) for name in ("private_units", "private_records", "public_rows", "columns")]),
        f"Made by dpensemble {_plain(model['versions'].get('dpensemble', ''))}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(card: RecordPart) -> dict[str, object]:
    """Return the metadata of a model on Hugging Face (``huggingface/hub-docs``, ``modelcard.md`` of 2025).

    The publisher of the model adds a licence. Figures are there if they may be published.
    """
    model, quality = card["model"], card["quality"]
    tags = [_TASK, "differential-privacy", "dpensemble", *(["experiment"] if card["experiment"] else [])]
    front: dict[str, object] = {"library_name": "dpensemble", "pipeline_tag": _TASK, "tags": tags}
    metrics = [
        {"type": _HUB_METRICS[name], "name": wording.MEASURES[name], "value": round(value, 4)}
        for name, value in quality["measures"].items()
        if name in _HUB_METRICS and math.isfinite(value)
    ]
    if metrics:
        data = {"type": "private", "name": quality["known_from"]}
        result = {"task": {"type": _TASK}, "dataset": data, "metrics": metrics}
        front["model-index"] = [{"name": model["title"], "results": [result]}]
    return front


def _without_tags(yaml: str) -> str:
    """Escape angle brackets, for programs that show front matter as part of the page."""
    return yaml.replace("<", "\\u003c").replace(">", "\\u003e")


def _released(releases: list[dict[str, Any]]) -> list[str]:
    """Write a table of the released sums and one of each statistic, or nothing if labels were released."""
    if not releases:
        return []
    noises = [(one["description"], wording.number(one["noise"], 4)) for one in releases]
    parts = [_table("Released sums, and their noise in sensitivities", noises)]
    for table in [one["table"] for one in releases if one["table"] is not None]:
        values = [(label, " ± ".join(wording.with_error(value, error))) for label, value, error in table["rows"]]
        parts.append(_table(table["title"], values, heading=str))
    return parts


def _measures(quality: dict[str, Any]) -> list[tuple[str, Any]]:
    between = quality.get("intervals", {})
    rows = []
    always = "always_the_most_common_label"
    commonest = {always: quality[always]} if quality.get(always) is not None else {}
    for name, value in (quality["measures"] | commonest).items():
        low, high = between.get(name, (None, None))
        interval = "" if low is None else f" (95% interval {wording.measure(low)} to {wording.measure(high)})"
        rows.append((wording.MEASURES.get(name, name), f"{wording.measure(value)}{interval}"))
    for name, (low, high) in between.items():
        if name not in quality["measures"] and name != always:
            interval = f"95% interval {wording.measure(low)} to {wording.measure(high)}"
            rows.append((wording.MEASURES.get(name, name), f"{interval}, for any order within the released bins"))
    if spread := quality.get("auroc_if_spread_as_public_rows"):
        rows.append(("AUROC if spread within bins as on public rows", wording.measure(spread)))
    return rows


def _unit(data: dict[str, Any]) -> str:
    column = data["unit_column"]
    return f"one {data['unit']}" + (f" (column {column})" if column else "")


def _table(title: str, rows: Sequence[tuple[str, object]], heading: Callable[[str], str] = wording.heading) -> str:
    lines = []
    for name, value in rows:
        shown = "withheld" if value is None else wording.setting(name, value)
        lines.append(f"| {_plain(heading(name))} | {_plain(shown)} |")
    head = f"## {title}\n\n" if title else ""
    return head + "\n".join(["| | |", "|---|---|", *lines])


def _list(texts: list[str]) -> str:
    return "\n".join(f"- {_plain(text)}" for text in texts)


def _plain(text: object) -> str:
    """Escape a text so that no part of it is read as Markdown or HTML."""
    return _MARKS.sub(r"\\\1", " ".join(str(text).split()))


def registry_entry(record: RunRecord) -> dict[str, Any]:
    """Return the entry of a run in the registry's schema. Its publisher fills in what the run does not know."""
    card = model_card(record)
    title, predicts = card["model"]["title"], card["model"]["predicts"]
    experiment = f"EXPERIMENT, NOT A RELEASE: {' '.join(card['experiment'])} " if card["experiment"] else ""
    what = f"Classifier that predicts {predicts}" if predicts else "Classifier"
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "model",
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [
                    {
                        "data_curator_name": f"{FILL_IN}: who publishes the model",
                        "data_curator_type": f"{FILL_IN}: Government, Industry or Nonprofit",
                    }
                ],
                "description": f"{experiment}{what}, trained on private records and published with a guarantee.",
                "intended_use": f"{FILL_IN}: what the model is for",
                "data_product_type": "Machine learning model",
                "data_product_region": f"{FILL_IN}: where the people live, or whose law applies",
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
                "release_type_details": f"{FILL_IN}: whether the same records will be used again",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": _implementation(record, card),
            "administrative": {
                "status": "Draft",
                "registry_authors": [f"{FILL_IN}: who writes this entry"],
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
        "privacy_unit_details": _RELATIONS[record.statement().relation].format(unit=unit, units=plural(unit)),
    }
    if card["data"]["private_units"] is not None:
        entry["number_of_privacy_units"] = int(card["data"]["private_units"])
    return entry | {
        "privacy_parameters": {"epsilon": privacy["epsilon"], "delta": round_up(record.guarantee["delta"], 4)},
        "privacy_parameters_details": " ".join(privacy["in_words"]) + groups,
    }


def _implementation(record: RunRecord, card: dict[str, Any]) -> dict[str, Any]:
    privacy, quality = card["privacy"], card["quality"]
    measures = [f"{name} {wording.measure(value)}" for name, value in quality["measures"].items()]
    measures += [
        f"{name} between {wording.measure(low)} and {wording.measure(high)} (95% interval)"
        for name, (low, high) in quality.get("intervals", {}).items()
        if name not in quality["measures"] and name != "always_the_most_common_label"
    ]
    measure_words = ", ".join(measures)
    return {
        "preprocessing_and_hyperparameter_tuning": "Encoding and settings come from public rows and declared facts "
        f"only. {FILL_IN}: whether the private records were looked at in any other way",
        "mechanisms": f"{card['model']['method']}: {privacy['noise']}; by dpensemble "
        f"{record.versions.get('dpensemble', '')}. {_SEEDED_NOISE if card['experiment'] else _EXACT_NOISE}",
        "composition": privacy["accounting"],
        "post_processing": "The model is fitted to what was released and to public rows.",
        "utility": f"Known from {card['quality']['known_from']}{': ' if measure_words else ''}{measure_words}.",
        "justification": record.settings.get("chosen_because") or f"{FILL_IN}: why this method and this budget",
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
