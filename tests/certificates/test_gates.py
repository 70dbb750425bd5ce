"""Certificates of gated queries under a purse, and the verifier's refusal of everything else."""

import copy
import json
import math
from fractions import Fraction
from functools import cache

import pytest

from dpensemble import PATEClassifier, plan
from dpensemble.accounting import Change, price
from dpensemble.accounting.meters.gated import _UnitBudget
from dpensemble.accounting.meters.scheduled import Group
from dpensemble.certificates import certificate_of
from dpensemble.certificates.witness import Parts
from dpensemble.errors import AccountingError
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, InteractiveNoisyMax

from ..tiny_votes import sampled_pairs, strongest_gated_delta
from .independent import body_of, claiming, said

LAW = ConfidentNoisyMax(threshold=14.0, threshold_sigma=200.0, sigma=40.0)


@cache
def text_of(law=LAW, epsilon=0.3, n_classes=2):
    design = PATEClassifier(law=law, n_teachers=20).design(n_classes=n_classes)
    found = plan(design, epsilon=epsilon, delta=1e-5)
    assert found.labels >= 8
    return json.dumps(certificate_of(found.design, found.labels))


@pytest.mark.parametrize(("n_classes", "weights", "more"), [(2, "are those of gnmax", 1), (3, "as listed", 4)])
def test_every_label_is_confirmed_and_more_are_not(tmp_path, n_classes, weights, more):
    """Of three classes the votes of few teachers lose less than those of many, for which labels are planned."""
    certificate = json.loads(text_of(n_classes=n_classes))
    body = body_of(certificate)
    text = said(tmp_path, certificate)
    assert f"{body['answers']} answers, each from 20 ballots in {n_classes} classes" in text
    assert f"weights {weights}, " in text
    assert "a check of sigma 200.0 costs " in text
    body["answers"] += more
    body["windows"] += [body["windows"][-1]] * (body["gate"]["check"] + body["gate"]["label"]) * more
    assert said(tmp_path, certificate).startswith("no: so many answers")


def corruptions():
    """Changes that make a true certificate claim what is not shown."""
    yield "no gate", lambda body: body.update(gate=None)
    for name in ("check", "label"):
        for by in (1, -1):
            yield f"{name} {by:+}", lambda body, name=name, by=by: body["gate"].update({name: body["gate"][name] + by})
    yield "free checks", lambda body: body["gate"].update(check=0)
    for sigma in ("199.0", "100.0", "1.0", "0"):
        yield f"sigma {sigma}", lambda body, sigma=sigma: body["gate"].update(sigma=sigma)
    for index in range(4):
        yield f"corner {index} left out", lambda body, index=index: body["gate"]["corners"].pop(index)
        yield (
            f"corner {index} inwards",
            lambda body, index=index: body["gate"]["corners"][index].__setitem__(
                0, body["gate"]["corners"][index][0] - 2**63 // 10**9
            ),
        )
        yield f"label's corner {index} left out", lambda body, index=index: body["groups"].pop(2 * index)
    yield "no corners", lambda body: body["gate"].update(corners=[])
    yield "a flat corner", lambda body: body["gate"].update(corners=[[2**62, 2**62]])
    yield "an answer more", lambda body: body.update(answers=body["answers"] + 1)
    yield "a unit less", lambda body: body["windows"].pop()
    yield "narrow windows", lambda body: body.update(windows=[[0, 0]] * len(body["windows"]))
    yield "two votes", lambda body: body.update(votes=2)
    yield "blocks from nowhere", lambda body: body.update(block=[1, 4])
    yield "another law", lambda body: body["law"].__setitem__(2, "50.0")
    yield (
        "ten thousand units a query",
        lambda body: (
            body.update(answers=1, windows=[[-60_000, 60_000]] + [[0, 0]] * 10_001)
            or body["gate"].update(check=1, label=10_000)
        ),
    )


def corruptions_of_more_classes():
    """The same where neighbours lie below one group each, instead of between corners."""
    for name, corrupt in corruptions():
        if not name.startswith(("label's corner", "another law")):
            yield name, corrupt
    yield "no cover", lambda body: body.update(cover=None)
    yield "covered by the first", lambda body: body.update(cover=[0] * len(body["cover"]))
    yield "a neighbour left out", lambda body: body["cover"].pop()
    yield "a group left out", lambda body: body["groups"].pop()
    yield "a group of one law", lambda body: body["groups"][0].__setitem__(0, body["groups"][0][1])
    yield "a group the other way", lambda body: body["groups"][-1].reverse()


PLANTED = {2: dict(corruptions()), 3: dict(corruptions_of_more_classes())}


@pytest.mark.parametrize(("n_classes", "name"), [(classes, name) for classes in PLANTED for name in PLANTED[classes]])
def test_planted_corruptions_are_rejected(tmp_path, n_classes, name):
    certificate = json.loads(text_of(n_classes=n_classes))
    before = copy.deepcopy(certificate)
    PLANTED[n_classes][name](body_of(certificate))
    assert certificate != before
    assert said(tmp_path, certificate).startswith("no: ")


def test_half_the_delta_is_refused(tmp_path):
    certificate = json.loads(text_of())
    assert said(tmp_path, claiming(certificate, delta=5e-6)).startswith("no: so many answers")


@pytest.mark.parametrize(
    ("law", "change"),
    [
        (ConfidentNoisyMax(2.0, 3.0, 2.0), Change(ballots=3, classes=2)),
        (ConfidentNoisyMax(2.0, 2.0, 8.0), Change(ballots=3, classes=2)),
        (ConfidentNoisyMax(2.0, 3.0, 3.0), Change(ballots=2, classes=3)),
    ],
    ids=str,
)
def test_a_third_route_in_exact_fractions(tmp_path, law, change):
    """Two answers of three teachers: what the verifier finds is above every strategy, and not far above."""
    queries, epsilon = 2, math.log(1.5)
    one = price(law, change)
    composition = one.answered.composition
    allowed = composition.delta(queries, epsilon) * 1.001
    purse = _UnitBudget(Group("all", Budget(epsilon=epsilon, delta=allowed), pool=0), one, composition)
    assert purse.within == queries
    parts = Parts()
    purse.certify(parts, law, change)
    whole = {"format": "dpensemble certificate", "version": 2, "epsilon": "0", "delta": "0", "parts": parts.parts}
    assert "confirmed" in said(tmp_path, claiming(whole, epsilon=epsilon, delta=allowed))
    prices = composition.check_units, composition.label_units
    pairs = sampled_pairs(law, change.ballots, change.classes)
    truth = float(strongest_gated_delta(pairs, prices, queries * composition.query_units, Fraction(3, 2)))
    assert 0.3 * allowed < truth < allowed
    assert said(tmp_path, claiming(whole, epsilon=epsilon, delta=truth * 0.999)).startswith("no: so many answers")


def test_blocks_of_queries_are_confirmed(tmp_path):
    """The same purse unit by unit, and as blocks that lose a query each."""
    certificate = json.loads(text_of(epsilon=0.3))
    body = body_of(certificate)
    query = body["gate"]["check"] + body["gate"]["label"]
    size = body["answers"] // 2
    rest = body["answers"] - (size - 1)
    body.update(block=[size, 1], windows=[[0, 0]] + [[-900, 900]] * (max(size, rest) * query))
    for epsilon, word in ((0.36, "confirmed"), (0.29, "no: so many answers")):
        assert word in said(tmp_path, claiming(certificate, epsilon=epsilon))


def test_a_student_to_compare_with_changes_nothing():
    """Interactive checks move by a vote, too, for every prediction of the student."""
    law = InteractiveNoisyMax(threshold=14.0, threshold_sigma=200.0, sigma=40.0)
    assert body_of(json.loads(text_of(law)))["gate"] == body_of(json.loads(text_of()))["gate"]


def test_every_group_with_a_purse_has_a_part():
    law = ConfidentNoisyMax(threshold=14.0, threshold_sigma=200.0, sigma=40.0)
    design = PATEClassifier(law=law, n_teachers=20).design(n_classes=2)
    small, large = (certificate_of(plan(design, epsilon=e, delta=1e-5).design, 1) for e in (0.3, 0.35))
    assert body_of(small)["answers"] < body_of(large)["answers"]


@pytest.mark.parametrize(
    ("law", "n_classes", "epsilon", "why"),
    [
        (ConfidentNoisyMax(12.0, 9.0, 4.0), 2, 3.0, "a Renyi filter admits these gated queries"),
        (LAW, 10, 0.4, "too many counts"),
    ],
)
def test_what_no_certificate_can_hold_is_refused(law, n_classes, epsilon, why):
    found = plan(PATEClassifier(law=law, n_teachers=20).design(n_classes=n_classes), epsilon=epsilon)
    with pytest.raises(AccountingError, match=why):
        certificate_of(found.design, found.labels)
