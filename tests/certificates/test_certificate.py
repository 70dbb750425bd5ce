"""The certified claims, and the verifier's refusal of everything else.

Certificates of votes of teachers that hold a record by chance.

Certificates of gated queries under a purse, and the verifier's refusal of everything else.

Certificates of what was released: of noisy sums in every run, of votes where asked for.
"""

import ast
import copy
import json
import math
import sys
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dpensemble import BaggedPATEClassifier, LabelMomentsClassifier, PATEClassifier, PrivateMajorityClassifier, plan
from dpensemble.accounting import Change, Group, price
from dpensemble.accounting.meters.worst_case import _UnitBudget
from dpensemble.certificates import (
    certificate_of,
    certificate_of_fit,
    certificate_of_majority,
    certificate_of_sums,
    confirmed,
    release_stated,
)
from dpensemble.certificates.certificate import _Parts, _verifier_path
from dpensemble.cli import main
from dpensemble.darrm import optimise_gamma
from dpensemble.errors import AccountingError
from dpensemble.guarantee import Budget
from dpensemble.laws import (
    ConfidentNoisyMax,
    ExponentialVote,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
    RandomizedResponseMajority,
    TableLaw,
)
from dpensemble.releases import SumsMeter

from ..counting import work_of
from ..tiny_votes import sampled_pairs, strongest_delta, strongest_gated_delta
from .independent import body_of, claiming, said, verify


@cache
def text_of(law, n_teachers=20, n_classes=2, epsilon=1.0):
    design = PATEClassifier(law=law, n_teachers=n_teachers).design(n_classes=n_classes)
    found = plan(design, epsilon=epsilon, delta=1e-5)
    return json.dumps(certificate_of(found.design, found.labels))


LAWS = [
    (LaplaceNoisyMax(10.0), 20, 2),
    (GaussianNoisyMax(6.0), 20, 2),
    (ExponentialVote(10.0), 20, 2),
    (OptimalVote(40.0, 0.5), 20, 2),
    (LaplaceNoisyMax(8.0), 10, 3),
    (GaussianNoisyMax(8.0), 40, 3),
    (OptimalVote(60.0, 0.5), 20, 3),
]


@pytest.mark.parametrize(("law", "n_teachers", "n_classes"), LAWS, ids=str)
def test_every_label_is_confirmed_and_one_more_is_not(tmp_path, law, n_teachers, n_classes):
    certificate = json.loads(text_of(law, n_teachers, n_classes))
    assert "confirmed" in said(tmp_path, certificate)
    body = certificate["parts"][0]["body"]
    body["answers"] += 1
    body["windows"].append(body["windows"][-1])
    assert said(tmp_path, certificate).startswith("no: so many answers")


def moved(value, by):
    return repr(float(value) * by)


def corruptions():
    """Changes that make a true certificate claim more than it shows. Each is a name and a function that makes it."""

    def weight(row, by):
        def change(c):
            weights = body_of(c)["weights"][row]
            weights[0] += by
            weights[1] -= by

        return change

    for row in (0, 3, 7, 10, 13, 20):
        # A hundred-billionth of a probability is more than the sampler's rounding.
        for by in (2**63 // 10**11, -(2**63) // 10**11):
            if row or by < 0:
                yield f"weight of row {row} by {by}", weight(row, by)
    for row in (1, 9, 19):
        yield f"last digit of row {row}", lambda c, row=row: body_of(c)["weights"][row].__setitem__(0, 1)
        yield f"row {row} swapped", lambda c, row=row: body_of(c)["weights"][row].reverse() or weight(row, 1)(c)
        yield f"row {row} left out", lambda c, row=row: body_of(c)["weights"].pop(row)
    for votes in (2, 3, 20):
        yield f"{votes} votes", lambda c, votes=votes: body_of(c).update(votes=votes)
        yield f"weight {votes}", lambda c, votes=votes: body_of(c).update(weight=votes)
    for by in (0.5, 0.1, 1e-3):
        yield f"delta times {by}", lambda c, by=by: [x.update(delta=moved(x["delta"], by)) for x in (c, c["parts"][0])]
        yield f"own delta over {by}", lambda c, by=by: c["parts"][0].update(delta=moved(c["delta"], 1 / by))
        yield (
            f"epsilon times {by}",
            lambda c, by=by: [x.update(epsilon=moved(x["epsilon"], by)) for x in (c, c["parts"][0])],
        )
    for more in (1, 5, 100):

        def longer(c, more=more):
            body_of(c)["answers"] += more
            body_of(c)["windows"] += [body_of(c)["windows"][-1]] * more

        yield f"{more} labels more", longer
        yield (
            f"{more} labels more, not followed",
            lambda c, m=more: body_of(c).update(answers=body_of(c)["answers"] + m),
        )
    for name, value in (("scale", "9.999"), ("scale", "10.001"), ("scale", "5.0"), ("scale", "20.0")):
        yield f"{name} {value}", lambda c, value=value: body_of(c)["law"].__setitem__(2, value)
    yield "mixing", lambda c: body_of(c)["law"].__setitem__(1, "2e-06")
    yield "another law", lambda c: body_of(c)["law"].__setitem__(0, "gnmax")
    for ballots in (19, 21):
        yield f"{ballots} ballots", lambda c, ballots=ballots: body_of(c).update(ballots=ballots)
    yield "three classes", lambda c: body_of(c).update(classes=3)

    def flatter(c):
        for side in (side for group in body_of(c)["groups"] for side in group):
            even = 2**63 // len(side)
            side[:] = [2**63 - (len(side) - 1) * even, *[even] * (len(side) - 1)]

    yield "groups that reveal nothing", flatter
    for index in (0, 3):
        yield f"group {index} left out", lambda c, index=index: body_of(c)["groups"].pop(index)
    yield "group off by a unit", lambda c: body_of(c)["groups"][2][0].__setitem__(0, body_of(c)["groups"][2][0][0] + 1)
    yield "a group of nothing", lambda c: body_of(c)["groups"][0].__setitem__(1, [0] * len(body_of(c)["groups"][0][1]))
    yield "coarser grid", lambda c: body_of(c).update(ratio=int(body_of(c)["ratio"] * 1.5))
    yield "no grid", lambda c: body_of(c).update(ratio=1 << 40)
    yield "narrow windows", lambda c: body_of(c).update(windows=[[0, 0]] * len(body_of(c)["windows"]))
    yield "blocks from nowhere", lambda c: body_of(c).update(block=[1, 1])


PLANTED = dict(corruptions())
COVER = {
    **{f"pair {index} left out": lambda cover, index=index: cover.pop(index) for index in (0, 5, 20, 39)},
    "another group": lambda cover: cover.__setitem__(0, cover[0] + 1 if cover[0] == 0 else 0),
    "a group that is none": lambda cover: cover.__setitem__(3, 300),
    "pairs covered by the first group": lambda cover: cover.__setitem__(slice(None), [0] * len(cover)),
    "a pair more": lambda cover: cover.append(0),
}


def test_there_are_at_least_fifty_planted_corruptions():
    assert len(PLANTED) + len(COVER) >= 50


@pytest.mark.parametrize("name", PLANTED)
def test_planted_corruptions_are_rejected(tmp_path, name):
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0)))
    before = copy.deepcopy(certificate)
    PLANTED[name](certificate)
    assert certificate != before
    assert said(tmp_path, certificate).startswith("no: ")


@pytest.mark.parametrize("name", COVER)
def test_who_covers_whom_is_checked(tmp_path, name):
    """Of three classes each pair of counts names its group."""
    certificate = json.loads(text_of(LaplaceNoisyMax(8.0), 10, 3))
    assert len(body_of(certificate)["groups"]) > 1
    COVER[name](body_of(certificate)["cover"])
    assert said(tmp_path, certificate).startswith("no: ")


def test_many_answers_are_confirmed_in_blocks(tmp_path):
    """The same answers one by one, and as four blocks and a rest, which lose half an answer each."""
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0), epsilon=2.0))
    body = body_of(certificate)
    assert body["answers"] >= 24
    size = body["answers"] // 5
    body.update(block=[size, 4], windows=[[0, 0]] + [[-600, 400]] * (body["answers"] - 4 * size))
    for epsilon, word in (("2.3", "confirmed"), ("1.9", "no: so many answers")):
        for x in (certificate, certificate["parts"][0]):
            x["epsilon"] = epsilon
        assert word in said(tmp_path, certificate)


def test_a_third_route_in_exact_fractions(tmp_path):
    """Three answers of four teachers: every adaptive strategy on the sampled weights, without any grid."""
    law = LaplaceNoisyMax(3.0)
    pairs = sampled_pairs(law, 4, 2)
    one = price(law, Change(ballots=4, classes=2)).label
    for exp_epsilon in (Fraction(3, 2), Fraction(5, 2)):
        truth = float(strongest_delta(pairs, 3, exp_epsilon))
        epsilon = float(np.log(float(exp_epsilon)))
        found = (one * 3).layout(3, 1e-2).delta(3, epsilon)
        assert truth <= found <= 1.02 * truth + 1e-6
        certificate = json.loads(text_of(law, 4, 2, 3.0))
        body = body_of(certificate)
        body.update(answers=3, windows=[[0, 0]] + [[-400, 400]] * 3)
        for delta, word in ((found * 1.05 + 1e-6, "confirmed"), (truth * 0.999, "no: so many answers")):
            for x in (certificate, certificate["parts"][0]):
                x.update(epsilon=repr(epsilon), delta=repr(delta))
            assert word in said(tmp_path, certificate)


def sums(noise=1.0):
    groups = (
        Group("all", Budget(epsilon=1.0, delta=1e-5)),
        Group("few", Budget(epsilon=0.5, delta=1e-5), weight=0.5),
    )
    sigma = SumsMeter(groups).sigma(0.5) * noise
    return certificate_of_sums(groups, [{"sigma": sigma, "variance": 2**60, "entries": 500}] * 2)


def test_gaussian_sums(tmp_path):
    assert "confirmed" in said(tmp_path, sums())
    assert said(tmp_path, sums(0.999)).startswith("no: these sums")
    for wrong in ({"variance": 2**39}, {"entries": 0}, {"sigma": "0"}, {"weight": "2"}, {"entries": 2**50}):
        certificate = sums()
        certificate["parts"][0]["body"]["rounds"][0].update(wrong)
        assert said(tmp_path, certificate).startswith("no: ")


def test_bagging(tmp_path):
    body = {"scheme": "with-replacement", "records": 60000, "subsample": 300, "models": 1, "parts": []}
    part = {"kind": "drawn", "epsilon": "0", "delta": "0.005", "body": body}
    whole = {"format": "dpensemble certificate", "version": 2, "epsilon": "0", "delta": "0.005", "parts": [part]}
    assert "confirmed" in said(tmp_path, whole)
    body["subsample"] = 301
    assert said(tmp_path, whole).startswith("no: such draws are private at delta")


@cache
def majority(n_teachers=9, Delta=0.0, delta=0.0):
    found = optimise_gamma(n_teachers, epsilon=0.2, m=3, Delta=Delta, delta=delta)
    return json.dumps(certificate_of_majority(found.law, found.allowance))


@pytest.mark.parametrize(("n_teachers", "Delta", "delta"), [(9, 0.0, 0.0), (9, 1e-5, 3e-5), (8, 0.0, 0.0)])
def test_a_private_majority_is_confirmed(tmp_path, n_teachers, Delta, delta):
    assert "placements" in said(tmp_path, majority(n_teachers, Delta, delta))


MAJORITY_CORRUPTIONS = {
    "teachers less private": lambda part: part["body"].update(epsilon="0.2001"),
    "teachers with a delta": lambda part: part["body"].update(delta="0.0001"),
    "a smaller epsilon": lambda part: part.update(epsilon="0.5999"),
    "more often the majority": lambda part: part["body"].update(weights=[0] * 5 + [2**63] * 5),
    "one weight": lambda part: part["body"]["weights"].__setitem__(5, part["body"]["weights"][5] + 2**43),
    "one weight at the end": lambda part: part["body"]["weights"].__setitem__(1, part["body"]["weights"][1] - 2**43),
    "not rising": lambda part: part["body"]["weights"].reverse(),
    "a teacher left out": lambda part: part["body"]["weights"].pop(4),
    "a teacher more": lambda part: part["body"]["weights"].insert(0, 0),
    "no teachers": lambda part: part["body"].update(weights=[1]),
    "above the total": lambda part: part["body"]["weights"].__setitem__(-1, 2**63 + 1),
    "a negative epsilon": lambda part: part["body"].update(epsilon="-0.2"),
}


@pytest.mark.parametrize("name", MAJORITY_CORRUPTIONS)
def test_a_corrupted_majority_is_refused(tmp_path, name):
    certificate = json.loads(majority())
    MAJORITY_CORRUPTIONS[name](certificate["parts"][0])
    assert said(tmp_path, certificate).startswith("no: ")


def test_majorities_that_cannot_be_certified_are_told():
    found = optimise_gamma(5, epsilon=0.2, m=2)
    falling = RandomizedResponseMajority((0.5, 0.9, 0.9, 0.9, 0.9, 0.5))
    with pytest.raises(AccountingError, match="never falls away from"):
        certificate_of_majority(falling, found.allowance)


def nested(depth):
    return "[" * depth + "]" * depth


MALFORMED = {
    "empty": "",
    "cut in half": lambda text: text[: len(text) // 2],
    "last brace missing": lambda text: text[:-1],
    "another version": lambda text: text.replace('"version": 2', '"version": 3'),
    "another format": lambda text: text.replace("dpensemble certificate", "certificate"),
    "NaN": lambda text: text.replace('"delta": "1e-05"', '"delta": NaN'),
    "NaN in quotes": lambda text: text.replace('"1e-05"', '"NaN"'),
    "infinity in quotes": lambda text: text.replace('"1e-05"', '"Infinity"'),
    "a float": lambda text: text.replace('"1e-05"', "1e-05"),
    "a huge exponent": lambda text: text.replace('"1.0"', '"1e999999999"'),
    "a huge number of answers": lambda text: text.replace('"answers": 8', '"answers": ' + "9" * 4000),
    "a number of ten thousand digits": lambda text: text.replace('"answers": 8', '"answers": ' + "9" * 10_000),
    "true for a number": lambda text: text.replace('"votes": 1', '"votes": true'),
    "negative": lambda text: text.replace('"weight": 1', '"weight": -1'),
    "deep nesting": nested(100_000),
    "deep nesting inside": lambda text: text.replace('"block": null', f'"block": {nested(50_000)}'),
    "a list instead": "[1, 2, 3]",
    "a word": '"certificate"',
    "a field more": lambda text: text.replace('"version": 2', '"version": 2, "more": 1'),
    "ballots beyond the table": lambda text: text.replace('"ballots": 20', '"ballots": 5000'),
    "many classes": lambda text: text.replace('"classes": 2', '"classes": 10'),
    "null where a list was": lambda text: text.replace('"windows": [', '"windows": null, "windows2": ['),
    "six megabytes": " " * 6_000_000,
    "not text": "\x00\x01\x02",
    "kind as a list": lambda text: text.replace('"kind": "votes"', '"kind": []'),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_certificates_are_refused_at_once(tmp_path, name):
    make = MALFORMED[name]
    text = make if isinstance(make, str) else make(text_of(LaplaceNoisyMax(10.0)))
    assert text != text_of(LaplaceNoisyMax(10.0))
    work = work_of(lambda: said(tmp_path, text))
    assert work.found.startswith("no: ")
    # A good certificate of this size takes 30,000 lines, and a file may have five megabytes.
    assert work.lines < 20_000
    assert work.bytes < 10_000_000


EXTREME = [[[2**63 - 1, 1], [1, 2**63 - 1]], [[1, 2**63 - 1], [2**63 - 1, 1]]]
UNLIKE = [[2**63 - 2**61 - row, 2**61 + row] for row in (0, 2**61, 2**60)]
LARGE = {
    "numbers of 120,000 digits": {"answers": 1, "ratio": 1 << 42, "windows": [[0, 0], [60_000, 60_000]]},
    "powers of 240 million nodes": {"answers": 2001, "block": [1, 2000], "windows": [[0, 0], [-60_000, 2000]]},
    "two thousand blocks of wide functions": {
        "answers": 20_001,
        "block": [10, 2000],
        "windows": [[-5000, 5000]] * 11,
    },
    "narrow windows far from the start": {
        "answers": 19_999,
        "groups": EXTREME * 150,
        "ratio": (1 << 40) + (1 << 34),
        "windows": [[-60_000, -60_000]] * 20_000,
    },
    "wide answers in narrow windows": {
        "answers": 19_999,
        "groups": EXTREME * 150,
        "ratio": (1 << 40) + (1 << 34),
        "windows": [[0, 0]] * 20_000,
    },
    "groups of nothing in tiny windows": {
        "answers": 19_989,
        "groups": EXTREME + [[[1 << 63], [1 << 63]]] * 998,
        "cover": [0] * 40,
        "ratio": (1 << 40) + (1 << 35),
        "windows": [[-1, 1]] * 19_990,
    },
    "two thousand blocks of a narrow function": {
        "answers": 2001,
        "block": [1, 2000],
        "windows": [[0, 0], [-5000, 2500]],
    },
    "votes far above the ballots": {
        "answers": 1,
        "ballots": 2,
        "votes": 50_000,
        "weight": 50_000,
        "law": ["table"],
        "weights": UNLIKE,
        "groups": EXTREME,
        "cover": None,
        "windows": [[0, 0], [0, 0]],
    },
}


@pytest.mark.parametrize("name", LARGE)
def test_what_would_take_gigabytes_or_hours_is_refused_at_once(tmp_path, name):
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0)))
    body_of(certificate).update(LARGE[name])
    work = work_of(lambda: said(tmp_path, certificate))
    assert work.found.startswith("no: ")
    # What is read before the work is known: up to 20,000 windows, and a thousand groups.
    assert work.lines < 2_000_000
    assert work.bytes < 10_000_000


def test_parts_share_what_work_a_file_may_take(tmp_path, monkeypatch):
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0)))
    said(tmp_path, certificate)
    monkeypatch.setattr(verify, "MOST_WORK", 1.5 * verify.WORK[0])
    assert "confirmed" in said(tmp_path, certificate)
    certificate["parts"] *= 2
    assert said(tmp_path, certificate) == "no: the grid is too large"


def test_no_more_pairs_are_listed_than_a_cover_may_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "MOST_PAIRS", 39)
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0)))
    body_of(certificate).update(groups=EXTREME, cover=None)
    assert said(tmp_path, certificate) == "no: pair 40 of counts is not covered by its group"


def test_classes_of_as_many_votes_are_treated_alike(tmp_path):
    """Falling counts stand for all others only if no class is preferred.

    Of (0, 1, 1) and (1, 1, 0) these weights would give the middle class 0.6 and 0.05. No pair that begins with falling
    counts lists this. At epsilon 2 delta is 0.23, not 0.001.
    """
    part = 2**63 // 20
    one, two = [2**63 - 8 * part, 4 * part, 4 * part], [12 * part, part, 2**63 - 13 * part]
    below = [two[0], two[2], two[1]]
    groups = [[one, two], [one, below], [two, [one[1], one[0], one[2]]]]
    groups += [[two, [two[2], two[0], two[1]]], [two, one], [two, below]]
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0)))
    body_of(certificate).update(
        answers=1,
        ballots=2,
        classes=3,
        law=["table"],
        weights=[one, two],
        groups=groups,
        cover=list(range(6)),
        windows=[[0, 0], [-200, 200]],
    )
    assert said(tmp_path, claiming(certificate, epsilon=2.0, delta=1e-3)).endswith("to be treated alike")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_corners_stand_for_two_outcomes_only(tmp_path, n_classes):
    """Groups of more outcomes, and counts of more classes, are not points between corners."""
    certificate = json.loads(text_of(LaplaceNoisyMax(8.0), 10, n_classes))
    of_three, of_two = (body_of(json.loads(text_of(LaplaceNoisyMax(8.0), 10, n)))["groups"] for n in (3, 2))
    assert all(len(side) == 2 for group in of_two for side in group)
    body_of(certificate).update(cover=None, groups=of_two if n_classes == 3 else [*of_two, of_three[0]])
    assert said(tmp_path, certificate) == "no: corners are for two outcomes"


def test_the_verifier_shares_no_code_and_is_short():
    source = _verifier_path().read_text(encoding="utf-8")
    names = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert names <= set(sys.stdlib_module_names) | {"flint"}
    assert "__import__" not in source
    assert "importlib" not in source
    # With eleven lines for sums whose noise several sites share.
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 347


def test_a_yes_states_what_it_confirms(tmp_path):
    """Ballots, classes, votes that a record changes, law and scale, rounds and noise of sums, and the part's group."""
    votes = said(tmp_path, text_of(OptimalVote(40.0, 0.5)))
    for fact in ("20 ballots in 2 classes", "a record changes 1 ballot of weight 1", "optimal, reach 40, shape 0.5"):
        assert fact in votes
    first, second = said(tmp_path, sums()).split("; ")[:2]
    assert "confirmed: part 1 of 2: 2 rounds of Gaussian sums, sigma " in first
    assert second.startswith("part 2 of 2, for other records: 2 rounds")
    assert "a record's weight 0.5, delta at most" in second
    assert "each (epsilon 0.2, delta 0), 55 placements" in said(tmp_path, majority())


def again(certificate, **changes):
    """A copy of the first part behind all others, with changes that do not matter."""
    part = copy.deepcopy(certificate["parts"][0])
    part.update(changes)
    certificate["parts"].append(part)
    return part["body"]


def test_a_repeated_part_is_refused(tmp_path):
    """Two releases of the same records cost more than one, and no part may stand for both."""
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0)))
    again(certificate)["windows"].insert(0, [0, 0])
    del certificate["parts"][1]["body"]["windows"][1]
    certificate["parts"][1]["body"]["windows"][-1][0] -= 1
    assert said(tmp_path, certificate) == "no: part 2 repeats part 1"
    certificate = sums()
    body = again(certificate, delta="1.000e-5")
    body["rounds"][0]["weight"] = "1.00"
    assert said(tmp_path, certificate) == "no: part 3 repeats part 1"


def test_groups_with_the_same_loss_share_a_part(tmp_path):
    groups = [Group(name, Budget(epsilon=epsilon, delta=1e-5)) for name, epsilon in (("a", 1.2), ("b", 1.0))]
    sigma = SumsMeter(tuple(groups)).sigma(0.5)
    certificate = certificate_of_sums(tuple(groups), [{"sigma": sigma, "variance": 2**60, "entries": 500}])
    assert [part["epsilon"] for part in certificate["parts"]] == ["1.0"]
    assert "confirmed" in said(tmp_path, certificate)


@pytest.mark.parametrize(
    ("written", "twice"),
    [('"version": 2', '"version": 2, "version": 2'), ('"answers": 8', '"answers": 8, "answers": 1000')],
)
def test_a_field_that_is_named_twice_is_refused(tmp_path, written, twice):
    text = text_of(LaplaceNoisyMax(10.0)).replace(written, twice)
    assert said(tmp_path, text) == "no: an object names a field twice"


def test_seeded_noise_is_not_for_release(tmp_path):
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0)))
    path = tmp_path / "certificate.json"

    def stated():
        path.write_text(json.dumps(certificate))
        yes, text = confirmed(path)
        return yes, release_stated(text), text

    assert stated()[:2] == (True, None)
    assert stated()[2].endswith("; whether this is for release is not stated")
    certificate["for_release"] = True
    assert stated()[:2] == (True, True)
    certificate["for_release"] = False
    assert stated()[:2] == (False, False)
    assert "NOT FOR RELEASE" in stated()[2]
    assert "(epsilon 1, delta 1e-05) confirmed: 8 answers" in stated()[2]
    # An error in the arithmetic comes first.
    body_of(certificate)["answers"] = 9
    assert stated()[2].startswith("no: ")


@pytest.mark.parametrize("odd", [None, 0, 1, "true", "False", [], {}])
def test_release_is_true_or_false(tmp_path, odd):
    certificate = json.loads(text_of(LaplaceNoisyMax(10.0))) | {"for_release": odd}
    assert said(tmp_path, certificate).startswith("no: ")


def test_it_runs_in_a_process_of_its_own(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(text_of(LaplaceNoisyMax(10.0)))
    yes, text = confirmed(path)
    assert yes
    assert text.startswith("yes: (epsilon 1, delta 1e-05) confirmed: 8 answers, each from 20 ballots in 2 classes, ")
    path.write_text("{}")
    assert confirmed(path) == (False, "no: the file must have exactly the fields format version epsilon delta parts")


@pytest.mark.parametrize(
    ("law", "options", "match"),
    [
        (ConfidentNoisyMax(12.0, 9.0, 4.0), {}, "a Renyi filter admits these gated queries"),
        (LaplaceNoisyMax(10.0), {"accounting": "published"}, "accounting='exact'"),
    ],
)
def test_what_cannot_be_certified_is_said(law, options, match):
    design = PATEClassifier(law=law, n_teachers=20, **options).design(n_classes=2)
    found = plan(design, epsilon=3.0)
    with pytest.raises(AccountingError, match=match):
        certificate_of(found.design, found.labels)


def test_a_law_of_a_table_is_certified_as_listed(tmp_path):
    text = text_of(TableLaw(((0.6, 0.4), (0.55, 0.45), (0.45, 0.55), (0.4, 0.6))), 3, 2, 2.0)
    assert "weights as listed" in said(tmp_path, text)


@cache
def text_of_draws(scheme="with-replacement"):
    model = BaggedPATEClassifier(law=GaussianNoisyMax(12.0), n_teachers=20, scheme=scheme, subsample=10)
    found = plan(model.design(n_classes=2, n_records=1000), epsilon=1.0, delta=1e-4)
    assert found.labels >= 5
    return json.dumps(certificate_of(found.design, found.labels))


@pytest.mark.parametrize("scheme", ["with-replacement", "subsets", "distinct"])
def test_every_label_of_drawn_records_is_confirmed_and_one_more_is_not(tmp_path, scheme):
    certificate = json.loads(text_of_draws(scheme))
    parts = body_of(certificate)["parts"]
    assert len(parts) == 1 if scheme == "distinct" else len(parts) > 2
    assert f"{len(parts)} numbers of holders" in said(tmp_path, certificate)
    for part in parts:
        part["body"]["answers"] += 1
        part["body"]["windows"].append(part["body"]["windows"][-1])
    assert said(tmp_path, certificate).startswith("no: ")


def first(body):
    return body["parts"][0]


CORRUPTIONS = {
    "more records a teacher": lambda body: body.update(subsample=11),
    "fewer records": lambda body: body.update(records=900),
    "other draws": lambda body: body.update(scheme="distinct"),
    "unknown draws": lambda body: body.update(scheme="some"),
    "more teachers": lambda body: body.update(models=21),
    "no parts": lambda body: body.update(parts=[]),
    "first part left out": lambda body: body["parts"].pop(0),
    "last part twice": lambda body: body["parts"].append(body["parts"][-1]),
    "a larger epsilon inside": lambda body: first(body).update(epsilon=repr(float(first(body)["epsilon"]) * 1.001)),
    "a smaller delta inside": lambda body: body["parts"][-1].update(delta="1e-9"),
    "fewer votes": lambda body: body["parts"][1]["body"].update(votes=1),
    "fewer ballots": lambda body: first(body)["body"].update(ballots=19),
    "a weight more": lambda body: first(body)["body"].update(weight=2),
    "an answer more": lambda body: first(body)["body"].update(answers=first(body)["body"]["answers"] + 1),
    "a part with fewer answers": lambda body: (
        first(body)["body"].update(answers=first(body)["body"]["answers"] - 1) or first(body)["body"]["windows"].pop(0)
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_planted_corruptions_of_draws_are_rejected(tmp_path, name):
    certificate = json.loads(text_of_draws())
    before = copy.deepcopy(certificate)
    CORRUPTIONS[name](body_of(certificate))
    assert certificate != before
    assert said(tmp_path, certificate).startswith("no: ")


def test_several_votes_of_many_classes_are_not_certified():
    model = BaggedPATEClassifier(law=GaussianNoisyMax(12.0), n_teachers=20, scheme="subsets", subsample=10)
    found = plan(model.design(n_classes=3, n_records=1000), epsilon=1.0, delta=1e-4)
    with pytest.raises(AccountingError, match="records that change one vote; got 2 votes"):
        certificate_of(found.design, found.labels)


LAW = ConfidentNoisyMax(threshold=14.0, threshold_sigma=200.0, sigma=40.0)


@cache
def text_of_gates(law=LAW, epsilon=0.3, n_classes=2):
    design = PATEClassifier(law=law, n_teachers=20).design(n_classes=n_classes)
    found = plan(design, epsilon=epsilon, delta=1e-5)
    assert found.labels >= 8
    return json.dumps(certificate_of(found.design, found.labels))


@pytest.mark.parametrize(("n_classes", "weights", "more"), [(2, "are those of gnmax", 1), (3, "as listed", 4)])
def test_every_label_is_confirmed_and_more_are_not(tmp_path, n_classes, weights, more):
    """Of three classes the votes of few teachers lose less than those of many, for which labels are planned."""
    certificate = json.loads(text_of_gates(n_classes=n_classes))
    body = body_of(certificate)
    text = said(tmp_path, certificate)
    assert f"{body['answers']} answers, each from 20 ballots in {n_classes} classes" in text
    assert f"weights {weights}, " in text
    assert "a check of sigma 200.0 costs " in text
    body["answers"] += more
    body["windows"] += [body["windows"][-1]] * (body["gate"]["check"] + body["gate"]["label"]) * more
    assert said(tmp_path, certificate).startswith("no: so many answers")


def corruptions_of_gates():
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
    for name, corrupt in corruptions_of_gates():
        if not name.startswith(("label's corner", "another law")):
            yield name, corrupt
    yield "no cover", lambda body: body.update(cover=None)
    yield "covered by the first", lambda body: body.update(cover=[0] * len(body["cover"]))
    yield "a neighbour left out", lambda body: body["cover"].pop()
    yield "a group left out", lambda body: body["groups"].pop()
    yield "a group of one law", lambda body: body["groups"][0].__setitem__(0, body["groups"][0][1])
    yield "a group the other way", lambda body: body["groups"][-1].reverse()


PLANTED_GATES = {2: dict(corruptions_of_gates()), 3: dict(corruptions_of_more_classes())}


@pytest.mark.parametrize(
    ("n_classes", "name"), [(classes, name) for classes in PLANTED_GATES for name in PLANTED_GATES[classes]]
)
def test_planted_corruptions_of_gates_are_rejected(tmp_path, n_classes, name):
    certificate = json.loads(text_of_gates(n_classes=n_classes))
    before = copy.deepcopy(certificate)
    PLANTED_GATES[n_classes][name](body_of(certificate))
    assert certificate != before
    assert said(tmp_path, certificate).startswith("no: ")


def test_half_the_delta_is_refused(tmp_path):
    certificate = json.loads(text_of_gates())
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
def test_a_third_route_of_gates_in_exact_fractions(tmp_path, law, change):
    """Two answers of three teachers: what the verifier finds is above every strategy, and not far above."""
    queries, epsilon = 2, math.log(1.5)
    one = price(law, change)
    composition = one.answered.composition
    allowed = composition.delta(queries, epsilon) * 1.001
    purse = _UnitBudget(Group("all", Budget(epsilon=epsilon, delta=allowed), pool=0), one, composition)
    assert purse.within == queries
    parts = _Parts()
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
    certificate = json.loads(text_of_gates(epsilon=0.3))
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
    assert body_of(json.loads(text_of_gates(law)))["gate"] == body_of(json.loads(text_of_gates()))["gate"]


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


RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(400, 3)), RNG.normal(size=(250, 3))
Y = (X[:, 0] > 0).astype(int)
SHARED = {"classes": [0, 1], "delta": 1e-4, "insecure_release_seed": 0, "random_state": 0}
ARITHMETIC = "NOT FOR RELEASE: the noise came from a seed, with which it can be removed. The arithmetic holds: "


def told(tmp_path, certificate):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate))
    return confirmed(path)


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
def test_sums_of_a_run_are_confirmed(tmp_path, relation):
    model = LabelMomentsClassifier(**SHARED, relation=relation).fit(X, Y, X_public=PUBLIC)
    found = certificate_of_fit(model)
    assert len(found["parts"][0]["body"]["rounds"]) == model.spend_[-1][0]
    assert told(tmp_path, found)[1].startswith(ARITHMETIC)
    # One sum more than was charged for.
    rounds = found["parts"][0]["body"]["rounds"]
    rounds.append(rounds[0])
    assert told(tmp_path, found)[1].startswith("no: ")


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_seeded_run_is_not_confirmed_as_a_release(tmp_path):
    settings = SHARED | {"rounds": 1}
    certificate = certificate_of_fit(LabelMomentsClassifier(**settings).fit(X, Y, X_public=PUBLIC))
    yes, said = told(tmp_path, certificate)
    assert certificate["for_release"] is False
    assert not yes
    assert said.startswith(ARITHMETIC)
    assert "(epsilon 1, delta 0.0001) confirmed: 2 rounds of Gaussian sums" in said
    secure = LabelMomentsClassifier(**settings | {"insecure_release_seed": None}).fit(X, Y, X_public=PUBLIC)
    assert certificate_of_fit(secure)["for_release"] is True


@pytest.mark.usefixtures("few_synthetic_rows")
def test_groups_with_budgets_of_their_own_have_a_part_each(tmp_path):
    model = LabelMomentsClassifier(**SHARED)
    model.fit(X, Y, X_public=PUBLIC, personal_epsilons=np.where(np.arange(400) % 2, 1.0, 0.5))
    found = certificate_of_fit(model)
    assert sorted(float(part["epsilon"]) for part in found["parts"]) == [0.5, 1.0]
    assert told(tmp_path, found)[1].startswith(ARITHMETIC)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_votes_of_a_run_are_confirmed(tmp_path):
    model = PATEClassifier(**SHARED, n_teachers=20, max_labels=5, law="lnmax").fit(X, Y, X_public=PUBLIC)
    assert told(tmp_path, certificate_of_fit(model))[1].startswith(ARITHMETIC)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_what_cannot_be_certified_is_refused_in_a_sentence():
    model = PrivateMajorityClassifier(**SHARED).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(AccountingError, match="certificates need exact accounting"):
        certificate_of_fit(model)


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize(("method", "written"), [("saa", True), ("private-majority", False)])
def test_train_writes_one_where_it_can(tmp_path, monkeypatch, capsys, method, written):
    monkeypatch.chdir(tmp_path)
    for name, rows in (("private", np.column_stack([X, Y])), ("public", PUBLIC)):
        head = ",".join(["a", "b", "c", "y"][: rows.shape[1]])
        np.savetxt(f"{name}.csv", rows, delimiter=",", header=head, comments="")
    line = f"train {method} --private private.csv --public public.csv --target y --classes 0,1 --delta 1e-4 --out run"
    assert main([*line.split(), "--certificate", *(["--teachers", "20"] if method == "saa" else [])]) == 0
    assert (tmp_path / "run" / "certificate.json").exists() is written
    assert ("no certificate was written" in capsys.readouterr().err) is not written
