"""What the coordinator and its colluding sites see together: masks hide each honest site, and noise hides their sum.

Entries of one sum are independent, so each of them is one experiment.
"""

import base64
import hashlib
import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

from dpensemble._random import noise_source
from dpensemble.cost import noise_variance
from dpensemble.releases.parts import SiteNoise
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.sites import masks
from tests.deadline import GUARD
from tests.sites.hospitals import ONE_EVENT, Hospitals, priced, risky, timed
from tests.sites.parties import QUERY, Crew, play

#: Sites and colluding ones: one, and all but two.
CREWS = [(5, 1), (5, 3)]
SHARE = 0.25


def a_crew(n_sites, colluding, entries, epsilon=1.0, seed=0):
    """Return a crew whose sites draw from public seeds, one each."""
    seeds = count(seed * 1000)
    return Crew(n_sites, colluding, source=lambda: noise_source(next(seeds)), entries=entries, epsilon=epsilon)


def parts(crew):
    """Return names of honest and of colluding sites."""
    honest = len(crew.terms.sites) - crew.terms.colluding
    return crew.terms.sites[:honest], crew.terms.sites[honest:]


def words_of(crew, name, number):
    message = json.loads(crew.box.messages[f"sum.{name}.1.{number}.json"])
    return np.frombuffer(base64.b64decode(message["body"]["words"]), dtype="<u8")


def without_known_masks(crew, name, number):
    """Return what a site sent, without the masks that it shares with colluding sites."""
    left = words_of(crew, name, number).copy()
    for other in parts(crew)[1]:
        attempt = crew[other].exchange.attempt
        salt = hashlib.sha256(attempt.agreed[number].encode()).digest()
        stream = masks._stream(attempt.key, attempt.keys[name], sorted((name, other)), salt, len(left))
        left = left - stream if name < other else left + stream
    return left


def is_uniform(words):
    """Return whether each of 64 bits is 1 in half of the words, and differs from the next bit in half of them.

    Small numbers of both signs have equal high bits. Up to 6 deviations: false alarms are below 128 x 2e-9.
    """
    bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    rates = np.concatenate([bits.mean(axis=0), (bits[:, 1:] ^ bits[:, :-1]).mean(axis=0)])
    return bool((np.abs(rates - 0.5) < 3 / np.sqrt(len(words))).all())


def hidden(crew):
    """Return whether all that is left of honest sites, and of two sums of theirs, is uniform."""
    lefts = {name: [without_known_masks(crew, name, number) for number in (0, 1)] for name in parts(crew)[0]}
    # Both sums of a site, their difference, and the difference of two sites: four looks at each site.
    first = [left[0] for left in lefts.values()]
    looks = [*first, *(left[1] for left in lefts.values()), *(left[0] - left[1] for left in lefts.values())]
    looks += [one - other for one, other in pairwise(first)]
    return all(is_uniform(look) for look in looks)


@pytest.mark.parametrize(("n_sites", "colluding"), CREWS)
def test_masks_hide_each_honest_site(n_sites, colluding):
    crew = a_crew(n_sites, colluding, 600)
    for number in (0, 1):
        play(crew, number)
    assert hidden(crew)


def looks_bare(words):
    """Return the share of numbers that are as small as those of one site without masks: below 2**48 in size."""
    signed = masks.signed(np.asarray(words, dtype=np.uint64))
    return float(np.mean(np.abs(signed.astype(np.float64)) < 2.0**48))


@pytest.mark.parametrize(
    "kind",
    [{"rows": priced}, {"rows": timed}, {"rows": risky, **ONE_EVENT}, {"holdout_score": 0.4, "epsilon": 8.0}],
    ids=["number", "times", "risks", "held"],
)
@pytest.mark.parametrize("planted", [False, True])
def test_every_kind_of_sum_leaves_a_site_under_masks(tmp_path, monkeypatch, kind, planted):
    # A masked number is that small in one of 2**15 cases. Without masks nearly all are, since noise is 0 here.
    monkeypatch.setattr(DiscreteNoise, "gaussian", lambda _, variance: 0)
    if planted:
        monkeypatch.setattr(masks, "_stream", lambda *given: np.zeros(given[-1], dtype=np.uint64))
    hospitals = Hospitals(tmp_path, (30, 30, 30), **kind).all_join().play()
    sent = {}
    for path in hospitals.messages.glob("sum.*.json"):
        _, name, _, number, _ = path.name.split(".")
        sent[name, int(number)] = np.frombuffer(
            base64.b64decode(json.loads(path.read_text())["body"]["words"]), dtype="<u8"
        )
    numbers = {number for _, number in sent}
    assert len(numbers) == 1 + len(hospitals.parties["h0"].status()["charges"])
    bare = looks_bare(np.concatenate(list(sent.values())))
    # Of at least 39 numbers. False alarms: below 1e-10.
    assert bare > 0.9 if planted else bare < 0.1
    for number in numbers:
        message = json.loads((hospitals.messages / f"opened.coordinator.1.{number}.json").read_text())
        opened = np.frombuffer(base64.b64decode(message["body"]), dtype="<i8")
        assert (masks.signed(sum(sent[name, number] for name in hospitals.names)) == opened).all()


@pytest.mark.parametrize("planted", ["one mask for all sums", "no mask between honest sites"])
def test_a_reused_or_missing_mask_is_noticed(plant, planted):
    ordinary = masks._stream

    def stream(key, public, pair, transcript, n):
        if planted == "one mask for all sums":
            return ordinary(key, public, pair, b"0" * 32, n)
        return ordinary(key, public, pair, transcript, n) * np.uint64(pair != ["a", "b"])

    crew = a_crew(4, 2, 600)
    plant(masks, "_stream", stream)
    for number in (0, 1):
        play(crew, number)
    assert not hidden(crew)


def audited(n_sites, colluding, entries=4000, epsilon=20.0):
    """Return the mu that was charged for a sum, and what an attacker proves of it with 99 %.

    In half of the entries a unit of an honest site is another one, which moves the entry by all that one unit may. The
    attacker knows all records but this unit, and all that colluding sites drew. The best test of two Gaussian laws
    compares what is left with the middle (Neyman and Pearson 1933). Clopper-Pearson intervals of both rates of errors,
    at 99.5 % each, give the bound.
    """
    crew = a_crew(n_sites, colluding, entries, epsilon, seed=n_sites * 10 + colluding)
    moved = np.arange(entries) % 2 == 1
    exact, drawn = crew.total(), {}
    crew.numbers["a"] = crew.numbers["a"] + moved * QUERY.replacing
    for name in parts(crew)[1]:
        drawn[name] = watch_draws(crew, name)
    opened = play(crew, 0)["coordinator"]
    left = opened - exact - sum(one[0] for one in drawn.values())
    wrong = np.array([(left > QUERY.replacing / 2)[~moved].sum(), (left <= QUERY.replacing / 2)[moved].sum()])
    highest = beta.ppf(0.995, wrong + 1, entries // 2 - wrong)
    mu = QUERY.replacing / math.sqrt(noise_variance(crew["a"].meter.sigma(SHARE), QUERY.replacing))
    return mu, -ndtri(highest).sum()


def watch_draws(crew, name):
    """Return a list that gets the noise of a colluding site."""
    seen, sums = [], crew[name].sums
    ordinary = sums.charge_and_draw_part

    def watched(query, total, share, *, site):
        values = ordinary(query, total, share, site=site)
        seen.append(np.array([value - int(own) for value, own in zip(values, total, strict=True)], dtype=np.int64))
        return values

    object.__setattr__(sums, "charge_and_draw_part", watched)
    return seen


@pytest.mark.parametrize(("n_sites", "colluding"), [(3, 1), (5, 3)])
def test_the_charged_noise_hides_the_sum_of_honest_sites_and_no_more(n_sites, colluding):
    mu, proven = audited(n_sites, colluding)
    assert 0.85 * mu <= proven <= mu


@pytest.mark.parametrize("planted", ["half of the noise", "as if no site colluded"])
def test_an_audit_notices_too_little_noise(monkeypatch, planted):
    ordinary = SiteNoise.drawn
    rate = (lambda noise: 0.25) if planted == "half of the noise" else (lambda noise: 2 / 5)
    monkeypatch.setattr(
        SiteNoise, "drawn", lambda noise, variance, site: int(ordinary(noise, variance, site) * rate(noise))
    )
    mu, proven = audited(5, 3)
    assert proven > mu


@pytest.mark.skipif(find_spec("mpyc") is None, reason="MPyC is an independent oracle, which only this test needs")
def test_mpyc_computes_the_same_sum(tmp_path):
    # Three processes share their numbers by Shamir's scheme, and open the sum only.
    crew = a_crew(3, 1, 500)
    sent = {name: watch_draws(crew, name) for name in crew.terms.sites}
    opened = play(crew, 0)["a"]
    noisy = [(crew.numbers[name].astype(object) + sent[name][0].astype(object)).tolist() for name in crew.terms.sites]
    (tmp_path / "noisy.json").write_text(json.dumps([[int(one) for one in numbers] for numbers in noisy]))
    script = Path(__file__).with_name("mpyc_sum.py")
    subprocess.run(
        [sys.executable, str(script), "-M3", "--no-log", str(tmp_path)], check=True, env={**os.environ}, timeout=GUARD
    )
    assert json.loads((tmp_path / "sum.json").read_text()) == opened.tolist()
