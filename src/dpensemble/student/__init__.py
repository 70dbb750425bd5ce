"""The student: trained on released labels only, so it may be published."""

from dpensemble.student.fitting import (
    Learner,
    class_probabilities,
    default_student,
    fit_soft_student,
    fit_student,
    seeded,
)
from dpensemble.student.published import (
    MARK,
    NamedPipeline,
    marked,
    published,
    release_mark,
    with_names,
)

__all__ = [
    "MARK",
    "Learner",
    "NamedPipeline",
    "class_probabilities",
    "default_student",
    "fit_soft_student",
    "fit_student",
    "marked",
    "published",
    "release_mark",
    "seeded",
    "with_names",
]
