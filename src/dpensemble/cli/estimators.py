"""From what a command line asks for to an estimator."""

from __future__ import annotations

from typing import Any

from dpensemble import methods
from dpensemble.cli.manifest import METHODS
from dpensemble.cli.method_commands import Request
from dpensemble.design import InfluenceRule
from dpensemble.laws import LawChoice
from dpensemble.workflow.learners import LEARNERS, STUDENTS, learner

_DEFAULT_LEARNER = "logistic-regression"


def estimator(request: Request) -> Any:
    """Return the unfitted estimator of a request."""
    settings = dict(request.settings)
    for part, learners in (("teacher", LEARNERS), ("student", STUDENTS)):
        named = settings.pop(part, _DEFAULT_LEARNER)
        # The estimator has defaults of its own for it.
        if named != _DEFAULT_LEARNER:
            settings[part] = learner(part, named, learners)
    if request.own.get("teacher_epsilon") is not None:
        privacy = request.own["teacher_epsilon"], request.own["teacher_delta"]
        settings["teacher_privacy"] = privacy[0] if privacy[1] is None else privacy
    if request.rule_fields:
        published = settings.get("rule") == "published"
        settings["rule"] = InfluenceRule(published=published, **request.rule_fields)
    if request.law is not None:
        settings["law"] = LawChoice.of(request.law, **request.law_fields) if request.law_fields else request.law
    return getattr(methods, METHODS[request.method])(**settings)
