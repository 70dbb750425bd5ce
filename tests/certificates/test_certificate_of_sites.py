"""Certificates of sums whose noise several sites share."""

import json

import pytest

from dpensemble.certificates import certificate_of_sites, confirmed
from dpensemble.guarantee import Budget
from dpensemble.releases.parts import SiteNoise, SiteSumsMeter, epsilon_at

NOISE = SiteNoise(5, 1)


def rounds():
    meter = SiteSumsMeter(Budget(epsilon=1, delta=1e-5), 1)
    for share in (0.25, 0.75):
        meter.charge(meter.sigma(share), variance=NOISE.charged(2**70), entries=40)
    return meter


def answer(tmp_path, certificate):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps({**certificate, "for_release": True}))
    return confirmed(path)


def test_the_verifier_confirms_one_site_and_several(tmp_path):
    meter = rounds()
    at_two = Budget(epsilon=epsilon_at(meter.cost(), 1e-5, sites=2) * (1 + 1e-9), delta=1e-5)
    certificate = certificate_of_sites(NOISE, {1: Budget(epsilon=1, delta=1e-5), 2: at_two}, meter.charges)
    yes, said = answer(tmp_path, certificate)
    assert yes, said
    assert "5 sites, 1 of which may collude, for a record at 1 site: 2 rounds" in said
    assert "for a record at 2 sites" in said
    assert float(certificate["epsilon"]) == pytest.approx(2.15, abs=0.01)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda body: body["rounds"][1].update(drawn=body["rounds"][1]["drawn"] - 1), "draw less noise"),
        (lambda body: body.update(colluding=2), "draw less noise"),
        (lambda body: body.update(colluding=0), "colluding"),
        (lambda body: body.update(sites=2), "sites"),
        (lambda body: body.update(at=2), "private at delta"),
        (lambda body: body["rounds"][0].update(sigma="7.0"), "private at delta"),
        (lambda body: body["rounds"][0].pop("drawn"), "exactly the fields"),
    ],
)
def test_the_verifier_refuses_too_little_noise(tmp_path, damage, words):
    certificate = certificate_of_sites(NOISE, {1: Budget(epsilon=1, delta=1e-5)}, rounds().charges)
    damage(certificate["parts"][0]["body"])
    yes, said = answer(tmp_path, certificate)
    assert not yes
    assert words in said
