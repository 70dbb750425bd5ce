"""Constructors stay short, and docstrings name every setting."""

import inspect
import re

import pytest

import dpensemble

ESTIMATORS = [
    value for name in dpensemble.__all__ if (value := getattr(dpensemble, name)) and name.endswith("Classifier")
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_few_settings_all_of_them_described(estimator):
    names = list(inspect.signature(estimator).parameters)
    # Each method has a setting for bad records, which users need not learn about first.
    assert 3 <= len(names) - ("on_bad_record" in names) <= 15
    section = re.search(
        r"\n    Parameters\n    -+\n(.*?)\n    (?:Attributes|References)\n", estimator.__doc__, re.DOTALL
    )
    heads = re.findall(r"(?m)^    (\w[\w, ]*?)(?: :.*)?$", section[1])
    described = [name for head in heads for name in head.split(", ")]
    assert sorted(described) == sorted(names)
    assert estimator().get_params(deep=False).keys() == set(names)


def test_every_estimator_is_looked_at():
    assert len(ESTIMATORS) == len(dpensemble.methods.__all__)
