"""Model cards and registry entries hold what may be shared, in forms that programs read."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dpensemble.report.page import as_yaml, card_as_markdown, model_card, registry_entry

_spec = importlib.util.spec_from_file_location("page_helpers", Path(__file__).with_name("test_page.py"))
page_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_helpers)
HOSTILE, WORST, DEPENDENT = page_helpers.HOSTILE, page_helpers.WORST, page_helpers.DEPENDENT

SECRET = {**WORST.data, "private_units": 4711, "test_is_public": False, "answers": {"a": 1.0}}
WITHHELD = replace(
    WORST, data=SECRET, guarantee={**WORST.guarantee, "relation": "add-or-remove-one"}, student={"accuracy": 0.8765}
)
SCORE = {"units": 200, "sigma": 3.0, "accuracy": 0.81, "accuracy_low": 0.7, "accuracy_high": 0.9, "auroc": None}


def test_a_card_says_what_the_page_says():
    card = json.loads(json.dumps(model_card(WORST)))
    assert (card["format"], card["version"]) == ("dpensemble model card", 1)
    assert card["model"]["classes"] == ["<=50K", ">50K"]
    assert (card["privacy"]["epsilon"], card["privacy"]["delta"]) == (1.0, 1e-5)
    assert card["quality"]["known_from"] == "public test rows"
    assert card["quality"]["measures"]["auroc"] == 0.8712
    assert card["privacy"]["attack"]["advantage"] == 0.463
    assert card["experiment"] == []
    assert "4747" not in json.dumps(card)


def test_a_released_score_comes_with_its_interval():
    card = model_card(replace(WITHHELD, data={**SECRET, "released_score": SCORE}))
    assert card["quality"]["measures"] == {"accuracy": 0.81}
    assert card["quality"]["intervals"] == {"accuracy": [0.7, 0.9]}
    assert "| Accuracy | 0.810 (95% interval 0.700 to 0.900) |" in card_as_markdown(card)


def front_matter(record):
    yaml = pytest.importorskip("yaml")
    before, matter, _ = card_as_markdown(model_card(record)).split("---\n", 2)
    assert before == ""
    return yaml.safe_load(matter)


def test_hugging_face_reads_the_metadata():
    matter = front_matter(replace(WORST, data=WORST.data | {"title": 'Who: <ill>? --- "x"', "name": "n"}))
    assert matter["library_name"] == "dpensemble"
    assert matter["pipeline_tag"] == "tabular-classification"
    (model,) = matter["model-index"]
    assert model["name"] == 'Who: <ill>? --- "x"'
    (result,) = model["results"]
    assert set(result) == {"task", "dataset", "metrics"}
    assert {one["type"]: one["value"] for one in result["metrics"]}["roc_auc"] == 0.8712


def test_metadata_holds_only_figures_that_may_be_published():
    assert "model-index" not in front_matter(WITHHELD)
    released = front_matter(replace(WITHHELD, data={**SECRET, "released_score": SCORE}))
    assert released["model-index"][0]["results"][0]["metrics"] == [
        {"type": "accuracy", "name": "Accuracy", "value": 0.81}
    ]
    assert "experiment" in front_matter(replace(WORST, experiment=["A baseline."]))["tags"]


def test_the_card_has_the_most_common_class_beside_the_score():
    common = {"value": 0.75, "low": 0.7, "high": 0.8, "class": "no"}
    record = replace(WITHHELD, data={**SECRET, "released_score": SCORE | {"most_common": common}})
    row = "| Always the most common label | 0.750 (95% interval 0.700 to 0.800) |"
    assert row in card_as_markdown(model_card(record))


@pytest.mark.parametrize("record", [WITHHELD, replace(DEPENDENT, data=SECRET)])
def test_what_the_guarantee_does_not_protect_is_left_out(record):
    entry, card = registry_entry(record), model_card(record)
    for text in (json.dumps(card), card_as_markdown(card), as_yaml(entry)):
        assert "0.8765" not in text
        assert "7351" not in text
        assert "0.827" not in text
    assert card["quality"]["known_from"].startswith("withheld")
    if record is WITHHELD:
        assert "number_of_privacy_units" not in entry["deployment"]["privacy_loss"]
        assert card["data"]["private_units"] is None
    else:
        assert not any("carry no information" in text for text in card["cautions"])


def test_an_experiment_says_so_first():
    seeded = replace(WORST, guarantee={**WORST.guarantee, "for_release": False}, experiment=["A baseline."])
    assert "**EXPERIMENT, NOT A RELEASE.** A baseline." in card_as_markdown(model_card(seeded)).split("\n\n")[2]
    description = registry_entry(seeded)["deployment"]["basic"]["description"]
    assert description.startswith("EXPERIMENT, NOT A RELEASE: A baseline. The noise came from a seed")


def test_names_cannot_smuggle_in_markup():
    record = replace(WORST, data={**WORST.data, "title": HOSTILE + " | a\nb", "target": "`x` [y](z)"})
    text = card_as_markdown(model_card(record))
    assert "<script" not in text.replace("\\<", "")
    title = next(line for line in text.splitlines() if line.startswith("# Model card"))
    assert r"\| a b" in title
    assert r"\`x\` \[y\](z)" in text


def test_an_entry_has_the_fields_of_the_registry_and_is_yaml():
    yaml = pytest.importorskip("yaml")
    entry = registry_entry(replace(WORST, data={**SECRET, "title": 'A "name": with - all'}))
    assert yaml.safe_load(as_yaml(entry)) == entry
    deployment = entry["deployment"]
    assert entry["url_slug"] == "a-name-with-all"
    assert list(deployment) == [
        "basic", "dp_variant", "privacy_loss", "deployment_model", "implementation", "administrative",
    ]  # fmt: skip
    required = {
        "name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
        "publication_date",
    }  # fmt: skip
    assert set(deployment["basic"]) == required
    assert deployment["basic"]["publication_date"] == "2026-03-05"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    assert deployment["privacy_loss"]["number_of_privacy_units"] == 4711
    assert set(deployment["administrative"]) == {"status", "registry_authors", "tier"}


@pytest.mark.parametrize("value", [1e-5, 1.0, 0.1234567, 1e300, 3, "a: b # c", "né\n\t\"'", True, None])
def test_scalars_are_read_back_as_they_were(value):
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(as_yaml({"x": {"y": [value, value], "z": value}})) == {"x": {"y": [value] * 2, "z": value}}
