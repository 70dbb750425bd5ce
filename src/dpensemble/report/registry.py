"""A run as an entry of OpenDP's registry of deployments of differential privacy.

The fields are those of the registry's schema (``opendp/deployments-registry-data``, ``schemas/deployments-schema.yaml``
of 2026), which follows P. Nanayakkara, E. Ghazi and S. Vadhan (arXiv:2509.13509). Fields that a run cannot know are
``FILL IN``. The registry refuses an entry until they are filled in.
"""

from __future__ import annotations

import re
from typing import Any

from dpensemble._nouns import plural
from dpensemble._rounding import round_up
from dpensemble.relations import Relation
from dpensemble.report import wording
from dpensemble.report.card import model_card
from dpensemble.report.record import RunRecord

FILL_IN = "FILL IN"
_DRAWN = "Noise is drawn exactly, without floating-point arithmetic, from the generator of the operating system."
_SEEDED = "This run is an experiment, whose noise may have come from a seed."
_RELATIONS = {
    Relation.REPLACE_ONE: "Data sets are adjacent if they have equally many {units} and differ in all records of one.",
    Relation.ADD_OR_REMOVE_ONE: "Data sets are adjacent if one has all records of one {unit} more than the other.",
}


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
        f"{record.versions.get('dpensemble', '')}. {_SEEDED if card['experiment'] else _DRAWN}",
        "composition": privacy["accounting"],
        "post_processing": "The model is fitted to what was released and to public rows.",
        "utility": f"Known from {card['quality']['known_from']}{': ' if measure_words else ''}{measure_words}.",
        "justification": record.settings.get("chosen_because") or f"{FILL_IN}: why this method and this budget",
    }
