"""Students of every kind that earlier versions saved predict the same after their classes have moved."""

import importlib
import io
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn

from dpensemble import load_classifier
from dpensemble._moved import SAVED_CLASSES
from dpensemble.errors import NotForReleaseWarning
from dpensemble.persistence import _OWN_CLASSES

#: Written by `write_students.py`. A later version adds an archive, and these stay as they are.
ARCHIVES = sorted(Path(__file__).parent.glob("students-*.zip"))
#: Every path at which a version could save a class of ours. A line is never removed.
PATHS = (Path(__file__).parent / "class_paths.txt").read_text(encoding="utf-8").split()


def expected(archive):
    with zipfile.ZipFile(archive) as opened:
        return json.loads(opened.read("expected.json"))


STUDENTS = [(archive, name) for archive in ARCHIVES for name in expected(archive)["students"]]


def paths_in(part):
    """Yield the paths of classes of ours in a description of skops."""
    if isinstance(part, dict):
        if str(part.get("__module__")).startswith("dpensemble"):
            yield f"{part['__module__']}:{part['__class__']}"
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from paths_in(inner)


def described(archive, name):
    with zipfile.ZipFile(archive) as opened, zipfile.ZipFile(io.BytesIO(opened.read(f"{name}.skops"))) as student:
        return json.loads(student.read("schema.json"))


def path_of(kind):
    return f"{kind.__module__}:{kind.__qualname__}"


@pytest.mark.parametrize(("archive", "name"), STUDENTS, ids=[f"{place.stem}-{name}" for place, name in STUDENTS])
def test_a_saved_student_predicts_the_same(tmp_path, archive, name):
    written = expected(archive)
    student = written["students"][name]
    version = written["versions"]["scikit-learn"]
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < tuple(map(int, version.split(".")[:2])):
        pytest.skip(f"scikit-learn {sklearn.__version__} does not read classifiers of scikit-learn {version}")
    with zipfile.ZipFile(archive) as opened:
        (tmp_path / "student.skops").write_bytes(opened.read(f"{name}.skops"))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        loaded = load_classifier(tmp_path / "student.skops")
    # No other warning: a file of an earlier version is as good as a new one.
    assert [one.category for one in shown] == [NotForReleaseWarning] * (not student["for_release"])
    assert loaded.for_release_ == student["for_release"]
    rows = student["rows"]
    rows = pd.DataFrame(**rows) if isinstance(rows, dict) else np.array(rows)
    np.testing.assert_allclose(loaded.predict_proba(rows), student["probabilities"], rtol=1e-9, atol=1e-12)


def test_the_saved_students_contain_every_class_that_a_file_may_name():
    saved = {path for archive, name in STUDENTS for path in paths_in(described(archive, name))}
    assert saved == set(PATHS)
    # Loading accepts no other class of ours, so no file that could be opened has another.
    # Models of numbers and of times are newer than these files, and have no probabilities to compare.
    assert {path.partition(":")[2] for path in saved} >= {kind.__name__ for kind in _OWN_CLASSES} - {
        "NumberModel",
        "SurvivalModel",
    }


@pytest.mark.parametrize("path", PATHS)
def test_every_path_of_a_saved_class_leads_to_a_class_that_is_trusted(path):
    module, _, name = SAVED_CLASSES.get(path, path).partition(":")
    kind = getattr(importlib.import_module(module), name)
    assert kind in _OWN_CLASSES
    assert (path in SAVED_CLASSES) == (path != path_of(kind))


def test_the_table_has_no_other_class():
    assert set(SAVED_CLASSES) <= set(PATHS)
    assert set(SAVED_CLASSES.values()) <= set(map(path_of, _OWN_CLASSES))
