"""Make an estimator from the arguments of a command line."""

from __future__ import annotations

from typing import Any

from dpensemble import methods
from dpensemble.cli.manifest import METHODS
from dpensemble.cli.method_commands import Request
from dpensemble.cli.settings import settings_of
from dpensemble.workflow.learners import LEARNERS, STUDENTS, learner

_DEFAULT_LEARNER = "logistic-regression"


def estimator(request: Request) -> Any:
    """Return the unfitted estimator of a request."""
    settings = settings_of(request)
    for part, learners in (("teacher", LEARNERS), ("student", STUDENTS)):
        named = settings.pop(part, _DEFAULT_LEARNER)
        # The estimator has its own defaults for this learner.
        if named != _DEFAULT_LEARNER:
            settings[part] = learner(part, named, learners)
    return getattr(methods, METHODS[request.method])(**settings)
