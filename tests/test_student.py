import numpy as np
import pytest

from dpensemble.student import default_student, fit_student


@pytest.mark.parametrize("label", [1, 1.0, np.float64(0.5), "yes", True])
def test_labels_that_all_agree_make_a_constant_student(label):
    X = np.arange(6.0).reshape(3, 2)
    student = fit_student(default_student(), X, np.array([label] * 3), seed=0)
    assert student.predict(X).tolist() == [label] * 3
