"""Models fitted on the private records. They are never published, unless they are private themselves."""

from dpensemble.teachers.ensemble import SoftTeacherEnsemble, TeacherEnsemble
from dpensemble.teachers.private import FreshTeachers, OpacusPrivacy, PrivateTeachers, RandomizedBallots
from dpensemble.teachers.private_logistic import GradientPerturbedLogisticRegression, OutputPerturbedLogisticRegression

__all__ = [
    "FreshTeachers",
    "GradientPerturbedLogisticRegression",
    "OpacusPrivacy",
    "OutputPerturbedLogisticRegression",
    "PrivateTeachers",
    "RandomizedBallots",
    "SoftTeacherEnsemble",
    "TeacherEnsemble",
]
