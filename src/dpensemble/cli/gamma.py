"""``dpensemble gamma``, and its plot: gamma by votes, and the error by the teachers' common probability."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import typer
from markupsafe import Markup
from rich.console import Console
from rich.table import Table

from dpensemble._checks import member
from dpensemble._work import progress_on_stderr
from dpensemble.certificates import certificate_of_majority
from dpensemble.cli.output import PlanFiles, write_charts
from dpensemble.darrm import (
    AlikeTeachers,
    Allowance,
    Constraints,
    GammaSolution,
    IndependentTeachers,
    VotePrior,
    expected_error,
    optimise_gamma,
)
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority
from dpensemble.report.charts import Limit, Series, Words, line_chart

_DRAWN_CHANCES = 101
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
    percent = np.linspace(0, 100, _DRAWN_CHANCES)
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


Laws = dict[str, RandomizedResponseMajority]

_CHANCES = (0.55, 0.6, 0.7, 0.8, 0.9)
_MOST_ROWS = 24


def run(
    teachers: int,
    epsilon: float,
    m: float,
    Delta: float,
    delta: float,
    prior: str,
    constraints: str,
    plot: Path | None,
    certificate: Path | None,
    as_json: bool,
) -> None:
    """Find the private majority of private teachers with the least error."""
    compete = member("constraints", constraints, Constraints)
    vote_prior = _prior_of(prior)
    out = PlanFiles(certificate, plot)
    out.check()
    with progress_on_stderr("Searching for gamma"):
        solution = optimise_gamma(
            teachers, epsilon=epsilon, m=m, Delta=Delta, delta=delta, prior=vote_prior, constraints=compete
        )
        if certificate is not None:
            out.write_certificate(certificate_of_majority(solution.law, solution.allowance))
        laws = {"optimised": solution.law} | _baselines(solution.allowance)
        if plot is not None:
            write_plot(solution, laws, plot)
    if as_json:
        typer.echo(json.dumps(_as_dict(solution, laws, vote_prior), indent=2))
    else:
        _show(solution, laws, vote_prior, plot)
        out.print_certificate()


def _prior_of(text: str) -> VotePrior:
    if text == "alike":
        return AlikeTeachers()
    try:
        if ":" in text:
            pairs = [tuple(map(float, pair.split(":"))) for pair in text.split(",")]
            chances, weights = zip(*pairs, strict=True)
            return AlikeTeachers(probabilities=chances, weights=weights)
        # A hyphen after an e is part of a number such as 1e-3.
        ends = [float(end) for end in re.split(r"(?<=[^eE])-", text)]
        if len(ends) == 1:
            return IndependentTeachers(ends[0])
        low, high = ends
        return AlikeTeachers(low, high)
    except InvalidParameterError:
        raise
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"prior must be 'alike', a range such as '0.5-1', a histogram such as '0.2:0.5,0.9:0.5', or a number; "
            f"got {text!r}."
        ) from None


def _baselines(allowance: Allowance) -> Laws:
    """Return the published laws that are private at this allowance."""
    k, drawn = allowance.n_teachers, int(allowance.m)
    laws = {}
    if drawn and allowance.Delta == 0:
        laws["DSub"] = RandomizedResponseMajority.double_subsampling(k, drawn)
    # 3e-5 is a little below 3 * 1e-5 in doubles.
    if drawn and allowance.delta * (1 + 1e-12) >= drawn * allowance.Delta:
        laws["Sub"] = RandomizedResponseMajority.subsampling(k, drawn)
    laws["constant"] = RandomizedResponseMajority.constant(
        k,
        ballots_epsilon=k * allowance.epsilon,
        ballots_delta=min(k * allowance.Delta, 1.0),
        epsilon=allowance.m * allowance.epsilon,
        delta=allowance.delta,
    )
    return laws


def _as_dict(solution: GammaSolution, laws: Laws, prior: VotePrior) -> dict[str, Any]:
    certificate = asdict(solution.certificate)
    certificate["corners"] = [{"p": p, "p_neighbour": q, "teachers": n} for (p, q), n in solution.certificate.corners]
    errors = {name: expected_error(law, prior) for name, law in laws.items()}
    return {
        "gamma": list(solution.gamma),
        **asdict(solution.allowance),
        "answer_epsilon": solution.allowance.m * solution.allowance.epsilon,
        "objective": solution.objective,
        "upper_bound": solution.upper_bound,
        "error": solution.error,
        "errors": errors,
        "certificate": certificate,
        "n_constraints": solution.n_constraints,
        "rounds": solution.rounds,
        "seconds": solution.seconds,
    }


def _show(solution: GammaSolution, laws: Laws, prior: VotePrior, plot: Path | None) -> None:
    console, allowance = Console(highlight=False), solution.allowance
    console.print(
        f"{allowance.n_teachers:,} teachers, each ({allowance.epsilon:g}, {allowance.Delta:g})-private; the "
        f"answer is ({allowance.m * allowance.epsilon:.6g}, {allowance.delta:g})-private.",
        markup=False,
    )
    console.print(_errors(laws, prior))
    console.print(_gammas(laws, allowance.n_teachers))
    console.print(str(solution.certificate), markup=False)
    console.print(
        f"{solution.n_constraints:,} constraints in {solution.rounds:,} rounds, {solution.seconds:.2f} s.", markup=False
    )
    if plot is not None:
        console.print(f"Plot: {plot}", markup=False)


def _errors(laws: Laws, prior: VotePrior) -> Table:
    table = Table("teachers' common probability", title="Distance to the true majority", title_justify="left")
    for name in laws:
        table.add_column(name, justify="right")
    table.add_row("as believed", *(f"{expected_error(law, prior):.3g}" for law in laws.values()))
    for chance in _CHANCES:
        errors = (expected_error(law, IndependentTeachers(chance)) for law in laws.values())
        table.add_row(f"{chance:g}", *(f"{error:.3g}" for error in errors))
    return table


def _gammas(laws: Laws, n_teachers: int) -> Table:
    """Return gamma by votes for the winner. With many votes, only every few numbers of votes get a row."""
    table = Table("votes for the winner", title="Gamma", title_justify="left")
    for name in laws:
        table.add_column(name, justify="right")
    first = n_teachers // 2 + 1
    stride = -(-(n_teachers + 1 - first) // _MOST_ROWS)
    for votes in sorted({*range(first, n_teachers + 1, stride), n_teachers}):
        table.add_row(f"{votes:,}", *(f"{law.gamma[votes]:.4f}" for law in laws.values()))
    return table
