"""The student. It is trained only on released labels, so it may be published."""

from dpensemble.student.fitting import Learner
from dpensemble.student.published import NamedPipeline

__all__ = ["Learner", "NamedPipeline"]
