"""What the library cannot do raises an error that names what to use instead."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dpensemble import AutoClassifier, DiscriminantClassifier, LabelMomentsClassifier, PATEClassifier
from dpensemble._entries import require_labels
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.rows.arguments import sorted_classes
from dpensemble.rows.checked import class_ids
from dpensemble.workflow import TableFiles, file_tables

X = np.random.default_rng(0).normal(size=(60, 3))
SEVERAL = (X[:40, :2] > 0).astype(int)
FORMS = {
    "array": SEVERAL,
    "table": pd.DataFrame(SEVERAL, columns=["flu", "cold"]),
    "lists": SEVERAL.tolist(),
    "matrix": sp.csr_matrix(SEVERAL),
}


@pytest.mark.parametrize("form", FORMS)
def test_several_labels_of_a_record(form):
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=1.0)
    with pytest.raises(DataError, match=r"y has 2 columns.*multi-label.*train a model for each column"):
        model.fit(X[:40], FORMS[form], X_public=X[40:])


@pytest.mark.parametrize("method", [AutoClassifier, DiscriminantClassifier, PATEClassifier])
@pytest.mark.parametrize("on_bad_record", ["zero", "raise"])
def test_several_labels_with_other_methods(method, on_bad_record):
    model = method(classes=[0, 1], epsilon=1.0, on_bad_record=on_bad_record)
    with pytest.raises(DataError, match="multi-label"):
        model.fit(X[:40], SEVERAL, X_public=X[40:])


def test_one_label_each_is_fine():
    for labels in ([0, 1], np.array([[0], [1]]), pd.Series(["a", "b"]), [["a"], ["a", "b"]], None):
        require_labels(labels, keep_bad=True)


def test_numbers_as_classes():
    with pytest.raises(InvalidParameterError, match=r"Unknown label type.*\(regression\) is not supported.*ranges"):
        sorted_classes([0.1, 0.25])
    assert sorted_classes([2.0, 1.0]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("labels", "hints"), [([0.0, 0.7], True), ([0, 7], False)])
def test_undeclared_numbers(labels, hints):
    with pytest.raises(DataError, match="not among classes") as error:
        class_ids(np.array([0, 1]), np.array(labels))
    assert ("regression is not supported" in str(error.value)) is hints
    assert "0.7" not in str(error.value)


def test_survey_weights():
    with pytest.raises(InvalidParameterError, match=r"sample_weight is not supported.*Survey weights.*stratum"):
        LabelMomentsClassifier(classes=[0, 1]).fit(X[:40], SEVERAL[:, 0], X_public=X[40:], sample_weight=X[:40, 0])


def test_several_columns_as_the_target(tmp_path):
    table = pd.DataFrame(X[:40], columns=[*"abc"]).assign(flu=SEVERAL[:, 0], cold=SEVERAL[:, 1])
    table.to_csv(tmp_path / "private.csv", index=False)
    table[[*"abc"]].to_csv(tmp_path / "public.csv", index=False)

    def read(target):
        return file_tables(
            TableFiles(
                private=tmp_path / "private.csv", public=tmp_path / "public.csv", target=target, classes=["0", "1"]
            )
        )

    with pytest.raises(DataError, match="target='flu,cold' names several columns, but several labels"):
        read("flu,cold")
    with pytest.raises(DataError, match="target='flu,measles' is not a column"):
        read("flu,measles")
