"""Certificates of plans and of runs, and the program that checks certificates in a process of its own."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpensemble.accounting import Group
from dpensemble.allocation import BootstrapScheme
from dpensemble.certificates.witness import Parts, body_of_draws, certificate_of_parts, part_of_certificate
from dpensemble.darrm import Allowance
from dpensemble.design import VotingDesign
from dpensemble.errors import AccountingError, FileError
from dpensemble.guarantee import Budget
from dpensemble.laws import RandomizedResponseMajority
from dpensemble.laws.sampling import integer_weights

_MOST_TEACHERS = 199


def certificate_of(design: VotingDesign, labels: int) -> dict[str, Any]:
    """Return the certificate that `labels` answers keep the budget of every group of records.

    Parameters
    ----------
    design : VotingDesign
        A run with its budget and noise, such as that of a `Plan`.
    labels : int
        Number of answers, all of which are given.

    Returns
    -------
    dict
        Plain values for JSON. Public, like the settings, since it holds the law for all counts that could occur.

    Raises
    ------
    AccountingError
        If the accounting of the run is not exact composition of one law, or too large for the verifier.

    Examples
    --------
    >>> from dpensemble import PATEClassifier, plan
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> design = PATEClassifier(law=LaplaceNoisyMax(10), n_teachers=20).design(n_classes=2)
    >>> planned = plan(design, epsilon=1)
    >>> sorted(certificate_of(planned.design, planned.labels))
    ['delta', 'epsilon', 'format', 'parts', 'version']
    """
    parts = Parts()
    design.certify(parts, labels)
    return certificate_of_parts(parts.parts)


def certificate_of_draws(scheme: BootstrapScheme, n_units: int) -> dict[str, Any]:
    """Return the certificate of bagging without noise: the chance that a record is drawn, at epsilon 0.

    Parameters
    ----------
    scheme : BootstrapScheme
        How subsamples are drawn.
    n_units : int
        Number of private records (or units). Public.

    Examples
    --------
    >>> scheme = BootstrapScheme("with-replacement", n_models=1, subsample=300)
    >>> round(float(certificate_of_draws(scheme, 60_000)["delta"]), 6)
    0.004988
    """
    # Above the chance itself, since ball arithmetic cannot distinguish the chance from its equal.
    delta = math.nextafter(scheme.inclusion_probability(n_units), 2.0)
    return certificate_of_parts([part_of_certificate("drawn", 0.0, delta, body_of_draws(scheme, n_units))])


def certificate_of_sums(groups: tuple[Group, ...], rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the certificate that Gaussian sums keep the budget of every group of units.

    Parameters
    ----------
    groups : tuple of Group
        Budgets and weights of the units.
    rounds : list of dict
        ``sigma`` (noise in sensitivities), ``variance`` of the discrete noise and ``entries`` of each sum.
    """
    parts = []
    for group in groups:
        body = {"rounds": [{**each, "sigma": repr(each["sigma"]), "weight": repr(group.weight)} for each in rounds]}
        parts.append(part_of_certificate("sums", group.budget.epsilon, group.budget.delta, body))
    return certificate_of_parts(parts)


def certificate_of_majority(law: RandomizedResponseMajority, allowance: Allowance) -> dict[str, Any]:
    """Return the certificate that a majority of private teachers is as private as its allowance requires.

    Parameters
    ----------
    law : RandomizedResponseMajority
        The majority's law. Its gamma must not fall away from the tie.
    allowance : Allowance
        Privacy of each teacher and of the answer. For example, that of a `GammaSolution`.

    Raises
    ------
    AccountingError
        If gamma falls somewhere, or there are more than 199 teachers.

    Examples
    --------
    >>> from dpensemble.darrm import optimise_gamma
    >>> solution = optimise_gamma(5, epsilon=0.1, m=2)
    >>> certificate_of_majority(solution.law, solution.allowance)["parts"][0]["kind"]
    'majority'
    """
    second = np.arange(allowance.n_teachers + 1)
    weights = integer_weights(law, np.stack([allowance.n_teachers - second, second], axis=1))[:, 1].tolist()
    if allowance.n_teachers > _MOST_TEACHERS or weights != sorted(weights):
        raise AccountingError(
            f"certificates need majorities of up to {_MOST_TEACHERS} teachers whose gamma never falls away from "
            "the tie: use constraints='monotone' and fewer teachers."
        )
    body = {"epsilon": repr(float(allowance.epsilon)), "delta": repr(float(allowance.Delta)), "weights": weights}
    epsilon = allowance.m * allowance.epsilon
    return certificate_of_parts([part_of_certificate("majority", epsilon, allowance.delta, body)])


def certificate_of_fit(model: Any, held_back: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the certificate of the releases of a fitted estimator.

    The field ``for_release`` is False when the noise came from a seed. The verifier does not accept such a run.

    Parameters
    ----------
    model : estimator
        Fitted estimator of any method.
    held_back : sequence of dict
        Charged sums over units that the fit does not use. They are parts of their own, at the same budget.

    Raises
    ------
    AccountingError
        If such a run cannot be certified. See `certificate_of`.
    """
    # Imports scikit-learn, which a fit already imported and a plan does not need.
    from dpensemble.engine.result import MODELS  # noqa: PLC0415

    result = model.result_
    if result.releases == MODELS:
        certificate = certificate_of_draws(result.design.scheme, result.design.n_units)
    elif result.charges is not None:
        certificate = certificate_of_sums(result.design.groups, list(result.charges))
    else:
        certificate = certificate_of(result.design, result.labels.n_asked)
    if held_back:
        stated = result.guarantee
        more = certificate_of_sums(
            (Group("held back", Budget(epsilon=stated.epsilon, delta=stated.delta)),), list(held_back)
        )
        certificate = certificate_of_parts([*certificate["parts"], *more["parts"]])
    return certificate | {"for_release": bool(result.guarantee.for_release)}


_SECONDS = 600
_SEEDED, _RELEASE = "NOT FOR RELEASE", "stated to be for release"


def _verifier_path() -> Path:
    """Return the path of the verifier, one file that imports nothing of this library."""
    here = Path(__file__).parents[1]
    for path in (here / "verify.py", here.parents[1] / "verify" / "verify.py"):
        if path.exists():
            return path
    raise FileError("the verifier must be installed: get verify/verify.py from the repository.")


def confirmed(path: Path) -> tuple[bool, str]:
    """Run the verifier on a file in a process of its own.

    Parameters
    ----------
    path : path
        The certificate.

    Returns
    -------
    yes : bool
        Whether the verifier confirms the certificate. False for an experiment, even if its arithmetic is right.
    said : str
        The verifier's sentence. See `release_stated`.

    Raises
    ------
    FileError
        If the verifier or python-flint is not installed.
    """
    try:
        # -I keeps this library and the current folder off its path.
        process = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(_verifier_path()), str(path)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no: not done after {_SECONDS} seconds"
    if "No module named 'flint'" in process.stderr:
        raise FileError("the verifier needs python-flint; pip install python-flint.")
    sentence = process.stdout.strip() or f"no: the verifier failed ({process.returncode})"
    return process.returncode == 0 and sentence.startswith("yes:"), sentence


def release_stated(said: str) -> bool | None:
    """Return whether the sentence of a confirmed certificate states it is for release, or None if it states neither.

    Parameters
    ----------
    said : str
        The verifier's sentence, from `confirmed`.

    Examples
    --------
    >>> release_stated("NOT FOR RELEASE: the noise came from a seed.")
    False
    """
    if said.startswith(_SEEDED):
        return False
    return True if said.startswith("yes:") and said.endswith(f"; {_RELEASE}") else None
