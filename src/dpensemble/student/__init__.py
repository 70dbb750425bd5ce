"""The student. It is trained only on released labels, so it may be published."""

from dpensemble.student.published import Learner, NamedPipeline

__all__ = ["Learner", "NamedPipeline"]
