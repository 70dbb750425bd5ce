"""Models fitted on the private records; never published."""

from dpensemble.teachers.ensemble import TeacherEnsemble

__all__ = ["TeacherEnsemble"]
