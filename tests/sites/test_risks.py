"""Risks given a row over several sites: the sums of a model of times until an event, opened by all sites together."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import dpensemble.engine.run as engine
from dpensemble import LabelMomentsSurvival
from dpensemble.certificates import confirmed
from dpensemble.cli import main
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.methods import label_moments
from dpensemble.moments.survival import Baseline, CellResiduals, Centre, TableOfCells
from dpensemble.moments.whole import WHOLE
from dpensemble.sites import RunTerms, SiteRun, exchange, sums
from dpensemble.sites.messages import SitesError
from tests.sites.hospitals import ONE_EVENT, TIMED, Account, Hospitals, risky
from tests.sites.parties import ZeroNoise
from tests.sites.test_run import _as_all_sites

# Whose public rows are is not known, so that these are trusted less.
UNKNOWN_PEOPLE = pytest.mark.filterwarnings("ignore:the test cannot decide whether public rows look like")
ROWS = risky(50, 7, target=False)


def pooled_model(hospitals, monkeypatch, **settings):
    """Return the model of pooled records, with noise as if it were that of all sites."""
    tables = [pd.read_csv(hospitals.file(name)) for name in hospitals.names]
    pooled, terms = pd.concat(tables, ignore_index=True), hospitals.parties["coordinator"].terms
    codes = {name: [int(code) for code in terms.times[name]] for name in ("events", "censored", "competing")}
    model = LabelMomentsSurvival([30, 60, 90], **codes, epsilon=2.0, delta=1e-6, **settings)
    with monkeypatch.context() as patch:
        ordinary = label_moments.SumReleaser
        patch.setattr(label_moments, "SumReleaser", lambda **given: _as_all_sites(ordinary(**given), terms.noise()))
        return model.fit(
            pooled[["age", "kind"]],
            pooled[["status", "days"]],
            X_public=hospitals.public,
            units=None if terms.unit is None else pooled[terms.unit],
        )


def require_equal(hospitals, whole):
    """Require that all parties have the model of pooled records to the last bit."""
    for party in hospitals.parties.values():
        own = party.model_
        assert [one.description for one in own.result_.releases] == [one.description for one in whole.result_.releases]
        assert (own.life_table_.noisy == whole.life_table_.noisy).all()
        # Bands follow from the noise of all sites.
        assert own.life_table_.to_dict() == whole.life_table_.to_dict()
        ours, theirs = (one.student_.steps[-1][1] for one in (own, whole))
        for name in ("hazards_", "others_", "censoring_", "coefficients_"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert ours.coefficients_.any()
        assert (own.predict_risk(ROWS, [30, 45, 90]) == whole.predict_risk(ROWS, [30, 45, 90])).all()


def with_people(hospitals):
    """Let each person have one to three records, with other ends."""
    for name in hospitals.names:
        rows = pd.read_csv(hospitals.file(name))
        rows["person"] = [f"{name}-{place % (len(rows) // 2 - 3)}" for place in range(len(rows))]
        rows.to_csv(hospitals.file(name), index=False)
    return hospitals


@pytest.mark.parametrize(
    ("sizes", "settings"),
    [
        ((60, 80, 100), {}),
        pytest.param((60, 80, 100), ONE_EVENT, marks=pytest.mark.nightly),
        pytest.param((40,) * 5, {"relation": "add-or-remove-one"}, marks=pytest.mark.nightly),
        pytest.param((40,) * 5, {"unit": "person", **ONE_EVENT}, marks=[pytest.mark.nightly, UNKNOWN_PEOPLE]),
    ],
)
def test_without_noise_the_model_is_that_of_pooled_records_to_the_last_bit(tmp_path, monkeypatch, sizes, settings):
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    hospitals, account = Hospitals(tmp_path, sizes, rows=risky, **settings), Account()
    (with_people(hospitals) if "unit" in settings else hospitals).all_join().play(h1={"ledger": account})
    require_equal(hospitals, pooled_model(hospitals, monkeypatch, relation=hospitals.parties["h0"].terms.relation))
    assert account.epsilons == [2.0]
    require_stated(hospitals)
    if "unit" in settings:
        weights = hospitals.parties["h0"]._tables.site.records.blocks[0].weights
        # One record of each person counts, or those that end alike.
        assert weights.sum() == pytest.approx(17)
        assert (weights == 0).any()


def require_stated(hospitals):
    """Require that a run states what it cost, and that its files hold the model."""
    party = hospitals.parties["h1"]
    assert party.guarantee_.epsilon == pytest.approx(2.0, rel=1e-5)
    assert len({json.dumps(one.certificate_) for one in hospitals.parties.values()}) == 1
    yes, said = confirmed(hospitals.own("h1") / "certificate.json")
    assert yes, said
    # The mean, the life table and two rounds. Under add-or-remove-one the number of units is a sum with noise, too.
    replaced = party.terms.relation == "replace-one"
    assert len(party.model_.charges_) == len(party.status()["charges"]) == (4 if replaced else 5)
    # The noise of each sum is that of all sites, and that of all but one is charged.
    noise, n_sites = party._exchange.noise, len(hospitals.names)
    for charge in party.model_.charges_:
        drawn = noise.drawn(charge["variance"], 0)
        assert charge["variance"] == (n_sites - 1) * drawn
        assert noise.opened(charge["variance"]) == n_sites * drawn
    spread = math.sqrt(noise.opened(party.model_.charges_[-3]["variance"])) / WHOLE
    assert party.model_.life_table_.spread == pytest.approx(spread, rel=1e-9)
    risk = party.summary()["risk"]
    assert risk["bins"] == [30.0, 60.0, 90.0]
    assert f"The mean risk of public rows is {risk['public']['mean'][0]:.3f} by 30, " in party.where_
    # The saved model predicts by the command, too.
    rows, out = hospitals.root / "new.csv", hospitals.root / "risks.csv"
    ROWS.to_csv(rows, index=False)
    student = hospitals.own("h1") / "student.skops"
    assert main(["predict", str(student), str(rows), "--at", "45,90", "--out", str(out)]) == 0
    risks = pd.read_csv(out)[["risk by 45", "risk by 90"]]
    np.testing.assert_allclose(risks, party.model_.predict_risk(ROWS, [45, 90]), rtol=0, atol=1e-12)


def test_bad_records_add_nothing_and_show_nothing(tmp_path):
    hospitals = Hospitals(tmp_path, rows=risky)
    rows = hospitals.tables["h0"].astype(object)
    rows.loc[:3, "days"] = ["soon", None, -1, "inf"]
    rows.loc[4:5, "status"] = [7, None]
    rows.loc[6, "age"] = "inf"
    rows.to_csv(hospitals.file("h0"), index=False)
    hospitals.all_join()
    party = hospitals.parties["h0"]
    assert party.counts_of_records() == {"records": 60, "bad": 7}
    block = party._tables.site.records.blocks[0]
    assert (block.targets[:7] == -1).all()
    assert party._tables.site.n_units == 60
    names = {path.name for path in hospitals.messages.iterdir()}
    assert names == {"public.csv", "terms.coordinator.0.0.json", *(f"join.h{number}.0.0.json" for number in range(3))}


@pytest.mark.parametrize(("column", "entry"), [("days", 29.5), ("status", 2), ("age", 33)])
def test_records_that_changed_since_the_site_joined_are_refused(tmp_path, column, entry):
    hospitals = Hospitals(tmp_path, rows=risky)
    hospitals.tables["h1"].loc[3, ["status", "days"]] = [1, 29.0]
    hospitals.tables["h1"].to_csv(hospitals.file("h1"), index=False)
    hospitals.all_join()
    # A time in the same bin is in the same cell, and another record of a person may count then.
    hospitals.tables["h1"].loc[3, column] = entry
    hospitals.tables["h1"].to_csv(hospitals.file("h1"), index=False)
    hospitals.parties["h1"] = SiteRun.load(hospitals.messages, hospitals.own("h1"))
    with pytest.raises(DataError, match="changed since this site joined"):
        hospitals.step("h1")


@pytest.mark.parametrize("planted", [TableOfCells.description, CellResiduals.description])
def test_a_sum_that_wraps_is_longer_than_all_units_allow_and_stays_charged(tmp_path, monkeypatch, planted):
    hospitals = Hospitals(tmp_path, (30, 30, 30), rows=risky).all_join()
    ordinary = sums.exact_total

    def wrapping(records, query, number):
        total, whose = ordinary(records, query, number)
        # Three times 2**62 is negative modulo 2**64.
        return (total + 2**62 if query.description == planted and number else total), whose

    monkeypatch.setattr(sums, "exact_total", wrapping)
    with pytest.raises(SitesError, match="is larger than the units of all sites allow"):
        hospitals.play()
    number = 2 if planted == TableOfCells.description else 3
    for name in hospitals.names:
        assert {one["number"] for one in hospitals.parties[name].status()["charges"]} == set(range(1, number + 1))
    assert not list(hospitals.messages.glob(f"opened.*.{number}.json"))


def test_sites_agree_on_the_hazards_and_the_coefficients_of_a_round():
    hazards, coefficients = np.full((3, 4), 0.2), np.ones((5, 3))

    def agreed(hazards, coefficients):
        return exchange.coming_sum(CellResiduals(Centre(Baseline(hazards), coefficients)), 4).centre

    own = agreed(hazards, coefficients)
    assert exchange._alike(agreed(hazards * (1 + 1e-12), coefficients.copy()), own)
    for place in np.ndindex(hazards.shape):
        other = hazards.copy()
        other[place] *= 1.2
        assert not exchange._alike(agreed(other, coefficients), own)
        assert not exchange._alike(agreed(other, None), agreed(hazards, None))
    for place in np.ndindex(coefficients.shape):
        other = coefficients.copy()
        other[place] += 0.1
        assert not exchange._alike(agreed(hazards, other), own)
    assert not exchange._alike(agreed(hazards, None), own)


def test_a_site_whose_centre_is_another_one_stops_all_before_any_draw(tmp_path, monkeypatch):
    hospitals = Hospitals(tmp_path, (30, 30, 30), rows=risky).all_join()
    ordinary = CellResiduals.public_arrays.fget

    def shifted(query):
        hazards, coefficients = ordinary(query)
        return (hazards * (1.2 if acting == ["h1"] else 1.0)), coefficients

    acting = []
    monkeypatch.setattr(CellResiduals, "public_arrays", property(shifted))

    def all_act():
        for name in 40 * list(hospitals.parties):
            acting[:] = [name]
            hospitals.step(name)

    with pytest.raises(SitesError, match="another"):
        all_act()
    for name in hospitals.names:
        assert {one["number"] for one in hospitals.parties[name].status()["charges"]} == {1, 2}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"times": {**TIMED["times"], "strata": {"kind": ["north", "west"]}}}, "strata is not for risks given a row"),
        ({"rounds": 2}, "rounds is not for risks given a row: leave it out"),
        ({"statistics": ["class-shares"]}, "statistics is not for risks"),
        ({"holdout_score": 0.2}, "holdout_score is not for risks"),
        ({"declared_columns": {"age": [0, 9]}}, "declared_columns is not for risks given a row: leave it out"),
        ({"times": {**TIMED["times"], "at": [45]}}, "must be ends of bins"),
        ({"unit": "days"}, "must be different columns"),
        ({"range": (0, 9)}, "only one of them can be given"),
    ],
)
def test_terms_that_do_not_belong_to_risks_are_refused(changes, words):
    with pytest.raises(InvalidParameterError, match=words):
        RunTerms.of(**{"sites": ["a", "b", "c"], "public": b"age\n1\n", **TIMED, **changes})


def test_terms_survive_json_and_say_what_is_predicted():
    terms = RunTerms.of(sites=["a", "b", "c"], public=b"age\n1\n", drop=["note"], unit="person", **TIMED)
    assert RunTerms.from_dict(json.loads(json.dumps(terms.to_dict()))) == terms
    assert "Risks given a row, of 'days' until status is 1, at 30, 60, 90." in terms.words()


def test_public_rows_that_are_all_the_same_are_refused_before_there_are_terms(tmp_path):
    (tmp_path / "messages").mkdir()
    alike = pd.DataFrame({"age": [40] * 9, "kind": ["north"] * 9})
    with pytest.raises(DataError, match="no column can show a risk"):
        SiteRun.new(tmp_path / "messages", tmp_path / "c", public=alike, sites=["a", "b", "c"], **TIMED)
    assert not list((tmp_path / "messages").glob("terms.*"))
