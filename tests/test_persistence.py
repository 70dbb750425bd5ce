import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from skops import io as skops_io

from dpensemble import Budget, Ledger, load_classifier, save_classifier
from dpensemble._moved import SAVED_CLASSES
from dpensemble.errors import FileError
from dpensemble.moments import MomentsModel
from dpensemble.student import NamedPipeline, publishable
from dpensemble.workflow.learners import STUDENTS, learner


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        GaussianNB(),
        DecisionTreeClassifier(),
        RandomForestClassifier(5),
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        DummyClassifier(strategy="constant", constant=1),
    ],
    ids=lambda c: type(c).__name__,
)
def test_a_classifier_predicts_the_same_after_loading(tmp_path, blobs, classifier):
    X, y, public = blobs
    classifier.fit(X, y)
    save_classifier(classifier, tmp_path / "c.skops")
    assert np.array_equal(load_classifier(tmp_path / "c.skops").predict(public), classifier.predict(public))


@pytest.mark.parametrize("name", STUDENTS)
def test_every_student_of_the_command_line_can_be_saved(tmp_path, blobs, name):
    X, y, _ = blobs
    save_classifier(learner("student", name).fit(X[:60], y[:60]), tmp_path / "c.skops")
    load_classifier(tmp_path / "c.skops")


def test_types_that_are_not_vetted_are_neither_written_nor_read(tmp_path, blobs):
    X, y, _ = blobs
    model = ExtraTreesClassifier(2).fit(X, y)
    with pytest.raises(FileError, match="not vetted"):
        save_classifier(model, tmp_path / "c.skops")
    assert list(tmp_path.iterdir()) == []
    skops_io.dump(model, tmp_path / "c.skops")
    with pytest.raises(FileError, match="not vetted"):
        load_classifier(tmp_path / "c.skops")


@pytest.mark.parametrize("content", [b"", b"not a file", b"\x80\x04K\x01."])
def test_files_that_are_not_classifiers_are_refused(tmp_path, content):
    (tmp_path / "c.skops").write_bytes(content)
    with pytest.raises(FileError, match="cannot be read as a saved classifier"):
        load_classifier(tmp_path / "c.skops")
    with pytest.raises(FileError, match="cannot be read"):
        load_classifier(tmp_path / "missing.skops")


def test_a_file_that_names_a_system_call_is_refused(tmp_path):
    schema = {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "FunctionNode",
        "content": {"module_path": "os", "function": "system"},
        "protocol": 2,
        "_skops_version": "0.16.0",
    }
    with zipfile.ZipFile(tmp_path / "c.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    with pytest.raises(FileError):
        load_classifier(tmp_path / "c.skops")


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field in ("left_child", "right_child", "feature") for value in (-7, 10**6)]
    + [("left_child", 0), ("right_child", 0)],
)
def test_a_tree_that_points_out_of_bounds_is_refused(tmp_path, blobs, field, value):
    X, y, _ = blobs
    model = DecisionTreeClassifier(max_depth=3).fit(X, y)
    state = model.tree_.__getstate__()
    state["nodes"][field][0] = value
    model.tree_.__setstate__(state)
    refuses_both_ways(model, tmp_path / "c.skops", "broken decision tree")


def refuses_both_ways(model, path, message):
    """The state is not written, and not read from a file that another program wrote."""
    with pytest.raises(FileError, match=message):
        save_classifier(model, path)
    assert not path.exists()
    skops_io.dump(model, path)
    with pytest.raises(FileError, match=message):
        load_classifier(path)


def test_a_forest_whose_trees_are_wider_than_its_rows_is_refused(tmp_path, blobs):
    X, y, _ = blobs
    model = RandomForestClassifier(3).fit(X, y)
    model.n_features_in_ = 1
    refuses_both_ways(model, tmp_path / "c.skops", "broken decision tree")


def test_a_forest_that_hides_its_trees_is_refused(tmp_path, blobs):
    X, y, _ = blobs
    model = RandomForestClassifier(3).fit(X, y)
    model.estimators_ = dict(enumerate(model.estimators_))
    refuses_both_ways(model, tmp_path / "c.skops", "broken forest")


def boosted(blobs, **changes):
    X, y, _ = blobs
    model = GradientBoostingClassifier(n_estimators=2, max_depth=2).fit(X, y)
    vars(model).update({name: change(getattr(model, name)) for name, change in changes.items()})
    return model


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_features_in_": lambda _: 1}, "broken decision tree"),
        ({"estimators_": lambda trees: np.hstack([trees, trees])}, "broken boosted trees"),
        ({"estimators_": lambda trees: trees.ravel()}, "broken boosted trees"),
        ({"classes_": lambda _: np.arange(3)}, "broken boosted trees"),
        ({"init_": lambda _: DummyClassifier().fit([[0]] * 3, [0, 1, 2])}, "broken boosted trees"),
        ({"n_trees_per_iteration_": lambda _: 2}, "broken boosted trees"),
    ],
)
def test_boosted_trees_that_would_write_out_of_bounds_are_refused(tmp_path, blobs, changes, words):
    refuses_both_ways(boosted(blobs, **changes), tmp_path / "c.skops", words)


@pytest.mark.parametrize(
    ("field", "value"), [("left", 0), ("right", 10**6), ("feature_idx", 99), ("feature_idx", -1), ("is_categorical", 1)]
)
def test_nodes_of_histogram_boosting_that_lead_out_of_bounds_are_refused(tmp_path, blobs, field, value):
    X, y, _ = blobs
    model = HistGradientBoostingClassifier(max_iter=2).fit(X, y)
    model._predictors[0][0].nodes[field][0] = value
    refuses_both_ways(model, tmp_path / "c.skops", "broken boosted trees")


def test_boosting_on_categories_is_refused_with_what_to_do(tmp_path, blobs):
    X, y, _ = blobs
    model = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])
    model.fit(np.column_stack([X[:, 0] > 0, X[:, 1:]]).astype(float), y)
    with pytest.raises(FileError, match="split categories; encode these first"):
        save_classifier(model, tmp_path / "c.skops")


def test_an_encoder_with_wrong_counts_is_refused(tmp_path):
    encoder = OneHotEncoder().fit([["a"], ["b"]])
    encoder._n_features_outs = [1]
    refuses_both_ways(encoder, tmp_path / "c.skops", "broken one-hot encoder")


@pytest.mark.parametrize(
    "model",
    [SVC(), AdaBoostClassifier(), ExtraTreesClassifier(2)],
    ids=lambda m: type(m).__name__,
)
def test_classes_that_are_not_listed_are_refused_wherever_they_hide(tmp_path, blobs, model):
    X, y, _ = blobs
    refuses_both_ways(model.fit(X, y), tmp_path / "c.skops", "not vetted")
    hidden = LogisticRegression().fit(X, y)
    hidden.extra = {"deep": [(model,)]}
    refuses_both_ways(hidden, tmp_path / "d.skops", "not vetted")


def test_an_unwritable_path_is_named(tmp_path, blobs):
    X, y, _ = blobs
    with pytest.raises(FileError, match="cannot be written"):
        save_classifier(LogisticRegression().fit(X, y), tmp_path / "no" / "folder.skops")


@pytest.mark.parametrize(
    "change",
    [
        {"categories_": [np.array([3.0, 1.0, 2.0])]},
        {"categories_": [np.array([1.0, 2.0, np.nan])]},
        {"_infrequent_enabled": True},
        {"drop_idx_": np.array([0], dtype=object)},
        {"max_categories": 2},
        {"min_frequency": 2},
    ],
    ids=lambda c: next(iter(c)),
)
def test_an_encoder_that_would_write_outside_its_matrix_is_refused(tmp_path, change):
    encoder = OneHotEncoder().fit([[1.0], [2.0], [3.0]])
    vars(encoder).update(change)
    refuses_both_ways(encoder, tmp_path / "c.skops", "broken one-hot encoder")


def test_a_function_in_an_attribute_is_refused(tmp_path, blobs):
    X, y, _ = blobs
    model = LogisticRegression().fit(X, y)
    model.predict = np.exp
    refuses_both_ways(model, tmp_path / "c.skops", "holds a function")


def test_files_are_read_without_array_libraries_and_with_all_of_skops_types():
    """The search for estimators must find as many as without what holds PyTorch back."""
    count = "len(skops.io._trusted_types.SKLEARN_ESTIMATOR_TYPE_NAMES)"
    held = (
        "import sys; from dpensemble.persistence import files; files._skops_io()\n"
        "import skops.io._trusted_types; "
        f"print({count}, 'torch' in sys.modules, 'dask' in sys.modules)"
    )
    found = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for code in (held, f"import skops.io._trusted_types; print({count})")
    ]
    assert found[0] == [*found[1], "False", "False"]
    assert int(found[1][0]) > 100


TABLE = pd.DataFrame({"age": np.arange(40.0), "dose": np.arange(40.0) % 7})
HERE = NamedPipeline.__module__
OLD = "dpensemble.students.of_old:Named"


def renamed_student(path, module, name, kind=NamedPipeline):
    """Write a student whose file names the class `kind` by another path."""
    fitted = LogisticRegression().fit(TABLE.to_numpy(), TABLE["age"] > 20)
    save_classifier(publishable(fitted, for_release=True, names=list(TABLE)), path)
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    schema = json.loads(members["schema.json"])

    def rename(part):
        if isinstance(part, dict):
            if part.get("__module__") == kind.__module__ and part.get("__class__") == kind.__name__:
                part["__module__"], part["__class__"] = module, name
            part = list(part.values())
        for inner in part if isinstance(part, list) else []:
            rename(inner)

    rename(schema)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in (members | {"schema.json": json.dumps(schema)}).items():
            archive.writestr(member, content)
    return fitted.predict(TABLE.to_numpy())


@pytest.fixture
def moved(monkeypatch):
    monkeypatch.setitem(SAVED_CLASSES, OLD, f"{HERE}:NamedPipeline")


@pytest.mark.usefixtures("moved")
def test_a_student_that_names_a_class_by_an_old_path_of_the_table_is_loaded(tmp_path):
    expected = renamed_student(tmp_path / "old.skops", *OLD.split(":"))
    before = (tmp_path / "old.skops").read_bytes()
    student = load_classifier(tmp_path / "old.skops")
    assert type(student) is NamedPipeline
    assert np.array_equal(student.predict(TABLE[["dose", "age"]]), expected)
    assert (tmp_path / "old.skops").read_bytes() == before
    # Saved again, a student has the path of today.
    save_classifier(student, tmp_path / "new.skops")
    with zipfile.ZipFile(tmp_path / "new.skops") as archive:
        assert NamedPipeline.__module__ in archive.read("schema.json").decode()
        assert "of_old" not in archive.read("schema.json").decode()


NOT_IN_THE_TABLE = {
    "a path that was never ours": ("dpensemble.students.of_new", "Named"),
    "an old module with another name": ("dpensemble.students.of_old", "Other"),
    "an old name in another module": ("dpensemble.students.of_new", "Named"),
    "an attribute of an old class": ("dpensemble.students.of_old", "Named.predict"),
    "a class as a module": ("dpensemble.students.of_old.Named", "predict"),
    "the key of the table as a module": (OLD, "Named"),
    "the key of the table as a class": ("", OLD),
    "a real module of ours": (Ledger.__module__, "Ledger"),
    "a real class that another package defines": (Budget.__module__, "Budget"),
    "a function beside a trusted class": (HERE, "publishable"),
    "a trusted class where it is imported": ("dpensemble.moments", "MomentsModel"),
    "a library within a module of ours": (MomentsModel.__module__, "np.load"),
    "a library as a module of ours": (f"{MomentsModel.__module__}.np", "load"),
    "a class of the standard library": ("subprocess", "Popen"),
    "a function of the standard library": ("os", "system"),
    "the table's own class": ("dpensemble._moved", "Gone"),
    "a trusted class by a relative path": (".published", "NamedPipeline"),
    "spaces": ("dpensemble.students.of_old ", "Named"),
    "no module": (None, "Named"),
    "a list": (["dpensemble.students.of_old"], "Named"),
}


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize("names", NOT_IN_THE_TABLE.values(), ids=NOT_IN_THE_TABLE)
def test_a_path_that_is_not_in_the_table_is_refused_also_if_it_exists(tmp_path, names):
    renamed_student(tmp_path / "old.skops", *names)
    with pytest.raises(FileError, match=r"not vetted|cannot be read"):
        load_classifier(tmp_path / "old.skops")


def test_an_old_import_path_alone_makes_no_class_trusted(tmp_path, monkeypatch):
    from dpensemble import _moved

    monkeypatch.setitem(_moved.MODULES, "dpensemble.students", HERE)
    monkeypatch.setitem(_moved.NAMES, "dpensemble.students:Named", f"{HERE}:NamedPipeline")
    for name in ("NamedPipeline", "Named"):
        renamed_student(tmp_path / "old.skops", "dpensemble.students", name)
        with pytest.raises(FileError, match=rf"not vetted \(dpensemble.students.{name}\)"):
            load_classifier(tmp_path / "old.skops")


def test_types_are_audited_at_the_place_to_which_the_table_leads(tmp_path, monkeypatch):
    """A table that led to anything else could not make it trusted."""
    for target in ("subprocess:Popen", f"{Ledger.__module__}:Ledger", f"{HERE}:published"):
        monkeypatch.setitem(SAVED_CLASSES, OLD, target)
        renamed_student(tmp_path / "old.skops", *OLD.split(":"))
        with pytest.raises(FileError, match="not vetted"):
            load_classifier(tmp_path / "old.skops")


@pytest.mark.usefixtures("moved")
def test_an_old_path_of_one_class_does_not_excuse_another(tmp_path):
    renamed_student(tmp_path / "old.skops", *OLD.split(":"))
    with zipfile.ZipFile(tmp_path / "old.skops") as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    hostile = members["schema.json"].decode().replace("sklearn.linear_model._logistic", "dpensemble.methods.pate")
    with zipfile.ZipFile(tmp_path / "old.skops", "w") as archive:
        for member, content in (members | {"schema.json": hostile}).items():
            archive.writestr(member, content)
    with pytest.raises(FileError, match=r"not vetted \(dpensemble.methods.pate.LogisticRegression"):
        load_classifier(tmp_path / "old.skops")
