"""A number over several sites: the sums of a regressor, each of them opened by all sites together."""

import json

import numpy as np
import pandas as pd
import pytest

import dpensemble.engine.run as engine
from dpensemble import LabelMomentsRegressor
from dpensemble.certificates import confirmed
from dpensemble.errors import InvalidParameterError
from dpensemble.methods import label_moments
from dpensemble.moments import residuals
from dpensemble.persistence import load_classifier
from dpensemble.sites import RunTerms, exchange, sums
from dpensemble.sites.messages import SitesError
from tests.sites.hospitals import PRICED, Hospitals, priced
from tests.sites.parties import ZeroNoise
from tests.sites.test_run import _as_all_sites


@pytest.mark.parametrize(
    ("sizes", "settings"),
    [
        ((60, 80, 100), {}),
        pytest.param((40,) * 5, {"relation": "add-or-remove-one"}, marks=pytest.mark.nightly),
        pytest.param((12,) * 20, {}, marks=pytest.mark.nightly),
    ],
)
def test_without_noise_the_model_is_that_of_pooled_records_to_the_last_bit(tmp_path, monkeypatch, sizes, settings):
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    hospitals = Hospitals(tmp_path, sizes, rows=priced, **settings).all_join().play()
    pooled = pd.concat(hospitals.tables.values(), ignore_index=True)
    whole = LabelMomentsRegressor(0, 200, epsilon=2.0, delta=1e-6, on_bad_record="zero", **settings)
    noise = hospitals.parties["coordinator"].terms.noise()
    with monkeypatch.context() as patch:
        ordinary = label_moments.SumReleaser
        patch.setattr(label_moments, "SumReleaser", lambda **given: _as_all_sites(ordinary(**given), noise))
        whole.fit(pooled[["age", "kind"]], pooled["price"], X_public=hospitals.public)
    opened = hospitals.parties["coordinator"].model_
    for own, other in zip(opened.rounds_, whole.rounds_, strict=True):
        assert (own.values == other.values).all()
        assert own.spread == other.spread
        assert own.tau == other.tau
    assert opened.beyond_range_ == whole.beyond_range_
    assert [one.description for one in opened.result_.releases] == [one.description for one in whole.result_.releases]
    rows = priced(50, 7, target=False)
    for party in hospitals.parties.values():
        assert (party.model_.predict(rows) == whole.predict(rows)).all()
        assert (party.model_.predict_interval(rows) == whole.predict_interval(rows)).all()
    require_stated(hospitals)


def require_stated(hospitals):
    """Require that a run states what it cost, and that its files hold the model."""
    party = hospitals.parties["h1"]
    replaced = party.terms.relation == "replace-one"
    assert party.guarantee_.epsilon == pytest.approx(2.0, rel=1e-5)
    assert len({json.dumps(one.certificate_) for one in hospitals.parties.values()}) == 1
    yes, said = confirmed(hospitals.own("h1") / "certificate.json")
    assert yes, said
    # The mean, counts of the target, three rounds, two counts between them, and the counts of residuals.
    assert len(party.model_.charges_) == len(party.status()["charges"]) == (8 if replaced else 9)
    assert "Share of numbers beyond the declared range" in [one["title"] for one in party.summary()["statistics"]]
    rows = priced(50, 7, target=False)
    saved = load_classifier(hospitals.own("h1") / "student.skops")
    assert (saved.predict(rows) == party.model_.predict(rows)).all()
    # The noise of each sum is that of all sites, and that of all but one is charged.
    noise, n_sites = party._exchange.noise, len(hospitals.names)
    for charge in party.model_.charges_:
        drawn = noise.drawn(charge["variance"], 0)
        assert charge["variance"] == (n_sites - 1) * drawn
        assert noise.opened(charge["variance"]) == n_sites * drawn


def test_records_whose_number_cannot_be_read_add_nothing_and_show_nothing(tmp_path):
    hospitals = Hospitals(tmp_path, rows=priced)
    rows = hospitals.tables["h0"].astype({"price": object})
    rows["price"] = ["dear", None, "inf", "1e400", *[""] * (len(rows) - 4)]
    rows.to_csv(hospitals.file("h0"), index=False)
    hospitals.all_join()
    site = hospitals.parties["h0"]._tables.site
    assert site.n_units == 60
    assert (site.records.blocks[0].targets == -1).all()
    names = {path.name for path in hospitals.messages.iterdir()}
    assert names == {"public.csv", "terms.coordinator.0.0.json", *(f"join.h{number}.0.0.json" for number in range(3))}


@pytest.mark.parametrize("planted", [residuals.TargetCounts.description, residuals.ResidualSum.description])
def test_a_sum_that_wraps_is_longer_than_all_units_allow_and_stays_charged(tmp_path, monkeypatch, planted):
    hospitals = Hospitals(tmp_path, (30, 30, 30), rows=priced).all_join()
    ordinary = sums.exact_total

    def wrapping(records, query, number):
        total, whose = ordinary(records, query, number)
        # Three times 2**62 is negative modulo 2**64.
        return (total + 2**62 if query.description == planted and number else total), whose

    monkeypatch.setattr(sums, "exact_total", wrapping)
    with pytest.raises(SitesError, match="is larger than the units of all sites allow"):
        hospitals.play()
    number = 2 if planted == residuals.TargetCounts.description else 3
    for name in hospitals.names:
        assert {one["number"] for one in hospitals.parties[name].status()["charges"]} == set(range(1, number + 1))
    assert not list(hospitals.messages.glob(f"opened.*.{number}.json"))


def test_sites_agree_on_the_scale_the_centre_and_the_limit_of_a_round():
    declared = residuals.NumberRange(0.0, 200.0)
    one = residuals.ResidualSum(residuals.Scale(declared, 50.0, 20.0), np.ones(3), 1.5)
    others = [
        residuals.ResidualSum(residuals.Scale(declared, 51.0, 20.0), np.ones(3), 1.5),
        residuals.ResidualSum(residuals.Scale(declared, 50.0, 22.0), np.ones(3), 1.5),
        residuals.ResidualSum(residuals.Scale(declared, 50.0, 20.0, 3.0), np.ones(3), 1.5),
        residuals.ResidualSum(one.scale, np.array([1.0, 1.0, 1.1]), 1.5),
        residuals.ResidualSum(one.scale, np.ones(3), 1.6),
    ]
    agreed = exchange.coming_sum(one, 3)
    again = exchange.coming_sum(residuals.ResidualSum(one.scale, np.ones(3), 1.5), 3)
    assert exchange._alike(again.centre, agreed.centre)
    for other in others:
        assert not exchange._alike(exchange.coming_sum(other, 3).centre, agreed.centre)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"range": (5.0, 5.0)}, "high"),
        ({"range": (5.0,)}, "must be two numbers"),
        ({"range": (0.0, float("nan"))}, "high"),
        ({"classes": ["no", "yes"]}, "only one of them can be given"),
        ({"rounds": 2}, "rounds is not for a number in a range"),
        ({"statistics": ["class-shares"]}, "statistics is not for a number in a range"),
        ({"public": None, "declared_columns": {"age": [0, 9]}}, "leave it out, and give public rows"),
    ],
)
def test_impossible_terms_are_refused(changes, words):
    given = {"sites": ["a", "b", "c"], "public": b"age\n1\n", **PRICED, **changes}
    with pytest.raises(InvalidParameterError, match=words):
        RunTerms.of(**given)


def test_terms_survive_json_and_say_what_is_predicted():
    terms = RunTerms.of(sites=["a", "b", "c"], public=b"age\n1\n", **PRICED)
    plain = json.loads(json.dumps(terms.to_dict()))
    assert RunTerms.from_dict(plain) == terms
    assert "'price' is a number from 0 to 200, and numbers outside count as the end." in terms.words()
    for odd in ([], {}, "ab", [1], [None, 2], [2, 1], [0, 1, 2], True, 3):
        with pytest.raises((InvalidParameterError, TypeError)):
            RunTerms.from_dict({**plain, "range": odd})
