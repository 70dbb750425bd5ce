from dpensemble.report import wording
from dpensemble.report.wording import date, heading, measure, number, setting


def test_numbers_for_people():
    assert [number(value) for value in (1234, 0.853, 1e-5, float("nan"))] == [
        "1,234",
        "0.853",
        "1e-05",
        "not available",
    ]
    assert (measure(0.85), measure(None)) == ("0.850", "not available")


def test_settings_headings_and_dates():
    assert setting("teachers", 2500) == "2,500"
    assert setting("seed", 2500) == "2500"
    assert setting("classes", ["<=50K", ">50K"]) == "<=50K, >50K"
    assert heading("private_rows") == "Private rows"
    assert heading("n_classes") == "Number of classes"
    assert heading("n") == "N"
    assert date("2026-03-05T14:05:09+00:00") == "5 March 2026, 14:05 UTC"
    assert date("once") == "once"


def test_areas_under_curves_say_of_which_class():
    assert "'yes'" in wording.positive_class(["no", "yes"], "yes")
    assert "means over 3 classes" in wording.positive_class(["a", "b", "c"], None)


def test_the_share_of_readable_records_and_its_interval_stay_within_0_and_1():
    assert wording.readable(1.0571, 0.0287) == "About 100.0% (95% interval by noise: 94.4% to 100.0%)"
    assert wording.readable(0.792, 0.115) == "About 79.2% (95% interval by noise: 56.7% to 100.0%)"
    assert wording.readable(0.01, 0.1) == "About 1.0% (95% interval by noise: 0.0% to 20.6%)"
