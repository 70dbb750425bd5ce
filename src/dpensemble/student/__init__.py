"""The student, which is trained on released labels only, so it may be published."""

from dpensemble.student.fitting import Learner
from dpensemble.student.published import NamedPipeline

__all__ = ["Learner", "NamedPipeline"]
