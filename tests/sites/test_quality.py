"""Quality on held-back units of several sites: one more sum, over units that teach nothing."""

import json
import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.certificates import confirmed
from dpensemble.cost import GaussianCost
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.methods import label_moments
from dpensemble.quality.release import WHOLE_UNIT
from dpensemble.releases import SumReleaser
from dpensemble.releases.parts import epsilon_at, larger_cost
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.rows import passes
from dpensemble.sites import RunTerms, SiteRun, sums, tables
from dpensemble.sites.messages import SitesError
from tests.sites.hospitals import DECLARED, LABELLED, TIMED, Account, Hospitals, table
from tests.sites.test_run import _as_all_sites

SHARE = 0.4
SIZES = (90, 120, 150)
HELD = "the histogram of the student's probabilities by true class, on held-back units"


def a_run(tmp_path, sizes=SIZES, **settings):
    return Hospitals(tmp_path, sizes, holdout_score=SHARE, epsilon=4.0, **settings)


def held_of(hospitals, name):
    """Return which rows of a site's table are held back, by what the site's own folder and process know."""
    party, n_units = hospitals.parties[name], len(hospitals.tables[name])
    owners = tables.Owners.of(None, n_units, zeroes=True)
    return party._tables._held(owners, bytes.fromhex(party._party()["row_key"]))


@pytest.mark.parametrize(
    ("sizes", "settings"),
    [
        (SIZES, {}),
        pytest.param((60,) * 5, {"declared_columns": DECLARED}, marks=pytest.mark.nightly),
        pytest.param((25,) * 20, {}, marks=pytest.mark.nightly),
    ],
)
def test_without_noise_cells_and_model_are_those_of_pooled_parts(tmp_path, monkeypatch, sizes, settings):
    """The model is that of the pooled records that teach, to the last bit. The cells count the pooled others."""
    monkeypatch.setattr(DiscreteNoise, "gaussian", lambda _, variance: 0)
    hospitals = a_run(tmp_path, sizes, **settings).all_join().play()
    held = {name: held_of(hospitals, name) for name in hospitals.names}
    teaching = pd.concat([rows[~held[name]] for name, rows in hospitals.tables.items()], ignore_index=True)
    others = pd.concat([rows[held[name]] for name, rows in hospitals.tables.items()], ignore_index=True)
    columns = list(settings.get("declared_columns", ["age", "kind"]))
    given = {"classes": ["no", "yes"], "epsilon": 4.0, "delta": 1e-6, "rounds": 1, **settings}
    whole, noise = LabelMomentsClassifier(on_bad_record="zero", **given), hospitals.parties["coordinator"].terms.noise()
    with monkeypatch.context() as patch:
        patch.setattr(label_moments, "SumReleaser", lambda **given: _as_all_sites(SumReleaser(**given), noise))
        public = None if "declared_columns" in settings else hospitals.public
        whole.fit(teaching[columns], teaching["sick"], X_public=public)
    for party in hospitals.parties.values():
        assert (party.model_.predict_proba(table(50, 7)[columns]) == whole.predict_proba(table(50, 7)[columns])).all()
        released = party.quality_.released
        assert released.layout.n_units == len(others)
        # An oracle of the cells that counts one record after the other.
        counts = np.zeros(released.cells[0].shape)
        edges = released.edges.of_class["yes"]
        for sick, chance in zip(others["sick"], whole.predict_proba(others[columns])[:, 1], strict=True):
            counts[int(sick == "yes"), sum(chance >= edge for edge in edges)] += 1
        assert (released.cells[0] == counts).all()


def test_a_run_states_what_it_cost_and_charges_no_unit_twice(tmp_path):
    hospitals = a_run(tmp_path, at_sites=2).all_join()
    account = Account()
    hospitals.play(h1={"ledger": account})
    party = hospitals.parties["h1"]
    # One charge of the ledger covers both parts, since a unit is in one of them.
    assert account.epsilons == [4.0]
    assert party.guarantee_.epsilon == pytest.approx(4.0, rel=1e-5)
    assert any("held back follows from their places" in one for one in party.guarantee_.assumptions)
    assert len({json.dumps(one.certificate_) for one in hospitals.parties.values()}) == 1
    yes, said = confirmed(hospitals.own("h1") / "certificate.json")
    assert yes, said
    assert "part 3 of 4, for other records: 3 sites, 1 of which may collude, for a record at 1 site: 1 round" in said
    charges = party.status()["charges"]
    assert [one.get("held", False) for one in charges] == [False] * (len(charges) - 1) + [True]
    # The histogram has the noise of a run's whole budget, in parts of three sites. Those of two are charged.
    released, meter = party.quality_.released, party._payer.held
    variance = released.layout.sum_between(released.edges).replacing ** 2 * meter.sigma(1.0) ** 2
    assert charges[-1]["variance"] == pytest.approx(variance, rel=1e-9)
    assert released.sigma == pytest.approx(math.sqrt(1.5 * variance) / WHOLE_UNIT, rel=1e-9)
    assert released.sigma == pytest.approx(released.layout.sigma, rel=1e-6)
    assert party.summary()["quality"] == party.quality_.to_dict()
    assert "held-back units: accuracy" in party.where_


def test_a_person_is_in_one_part_and_stays_there(tmp_path):
    hospitals = a_run(tmp_path, unit="person")
    people = {}
    for name, rows in hospitals.tables.items():
        people[name] = np.array([f"{name}{place % 40}" for place in range(len(rows))])
        rows.assign(person=people[name]).to_csv(hospitals.file(name), index=False)
    hospitals.join()
    before = {name: hospitals.parties[name]._tables.site for name in hospitals.names}
    for name, site in before.items():
        teaching, held = (len(block.targets) for block in site.blocks)
        assert teaching + held == len(hospitals.tables[name])
        # Each person has as many records in one part as in the whole table.
        of_person = np.bincount(site.held.unit_of)
        everything = np.unique(people[name], return_counts=True)[1]
        assert set(of_person) <= set(everything)
        assert site.counts[0] + site.counts[1] == 40
        assert 5 <= site.counts[1] <= 30
    # Another process finds the same parts, and the identity of both is that of the first process.
    for name in hospitals.names:
        again = SiteRun.load(hospitals.messages, hospitals.own(name))
        again._tables.read_private(hospitals.file(name), bytes.fromhex(again._party()["row_key"]))
        again._require_same_records()
        for own, other in zip(before[name].blocks, again._tables.site.blocks, strict=True):
            assert (own.targets == other.targets).all()
            assert own.rows.equals(other.rows)


@pytest.mark.filterwarnings("ignore::dpensemble.errors.UnlikeRowsWarning")
@pytest.mark.parametrize("unit", [None, "person"])
def test_a_site_may_hold_back_more_records_than_are_read_at_once(tmp_path, monkeypatch, unit):
    monkeypatch.setattr(passes, "ROWS_AT_ONCE", 16)
    monkeypatch.setattr(DiscreteNoise, "gaussian", lambda _, variance: 0)
    hospitals = a_run(tmp_path, **({} if unit is None else {"unit": unit}))
    for name, rows in hospitals.tables.items():
        people = [f"{name}{place % 50}" for place in range(len(rows))]
        rows.assign(**({} if unit is None else {unit: people})).to_csv(hospitals.file(name), index=False)
    hospitals.all_join().play()
    own = [hospitals.parties[name]._tables.site for name in hospitals.names]
    assert all(len(site.held.block.targets) > 16 and len(site.records.blocks) > 1 for site in own)
    released = hospitals.parties["coordinator"].quality_.released
    assert released.cells[0].sum() == pytest.approx(sum(site.held.n_units for site in own), abs=1e-6)


def test_no_entry_of_a_record_decides_where_it_is(tmp_path):
    hospitals = a_run(tmp_path)
    hospitals.join(["h0"])
    held = held_of(hospitals, "h0")
    party = hospitals.parties["h0"]
    rows = hospitals.tables["h0"].astype(object)
    rows.loc[5] = [89, "west", "yes"]
    rows.loc[7] = ["old", "?", None]
    rows.to_csv(hospitals.file("h0"), index=False)
    party._tables.read_private(hospitals.file("h0"), bytes.fromhex(party._party()["row_key"]))
    assert party._tables.site.counts == [int((~held).sum()), int(held.sum())]
    # Other sites, and other runs, hold back other places.
    hospitals.join(["h1", "h2"])
    assert (held_of(hospitals, "h1")[: len(held)] != held).any()


def test_bad_records_that_are_held_back_count_as_units_and_add_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(DiscreteNoise, "gaussian", lambda _, variance: 0)
    hospitals = a_run(tmp_path)
    rows = hospitals.tables["h0"].astype(object)
    rows.loc[:, "sick"] = "perhaps"
    rows.loc[: len(rows) // 2, "age"] = 1e300
    rows.to_csv(hospitals.file("h0"), index=False)
    hospitals.all_join().play()
    released = hospitals.parties["coordinator"].quality_.released
    own = [hospitals.parties[name]._tables.site.counts[1] for name in hospitals.names]
    assert released.layout.n_units == sum(own)
    assert released.cells[0].sum() == own[1] + own[2]


def test_a_sum_that_wraps_is_longer_than_all_units_allow_and_stays_charged(tmp_path, monkeypatch):
    hospitals = a_run(tmp_path).all_join()
    ordinary = sums.HeldPart.records

    def wrapping(part, model):
        records = ordinary(part, model)

        class Huge:
            def exact_total(self, layout, edges):
                return records.exact_total(layout, edges).astype(object) + 2**62

        return Huge()

    monkeypatch.setattr(sums.HeldPart, "records", wrapping)
    with pytest.raises(SitesError, match="is larger than the units of all sites allow"):
        hospitals.play()
    for name in hospitals.names:
        assert hospitals.parties[name].status()["charges"][-1]["held"]


def test_too_few_units_for_any_cell_are_refused_before_the_first_charge(tmp_path):
    hospitals = Hospitals(tmp_path, (20, 20, 20), holdout_score=0.1).all_join()
    with pytest.raises(BudgetError, match=r"holdout_score: .* held-back units are too few for any cell"):
        hospitals.play()
    assert all(hospitals.parties[name].status()["charges"] == [] for name in hospitals.names)


def test_a_sum_of_held_units_that_is_drawn_again_costs_such_a_unit_more(tmp_path):
    hospitals = a_run(tmp_path).all_join()
    account, restarted = Account(), False
    for name in list(hospitals.parties) * 60:
        hospitals.step(name, **({"ledger": account} if name == "h0" else {}))
        # The number of units is sum 0, and a mean and a round are before the histogram.
        if not restarted and (hospitals.messages / "sum.h0.1.3.json").exists():
            assert not (hospitals.messages / "sum.h1.1.3.json").exists()
            hospitals.parties["h1"] = SiteRun.load(hospitals.messages, hospitals.own("h1"))
            restarted = True
        if all(party.status()["done"] for party in hospitals.parties.values()):
            break
    assert restarted
    party = hospitals.parties["h0"]
    assert party.status()["attempts"] == 2
    of_held = [one for one in party.status()["charges"] if one.get("held")]
    assert len(of_held) == 2
    once = GaussianCost.of_sum(of_held[0]["sigma"], variance=of_held[0]["variance"], entries=of_held[0]["entries"])
    assert party.guarantee_.epsilon == pytest.approx(epsilon_at(once + once, 1e-6), rel=1e-6)
    assert account.epsilons[0] == 4.0
    assert " 2 3 " in account.keys[1]
    yes, said = confirmed(hospitals.own("h0") / "certificate.json")
    assert yes, said


def test_a_person_at_several_sites_costs_at_most_what_is_stated_in_any_mixture_of_parts():
    teaching, held = GaussianCost(0.3, 1e-9), GaussianCost(0.5, 2e-9)
    for n_sites, (one, other) in product(range(1, 6), [(teaching, held), (held, teaching)]):
        stated = epsilon_at(larger_cost(one, other), 1e-6, sites=n_sites)
        for first in range(n_sites + 1):
            squares = first**2 * one.squares + (n_sites - first) ** 2 * other.squares
            assert GaussianCost(squares, one.slack + other.slack).epsilon(1e-6) <= stated


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"holdout_score": 0.0}, "holdout_score"),
        ({"holdout_score": 0.6}, "holdout_score"),
        ({"holdout_score": "x"}, "holdout_score"),
        ({"relation": "add-or-remove-one"}, "requires relation='replace-one'"),
        ({"classes": (), "range": (0, 9)}, "holdout_score is not for a number"),
        ({"classes": (), "public": None, **TIMED}, "holdout_score is not for a life table"),
    ],
)
def test_impossible_terms_are_refused(changes, words):
    given = {"sites": ["a", "b", "c"], "public": b"age\n1\n", **LABELLED, "holdout_score": 0.2, "rounds": None}
    with pytest.raises(InvalidParameterError, match=words):
        RunTerms.of(**{**given, **changes})


def test_terms_survive_json_and_say_what_is_held_back():
    terms = RunTerms.of(sites=["a", "b", "c"], public=b"age\n1\n", holdout_score=0.25, **LABELLED)
    assert RunTerms.from_dict(json.loads(json.dumps(terms.to_dict()))) == terms
    assert any(one.startswith("About 25% of the units of each site are held back") for one in terms.words())
