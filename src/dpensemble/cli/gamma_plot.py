"""The plot of a noise function: gamma by votes, and the error by the teachers' common probability."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from markupsafe import Markup

from dpensemble.cli.plan_plot import write_charts
from dpensemble.darrm import GammaSolution, IndependentTeachers, expected_error
from dpensemble.laws import RandomizedResponseMajority
from dpensemble.report.charts import Limit, Series, Words, line_chart

_CHANCES = 101
_COLOURS = {"optimised": "group-1", "DSub": "group-2", "Sub": "group-3", "constant": "group-4"}


def write_plot(solution: GammaSolution, laws: dict[str, RandomizedResponseMajority], path: Path) -> None:
    """Draw gamma and error of several laws, and write both charts as one SVG."""
    allowance = solution.allowance
    setting = (
        f"{allowance.n_teachers:,} teachers, each ({allowance.epsilon:g}, {allowance.Delta:g})-private; answer "
        f"({allowance.m * allowance.epsilon:.4g}, {allowance.delta:g})-private"
    )
    charts = [("When the majority is returned", _gamma_chart(laws)), ("Distance to it", _error_chart(solution, laws))]
    write_charts(setting, charts, path)


def _gamma_chart(laws: dict[str, RandomizedResponseMajority]) -> Markup:
    lines = [Series(name, list(enumerate(law.gamma)), _COLOURS[name]) for name, law in laws.items()]
    words = Words("gamma", "Probability of the majority, by votes", "votes for the second class", "gamma")
    return line_chart(lines, [Limit("always", 1.0)], words)


def _error_chart(solution: GammaSolution, laws: dict[str, RandomizedResponseMajority]) -> Markup:
    percent = np.linspace(0, 100, _CHANCES)
    lines = [
        Series(
            name,
            [(share, expected_error(law, IndependentTeachers(share / 100))) for share in percent.tolist()],
            _COLOURS[name],
        )
        for name, law in laws.items()
    ]
    words = Words(
        "error",
        "Distance to the true majority by the teachers' common probability",
        "teachers' common probability of the second class, %",
        "total-variation distance",
    )
    return line_chart(lines, [Limit("as believed", solution.error)], words)
