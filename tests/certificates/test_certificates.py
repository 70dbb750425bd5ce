"""The certified claims, and the verifier's refusal of everything else."""

import ast
import copy
import json
import sys
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dpensemble import PATEClassifier, plan
from dpensemble.accounting import Change, Group, price
from dpensemble.budget import Budget
from dpensemble.certificates import (
    certificate_of,
    certificate_of_majority,
    certificate_of_sums,
    confirmed,
    release_stated,
)
from dpensemble.certificates.certificate import _verifier_path
from dpensemble.darrm import optimise_gamma
from dpensemble.errors import AccountingError
from dpensemble.laws import (
    ConfidentNoisyMax,
    ExponentialVote,
    GaussianNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
    RandomizedResponseMajority,
    TableLaw,
)
from dpensemble.releases import SumsMeter

from ..counting import work_of
from ..tiny_votes import sampled_pairs, strongest_delta
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

    Of (0, 1, 1) and (1, 1, 0) these weights would tell 0.6 from 0.05 by the middle class, which as a pair that begins
    with falling counts is not listed: at epsilon 2 delta is 0.23, not 0.001.
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
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 335


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
