import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from dpensemble.errors import FileError
from dpensemble.report.effects import effects_view
from dpensemble.report.few_people import FEW, Support
from dpensemble.report.page import render
from dpensemble.report.record import RunRecord

# The record of the other tests of effects.
_spec = importlib.util.spec_from_file_location("effect_helpers", Path(__file__).with_name("test_effects.py"))
effect_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(effect_helpers)
SOFT = effect_helpers.SOFT

WARD = {
    "column": "ward", "kind": "category", "importance": 0.4, "points": [["surgery", [0.3]], ["burns", [-0.6]]],
    "rows": [99, 1],
}  # fmt: skip
AGE = {
    "column": "age", "kind": "number", "importance": 0.4, "points": [[20.0, [0.3]], [30.0, [0.1]], ["missing", [0.1]]],
    "rows": [50, 45, 5],
}  # fmt: skip


def of(units, *effects, relation="replace-one", **more):
    data = SOFT.data | {"private_units": units, "classes": ["no", "yes"]} | more
    return replace(SOFT, data=data, effects=list(effects), guarantee=SOFT.guarantee | {"relation": relation})


def test_an_entry_is_marked_if_few_private_units_are_expected_to_have_it():
    assert Support.of(of(2000)).few(WARD) == [False, True]
    assert Support.of(of(100 * FEW)).few(WARD) == [False, False]
    # Units that were held back taught nothing.
    assert Support.of(of(100 * FEW, held_back=100)).few(WARD) == [False, True]
    assert Support.of(of(200)).few(AGE) == [False, False, True]


def test_a_secret_number_of_units_does_not_decide():
    secret = Support.of(of(100_000, relation="add-or-remove-one"))
    assert secret.units is None
    assert secret.few(WARD) == Support.of(of(5, relation="add-or-remove-one")).few(WARD) == [False, True]
    assert "fewer than 25 public rows have such an entry" in secret.sentence()


def test_effects_of_earlier_versions_have_no_marks():
    earlier = {name: value for name, value in WARD.items() if name != "rows"}
    assert Support.of(of(10)).few(earlier) == [False, False]
    assert effects_view(of(10, earlier))["few"] is None


def test_pictures_have_marks_and_the_page_explains_them():
    page = render(of(2000, WARD, AGE))
    assert ">burns*</text>" in page
    assert "surgery*" not in page
    assert "fewer than 25 of the 2,000 records are expected to have such an entry" in page
    assert 'class="dot few"' in render(of(200, AGE))
    assert "hollow dot" not in render(of(100_000, AGE))


def test_tables_of_more_classes_have_marks():
    three = WARD | {"points": [[name, [value, 0.0, -value]] for name, (value,) in WARD["points"]]}
    view = effects_view(of(2000, three, classes=[*"abc"]))
    assert any("burns*" in cell for _, rows in view["tables"] for row in rows for cell in row)
    assert view["few"].startswith("*: fewer than 25")
    # A marked entry that no table lists needs no explanation.
    middle = {"points": [["surgery", [1.0, 0.0, -1.0]], ["burns", [0.0, 0.0, 0.0]], ["eyes", [-1.0, 0.0, 1.0]]]}
    assert effects_view(of(2000, WARD | middle | {"rows": [500, 1, 500]}, classes=[*"abc"]))["few"] is None


@pytest.mark.parametrize("rows", [[], [1], [1, -1], [1, 0.5], [1, True], "12"])
def test_a_record_with_other_rows_is_refused(rows):
    values = of(2000, WARD | {"rows": rows}).to_dict()
    with pytest.raises(FileError, match="effects do not have the format"):
        RunRecord.from_dict(values)
