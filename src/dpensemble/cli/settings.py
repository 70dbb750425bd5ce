"""Turn the arguments of a command line into settings of a method."""

from __future__ import annotations

from typing import Any

from dpensemble.cli.method_commands import Request
from dpensemble.design import InfluenceRule
from dpensemble.laws import LawChoice


def settings_of(request: Request) -> dict[str, Any]:
    """Return the settings of a request for its estimator, with learners still as names."""
    settings = dict(request.settings)
    if request.own.get("teacher_epsilon") is not None:
        privacy = request.own["teacher_epsilon"], request.own["teacher_delta"]
        settings["teacher_privacy"] = privacy[0] if privacy[1] is None else privacy
    if request.rule_fields:
        published = settings.get("rule") == "published"
        settings["rule"] = InfluenceRule(published=published, **request.rule_fields)
    if request.law is not None:
        settings["law"] = LawChoice.of(request.law, **request.law_fields) if request.law_fields else request.law
    return settings
