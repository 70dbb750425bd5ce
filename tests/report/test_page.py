"""The shareable page holds nothing private, and every page is one well-formed file that loads nothing.

Model cards and registry entries hold what may be shared, in forms that programs read.
"""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from dpensemble.report.page import (
    _heading,
    _measure,
    _setting,
    as_yaml,
    card_as_markdown,
    date,
    model_card,
    registry_entry,
    render,
)
from dpensemble.report.record import PrivateRecord, RunRecord

EXPERIMENT = "EXPERIMENT, NOT A RELEASE"
BANNER = "SECRET: contains statistics of the teachers' votes. Do not share."
HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=y>"
VOID = {"meta", "link", "br", "img", "hr", "input"}

GUARANTEE = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "basis": "worst-case",
    "relation": "replace-one",
    "unit": "record",
    "accounting": "moments accountant",
    "assumptions": ["The teachers stay secret."],
    "for_release": True,
}
# The fields of every record about how it was made.
SHOWN = {"title": "DPBag", "law": "Laplace noisy-max", "gated": False, "n_teachers": 250}
SHOWN |= {"noise_chosen": "usual", "noise_in_words": "Laplace noisy-max, scale 5.2 votes"}
WORST = RunRecord(
    method="dpbag",
    guarantee=GUARANTEE,
    budget={"epsilon": 1.0, "delta": 1e-5},
    labels=7351,
    asked=7351,
    label_accuracy=0.82719,
    student={"accuracy": 0.8241, "auroc": 0.8712, "auprc": 0.6923},
    baseline={"accuracy": 0.8527, "auroc": 0.9048, "auprc": 0.7681},
    worst_case_spend=[[n, 0.02 * n**0.5] for n in range(10, 9001, 10)],
    data={
        "name": "Adult",
        "private_rows": 16281,
        "features": 108,
        "classes": ["<=50K", ">50K"],
        "test_is_public": True,
        "most_common_label": 0.76123,
    },
    settings=SHOWN | {"partitions": 10, "seed": 123456},
    versions={"dpensemble": "0.1.0", "numpy": "2.1.1"},
    seconds={"fit_teachers": 4747.4},
    created="2026-03-05T14:05:09+00:00",
)
DEPENDENT = replace(WORST, guarantee={**GUARANTEE, "basis": "data-dependent", "fixed_number": False})
OWN = PrivateRecord(
    epsilon_spent=0.98989,
    spend=[[1, 0.1], [7351, 0.98989]],
    margins=[0.1, 0.5, 0.97],
    constant_teachers=6767,
    failed_teachers=8383,
)


class Balanced(HTMLParser):
    """Reads a page, checks that tags nest, and collects text and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.attributes, self.tags = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in {"style", "title", "desc"}:
            self.text.append(data)


def read(page):
    reader = Balanced()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def words(page):
    return " ".join(" ".join(read(page).text).split())


PAGES = {
    "worst case": (WORST, None),
    "worst case, private": (WORST, OWN),
    "data-dependent": (DEPENDENT, None),
    "data-dependent, private": (DEPENDENT, OWN),
    "experiment": (replace(WORST, experiment=["A seed."]), None),
    "bare": (
        replace(WORST, student=None, baseline=None, label_accuracy=None, worst_case_spend=[], settings=SHOWN,
                data={}, versions={}, seconds={}, created=""),
        None,
    ),
    "empty, private": (
        replace(DEPENDENT, seconds={}, worst_case_spend=[]),
        replace(OWN, spend=[], margins=[], epsilon_spent=0.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_one_well_formed_file_that_loads_nothing(name):
    page = render(*PAGES[name])
    reader = read(page)
    assert page.startswith("<!doctype html>")
    assert not {tag for tag, _ in reader.tags} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
    }
    names = {name for name, _ in reader.attributes}
    assert not names & {"src", "href", "srcset", "data", "action", "xlink:href"}
    assert not any(name.startswith("on") for name in names)
    assert not re.search(r"url\(|@import|https?://", page)
    idents = [value for name, value in reader.attributes if name == "id"]
    assert len(idents) == len(set(idents))
    assert all("scope" in attrs for tag, attrs in reader.tags if tag == "th")
    assert ("html", {"lang": "en"}) in reader.tags
    assert any(attrs.get("name") == "viewport" for tag, attrs in reader.tags if tag == "meta")


@pytest.mark.parametrize("secret", ["7351", "7,351", "0.9899", "0.98989", "6767", "6,767", "8383", "8,383",
                                    "4747", "4,747", "82.7", "0.827"])  # fmt: skip
def test_shareable_page_of_a_data_dependent_run_holds_nothing_private(secret):
    assert secret not in render(DEPENDENT)
    assert "withheld: depends on secret votes" in words(render(DEPENDENT))


@pytest.mark.parametrize("labels", [0, 1, 10, 9000])
def test_shareable_page_is_the_same_whatever_the_votes(labels):
    other = replace(DEPENDENT, labels=labels, seconds={"other": 1.0}, label_accuracy=0.8349)
    assert render(other) == render(DEPENDENT)


def test_owner_page_of_a_data_dependent_run_holds_the_private_part():
    text = words(render(DEPENDENT, OWN))
    for shown in ("7,351 (secret)", "0.9899 of 1", "6,767", "8,383", "4,747.4 s", "82.7%"):
        assert shown in text
    assert "withheld: depends" not in text


def test_worst_case_page_shows_labels_but_no_times():
    page = render(WORST)
    assert "7,351" in words(page)
    assert "82.7%" in words(page)
    assert "4,747" not in page


@pytest.mark.parametrize("record", [WORST, DEPENDENT])
@pytest.mark.parametrize("private", [None, OWN])
@pytest.mark.parametrize("experiment", [[], ["The seed is known.", "A second reason."]])
def test_banners_appear_exactly_when_due(record, private, experiment):
    page = render(replace(record, experiment=experiment), private)
    assert (BANNER in words(page)) == (private is not None)
    assert (EXPERIMENT in words(page)) == bool(experiment)
    assert ("SECRET" in page) == (private is not None)
    assert ("EXPERIMENT" in page) == bool(experiment)
    assert all(reason in words(page) for reason in experiment)


def test_seeded_release_is_an_experiment_even_without_a_reason():
    assert EXPERIMENT in words(render(replace(WORST, guarantee={**GUARANTEE, "for_release": False})))


@pytest.mark.parametrize("record", [WORST, DEPENDENT])
def test_verdict_says_the_guarantee(record):
    text = words(render(record))
    statement = record.statement()
    for sentence in (*statement.sentences(), *statement.assumptions, statement.accounting):
        assert sentence in text
    assert "ε = 1 " in text
    assert "δ = 1e-05 " in text
    assert "as many records" in text


@pytest.mark.parametrize("private", [None, OWN])
def test_hostile_strings_are_escaped(private):
    hostile = replace(
        WORST,
        method=HOSTILE,
        guarantee={**GUARANTEE, "unit": HOSTILE, "accounting": HOSTILE, "assumptions": [HOSTILE]},
        student={HOSTILE: 0.5},
        data={"name": HOSTILE, "classes": [HOSTILE], HOSTILE: HOSTILE},
        settings=SHOWN | {"title": HOSTILE, "law": HOSTILE, HOSTILE: {HOSTILE: [HOSTILE]}},
        versions={HOSTILE: HOSTILE, "dpensemble": HOSTILE},
        seconds={HOSTILE: 1.0},
        experiment=[HOSTILE],
        created=HOSTILE,
    )
    page = render(hostile, private)
    assert "<script" not in page
    assert "<img" not in page
    read(page)


def test_baseline_is_marked_and_left_out_where_there_is_none():
    assert "Baseline (no privacy)" in words(render(WORST))
    assert "0.853 no privacy" in words(render(WORST))
    alone = words(render(replace(WORST, baseline=None)))
    assert "0.824 student" in alone
    assert "no privacy" not in alone
    assert "aseline" not in alone


def test_test_rows_are_explained():
    with_rows = words(render(WORST))
    assert "The guarantee does not cover them unless the test rows are public" in with_rows
    without = words(render(replace(WORST, student=None, baseline=None)))
    assert "Nobody measured this." in without
    assert "A run with --holdout-score 0.2 holds a fifth of the records back" in without
    assert "test rows are public" not in without


def test_measures_that_are_missing_or_not_a_number():
    page = render(replace(WORST, student={"accuracy": 0.5, "auroc": float("nan")}))
    assert words(page).count("not available") >= 3
    assert "nan" not in words(page)


def test_curve_is_drawn_whole_and_private_spend_only_for_the_owner():
    shared, own = render(DEPENDENT), render(DEPENDENT, OWN)
    assert "9,000 labels answered" in shared
    assert "an analysis of the same release law that does not use the data" in words(shared)
    assert "an analysis of the same release law that does not use the data" not in words(render(WORST))
    assert shared.count('<path class="line') == 1
    assert own.count('<path class="line') == 2


def test_other_methods_relations_and_units():
    saa = replace(
        WORST,
        method="saa",
        settings=SHOWN | {"title": "Subsample-and-aggregate"},
        guarantee={**GUARANTEE, "relation": "add-or-remove-one", "unit": "unit", "epsilon": 800},
    )
    text = words(render(saa))
    assert "Subsample-and-aggregate" in text
    assert "one person more or fewer" in text
    assert "several records" not in text
    assert words(render(replace(saa, settings=SHOWN | {"title": "new"}))).count("new, Laplace noisy-max") >= 1


DATA = {"name": "Adult", "private_records": 98761, "private_units": 54321, "public_rows": 300}


@pytest.mark.parametrize(
    ("change", "shown", "withheld"),
    [
        ({}, {"98,761", "54,321"}, set()),
        ({"unit": "unit"}, {"54,321"}, {"98,761"}),
        ({"relation": "add-or-remove-one"}, set(), {"98,761", "54,321"}),
    ],
)
def test_numbers_in_which_neighbours_differ_stay_inside(change, shown, withheld):
    record = replace(WORST, guarantee=GUARANTEE | change, data=DATA)
    page = render(record)
    assert all(number in page for number in shown)
    assert not any(number in page or number.replace(",", "") in page for number in withheld)
    assert all(number in render(record, OWN) for number in shown | withheld)


def test_scores_on_test_rows_that_are_not_public_stay_inside():
    record = replace(WORST, data=WORST.data | {"test_is_public": False}, baseline=None)
    page = render(record)
    assert "Measured on test rows that were not declared public, so the figures are not on this page." in page
    assert "Public test rows (--test FILE --test-is-public) need no noise." in page
    for figure in ("0.824", "0.871", "0.692", "76.1%", "0.76123"):
        assert figure not in page
        assert figure in render(record, OWN) or figure == "0.76123"
    assert "0.824" not in render(replace(record, experiment=["A baseline was trained."]))
    without = replace(record, student=None, data=record.data | {"most_common_label": None})
    assert "withheld" not in words(render(without))


def test_a_data_dependent_page_says_so_on_top():
    assert "DATA-DEPENDENT: you may share this page, but not the student or the labels." in render(DEPENDENT)
    assert "DATA-DEPENDENT" not in render(WORST)
    assert "Each released label would have come out almost as likely" in words(render(DEPENDENT))


def test_shares_are_written_in_per_cent():
    data = WORST.data | {"readable_share": 0.98, "readable_share_error": 0.01, "answers": {"no": 0.975, "yes": 0.025}}
    text = render(replace(WORST, data=data))
    assert "About 98.0% (95% interval by noise: 96.0% to 100.0%)" in text
    assert "no: 97.5%, yes: 2.5%" in text
    assert "Readable share error" not in text


def test_the_unit_column_is_named():
    record = replace(WORST, guarantee=GUARANTEE | {"unit": "unit"}, data=WORST.data | {"unit_column": "patient_id"})
    text = words(render(record))
    assert "One patient (column “patient_id”: all records with the same entry, together)" in text
    assert "Replacing any one patient by any other" in text
    assert "It learned from private patients" in text
    assert not re.search(r"\bunits?\b", text.replace("unit column", "").replace("Unit column", ""))


def test_a_law_without_a_short_name_has_no_row_for_one():
    named = replace(WORST, settings=WORST.settings | {"law_name": "lnmax", "n_classes": 2})
    assert "Law name lnmax Number of classes 2" in words(render(named))
    assert "Law name" not in words(render(replace(named, settings=named.settings | {"law_name": ""})))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "Laplace noisy-max, scale 5.2 votes (usual)"),
        ({"noise_chosen": "given"}, "scale 5.2 votes (given)"),
        ({"noise_chosen": "fitted"}, "(fitted to the 10 public rows)"),
        ({"noise_chosen": "fitted", "max_labels": 20}, "(fitted to the 10 public rows)"),
        ({"noise_chosen": "fitted", "max_labels": 4}, "(fitted to 4 public rows)"),
        ({"noise_chosen": "none"}, "none on the votes"),
    ],
)
def test_the_page_says_which_noise_was_used_and_how_it_was_chosen(settings, said):
    record = replace(WORST, settings=WORST.settings | settings, data=WORST.data | {"public_rows": 10})
    assert said in words(render(record))


def test_a_released_score_without_an_area_has_a_page():
    """Three and more classes have none, nor have two of which noise hides one."""
    score = dict.fromkeys(("auroc", "auroc_low", "auroc_high"))
    score |= {"units": 500, "accuracy": 0.8123, "accuracy_low": 0.77, "accuracy_high": 0.85, "sigma": 6.46}
    page = render(replace(WORST, data=WORST.data | {"released_score": score}))
    assert "Quality on 500 held-back records" in page
    assert "81.2% (77.0% to 85.0%)" in page
    assert "AUROC unknown" not in page


def test_the_page_says_first_what_is_predicted_and_how_good_that_is():
    score = {
        "units": 500, "accuracy": 0.8123, "accuracy_low": 0.77, "accuracy_high": 0.85, "auroc": 0.9, "auroc_low": 0.85,
        "auroc_high": 0.95, "epsilon": 1.0, "delta": 1e-5, "sigma": 6.46,
    }  # fmt: skip
    told = {"title": "Who will be <ill>", "target": "sick", "released_score": score, "answers": {"no": 1.0, "yes": 0.0}}
    record = replace(WORST, data=WORST.data | told, settings=WORST.settings | {"chosen_because": "It is best."})
    page = render(record)
    assert "<h1>Who will be &lt;ill&gt;</h1>" in page
    places = [
        page.index(text)
        for text in (
            "predicts “sick” (",
            "ε = ",
            "81.2%",
            "must not be used",
            "0.850 to 0.950",
            "The student answers",
        )
    ]
    assert places == sorted(places)
    for text in ("500 private records that", "What an attacker gains", "Why this method</dt><dd>It is best."):
        assert text in page
    assert "Released score" not in page
    without = replace(record, data={name: value for name, value in record.data.items() if name != "answers"})
    assert "The student answers" not in render(without)


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


def test_measures_have_three_decimals():
    assert (_measure(0.85), _measure(None)) == ("0.850", "not available")


def test_settings_headings_and_dates():
    assert _setting("teachers", 2500) == "2,500"
    assert _setting("seed", 2500) == "2500"
    assert _setting("classes", ["<=50K", ">50K"]) == "<=50K, >50K"
    assert _heading("private_rows") == "Private rows"
    assert _heading("n_classes") == "Number of classes"
    assert _heading("n") == "N"
    assert date("2026-03-05T14:05:09+00:00") == "5 March 2026, 14:05 UTC"
    assert date("once") == "once"


def test_settings_of_every_type():
    assert _setting("a", None) == "not set"
    assert _setting("a", False) == "no"
    assert _setting("random_seed", 12345) == "12345"
    assert _setting("a", {"b": [1, 2.5], "c": "x"}) == "b: 1, 2.5, c: x"


@pytest.mark.parametrize(
    ("created", "text"),
    [("2026-03-05T16:05:09+02:00", "5 March 2026, 14:05 UTC"),
     ("2026-03-05T14:05:09Z", "5 March 2026, 14:05 UTC"),
     ("2026-03-05T14:05:09", "5 March 2026, 14:05 UTC"), ("lately", "lately"), ("", "")],
)  # fmt: skip
def test_date(created, text):
    assert date(created) == text
