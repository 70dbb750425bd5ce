import pytest

from dpensemble.report.page import _heading, _measure, _setting, date
from dpensemble.report.record import RunRecord
from dpensemble.report.wording import number


def test_numbers_for_people():
    assert [number(value) for value in (1234, 0.853, 1e-5, float("nan"))] == [
        "1,234",
        "0.853",
        "1e-05",
        "not available",
    ]
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


def worded(**data):
    usual = {name: {} for name in ("guarantee", "budget", "settings", "versions", "seconds")}
    counts = dict.fromkeys(("labels", "asked"), 0)
    scores = dict.fromkeys(("label_accuracy", "student", "baseline"))
    return RunRecord(method="pate", worst_case_spend=[], data=data, **usual, **counts, **scores)


def test_areas_under_curves_say_of_which_class():
    assert "'yes'" in worded(classes=["no", "yes"], positive_class="yes").areas_in_words
    assert "means over 3 classes" in worded(classes=["a", "b", "c"]).areas_in_words


@pytest.mark.parametrize(
    ("share", "error", "words"),
    [
        (1.0571, 0.0287, "About 100.0% (95% interval by noise: 94.4% to 100.0%)"),
        (0.792, 0.115, "About 79.2% (95% interval by noise: 56.7% to 100.0%)"),
        (0.01, 0.1, "About 1.0% (95% interval by noise: 0.0% to 20.6%)"),
        (0.5, None, None),
    ],
)
def test_the_share_of_readable_records_and_its_interval_stay_within_0_and_1(share, error, words):
    assert worded(readable_share=share, readable_share_error=error).readable_in_words == words
