"""Models fitted on the private records. They are never published, unless they are private themselves."""

from dpensemble.teachers.accountants import OpacusPrivacy
from dpensemble.teachers.ensemble import TeacherEnsemble
from dpensemble.teachers.gradient_perturbed import GradientPerturbedLogisticRegression
from dpensemble.teachers.private import FreshTeachers, PrivateTeachers, RandomizedBallots
from dpensemble.teachers.private_logistic import OutputPerturbedLogisticRegression
from dpensemble.teachers.soft import SoftTeacherEnsemble

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
