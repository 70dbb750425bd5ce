"""Certificates of plans and of runs, and the program that checks them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dpensemble.accounting import Accounting, Group
from dpensemble.accounting.meters.filter import FilterMeter
from dpensemble.allocation import BootstrapScheme
from dpensemble.certificates.draws import drawn_part, draws_of
from dpensemble.certificates.gates import gated_part
from dpensemble.certificates.listing import listing_of
from dpensemble.certificates.votes import coarsest, votes_part, within_rounding
from dpensemble.darrm import Allowance
from dpensemble.design import Drawn, PrivateTeachersDesign, VotingDesign
from dpensemble.errors import AccountingError, FileError
from dpensemble.laws import RandomizedResponseMajority
from dpensemble.laws.sampling import integer_weights

_FORMAT, _VERSION, _MOST_BYTES = "dpensemble certificate", 2, 5_000_000
# Room for what is stated beside the parts.
_MARGIN = 100
_SECONDS = 600
_MOST_TEACHERS = 199
# What a part says beyond how it is checked; of several parts with the same statement the strictest claim is kept.
_HELP = frozenset({"groups", "cover", "ratio", "windows", "block"})
_SEEDED, _RELEASE = "NOT FOR RELEASE", "stated to be for release"


def certificate_of(design: VotingDesign, labels: int) -> dict[str, Any]:
    """Return the certificate that so many answers keep the budget of every group of records.

    Parameters
    ----------
    design : VotingDesign
        A run with its budget and noise, such as that of a `Plan`.
    labels : int
        Number of answers; all of them are given.

    Returns
    -------
    dict
        Plain values for JSON. Public, like the settings: it holds the law for all counts that could occur.

    Raises
    ------
    AccountingError
        If the accounting of the run is not exact composition of one law, or too large for the verifier.

    Examples
    --------
    >>> from dpensemble import PATEClassifier, plan
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> design = PATEClassifier(law=LaplaceNoisyMax(10), n_teachers=20).design(n_classes=2)
    >>> found = plan(design, epsilon=1)
    >>> sorted(certificate_of(found.design, found.labels))
    ['delta', 'epsilon', 'format', 'parts', 'version']
    """
    stages = design.schedule.stages
    if isinstance(design, PrivateTeachersDesign) or design.accounting is not Accounting.EXACT or len(stages) > 1:
        raise AccountingError(
            "certificates are for exact accounting of votes under one law; use accounting='exact', and ordinary "
            "teachers."
        )
    if isinstance(design, Drawn):
        budget = design.groups[0].budget
        return _together([_part("drawn", budget.epsilon, budget.delta, drawn_part(design, labels))])
    law, meter = stages[0].law, design.meter() if design.gated else None
    parts = []
    for index, (group, cost) in enumerate(zip(design.groups, design.costs, strict=True)):
        turns, change = stages[0].pools[group.pool].turns(labels), design.change(group)
        if cost is None or not turns:
            continue
        if isinstance(meter, FilterMeter):
            body = gated_part(law, change, meter.filters[index])
        elif cost.parts is None:
            raise AccountingError("a cost that is known as a Renyi curve only cannot be certified; use two classes.")
        else:
            budget = within_rounding(group.budget, change.classes**3 * turns if change.classes > 2 else 0)
            listing = listing_of(law, change)
            body = votes_part(listing, coarsest(cost.layout(turns, budget.delta), listing, turns, budget), budget)
        parts.append(_part("votes", group.budget.epsilon, group.budget.delta, body))
    return _together(parts)


def certificate_of_draws(scheme: BootstrapScheme, n_units: int) -> dict[str, Any]:
    """Return the certificate of bagging alone: the chance that a record is drawn, at epsilon 0.

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
    # Above the chance itself, which balls cannot tell from its equal.
    delta = math.nextafter(scheme.inclusion_probability(n_units), 2.0)
    return _together([_part("drawn", 0.0, delta, draws_of(scheme, n_units))])


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
        parts.append(_part("sums", group.budget.epsilon, group.budget.delta, body))
    return _together(parts)


def certificate_of_majority(law: RandomizedResponseMajority, allowance: Allowance) -> dict[str, Any]:
    """Return the certificate that a majority of private teachers is as private as it is allowed to be.

    Parameters
    ----------
    law : RandomizedResponseMajority
        Its gamma must not fall away from the tie.
    allowance : Allowance
        Privacy of each teacher and of the answer, such as that of a `GammaSolution`.

    Raises
    ------
    AccountingError
        If gamma falls somewhere, or there are more than 199 teachers.

    Examples
    --------
    >>> from dpensemble.darrm import optimise_gamma
    >>> found = optimise_gamma(5, epsilon=0.1, m=2)
    >>> certificate_of_majority(found.law, found.allowance)["parts"][0]["kind"]
    'majority'
    """
    second = np.arange(allowance.n_teachers + 1)
    weights = integer_weights(law, np.stack([allowance.n_teachers - second, second], axis=1))[:, 1].tolist()
    if allowance.n_teachers > _MOST_TEACHERS or weights != sorted(weights):
        raise AccountingError(
            f"certificates are for majorities of up to {_MOST_TEACHERS} teachers whose gamma falls nowhere away from "
            "the tie; use constraints='monotone' and fewer teachers."
        )
    body = {"epsilon": repr(float(allowance.epsilon)), "delta": repr(float(allowance.Delta)), "weights": weights}
    epsilon = allowance.m * allowance.epsilon
    return _together([_part("majority", epsilon, allowance.delta, body)])


def certificate_of_fit(model: Any) -> dict[str, Any]:
    """Return the certificate of what a fitted estimator released.

    The field ``for_release`` is False when the noise came from a seed. The verifier does not accept such a run.

    Parameters
    ----------
    model : estimator
        One that votes, or one of label moments.

    Raises
    ------
    AccountingError
        If there is none for such a run; see `certificate_of`.
    """
    charges = getattr(model, "charges_", None)
    if charges is not None:
        found = certificate_of_sums(model.design_.groups, list(charges))
    else:
        found = certificate_of(model.design_, model.labels_.n_asked)
    return found | {"for_release": bool(model.guarantee_.for_release)}


def verifier_path() -> Path:
    """Return the verifier, one file that imports nothing of this library."""
    here = Path(__file__).parents[1]
    for path in (here / "verify.py", here.parents[1] / "verify" / "verify.py"):
        if path.exists():
            return path
    raise FileError("the verifier is not installed; get verify/verify.py from the repository.")


def confirmed(path: Path) -> tuple[bool, str]:
    """Run the verifier on a file in a process of its own.

    Parameters
    ----------
    path : path
        The certificate.

    Returns
    -------
    yes : bool
        Whether the verifier confirms the certificate. False for an experiment, whose arithmetic may be right.
    said : str
        The verifier's sentence; see `release_stated`.

    Raises
    ------
    FileError
        If the verifier or python-flint is not installed.
    """
    try:
        # -I: neither this library nor the folder at hand is on its path.
        found = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(verifier_path()), str(path)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no: not done after {_SECONDS} seconds"
    if "No module named 'flint'" in found.stderr:
        raise FileError("the verifier needs python-flint; pip install python-flint.")
    said = found.stdout.strip() or f"no: the verifier failed ({found.returncode})"
    return found.returncode == 0 and said.startswith("yes:"), said


def release_stated(said: str) -> bool | None:
    """Return whether a confirmed certificate is stated to be for release: None when that is not stated.

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


def _part(kind: str, epsilon: float, delta: float, body: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "epsilon": repr(float(epsilon)), "delta": repr(float(delta)), "body": body}


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    if not parts:
        raise AccountingError("no answer is charged to anybody, so there is nothing to certify.")
    parts = _distinct(parts)
    found = {
        "format": _FORMAT,
        "version": _VERSION,
        "epsilon": max((part["epsilon"] for part in parts), key=float),
        "delta": max((part["delta"] for part in parts), key=float),
        "parts": parts,
    }
    size = len(json.dumps(found, separators=(",", ":")))
    if size > _MOST_BYTES - _MARGIN:
        raise AccountingError(f"the certificate would have {size:,} bytes, and the verifier takes {_MOST_BYTES:,}.")
    return found


def _distinct(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return parts with different statements: groups with the same loss share one part, the strictest."""
    kept: dict[str, dict[str, Any]] = {}
    for part in sorted(parts, key=lambda one: float(one["epsilon"])):
        body = {name: value for name, value in part["body"].items() if name not in _HELP}
        kept.setdefault(json.dumps([part["kind"], body]), part)
    strictest = {id(part) for part in kept.values()}
    return [part for part in parts if id(part) in strictest]
