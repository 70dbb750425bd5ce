"""A life table over several sites: one sum, which all sites open together, with the bands of their noise."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import dpensemble.engine.run as engine
from dpensemble import LifeTable
from dpensemble.certificates import confirmed
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.methods import life_table
from dpensemble.sites import RunTerms, SiteRun, sums
from dpensemble.sites.messages import SitesError
from tests.sites.hospitals import TIMED, Account, Hospitals, timed
from tests.sites.parties import ZeroNoise
from tests.sites.test_run import _as_all_sites

STRATA = {"arm": ["placebo", "drug"]}
BY_ARM = {"times": {**TIMED["times"], "strata": STRATA, "time_unit": "days"}}
FILES = {"report.html", "life-table.csv", "run.json", "card.json", "card.md", "certificate.json", "summary.json"}


def pooled_table(hospitals, monkeypatch, **settings):
    """Return the life table of pooled records, with noise as if it were that of all sites."""
    pooled, terms = pd.concat(hospitals.tables.values(), ignore_index=True), hospitals.parties["coordinator"].terms
    strata = STRATA if terms.times["strata"] else None
    table = LifeTable([30, 60, 90], events=[1], competing=[2], strata=strata, epsilon=2.0, delta=1e-6, **settings)
    with monkeypatch.context() as patch:
        ordinary = life_table.SumReleaser
        patch.setattr(life_table, "SumReleaser", lambda **given: _as_all_sites(ordinary(**given), terms.noise()))
        return table.fit(pooled["days"], pooled["status"], strata=pooled if strata else None)


@pytest.mark.parametrize(
    ("sizes", "settings"),
    [
        ((60, 80, 100), BY_ARM),
        ((40,) * 5, {"relation": "add-or-remove-one"}),
        pytest.param((12,) * 20, BY_ARM, marks=pytest.mark.nightly),
    ],
)
def test_without_noise_the_table_is_that_of_pooled_records_to_the_last_bit(tmp_path, monkeypatch, sizes, settings):
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    hospitals = Hospitals(tmp_path, sizes, rows=timed, **settings).all_join().play()
    relation = settings.get("relation", "replace-one")
    whole = pooled_table(hospitals, monkeypatch, relation=relation).life_table_
    for party in hospitals.parties.values():
        own = party.model_.life_table_
        assert (own.noisy == whole.noisy).all()
        # Bands and tests follow from the sum and from the noise of all sites.
        assert own.spread == whole.spread
        assert own.to_dict() == whole.to_dict()
        assert party.summary()["life_table"] == whole.to_dict()


def test_a_run_states_what_it_cost_and_writes_a_page_with_the_larger_noise(tmp_path):
    hospitals = Hospitals(tmp_path, rows=timed, at_sites=2, **BY_ARM).all_join()
    account = Account()
    hospitals.play(h1={"ledger": account})
    party = hospitals.parties["h1"]
    assert party.guarantee_.epsilon == pytest.approx(2.0, rel=1e-5)
    assert "at 2 sites at epsilon" in str(party.guarantee_)
    assert account.epsilons == [2.0]
    assert len({json.dumps(one.certificate_) for one in hospitals.parties.values()}) == 1
    yes, said = confirmed(hospitals.own("h1") / "certificate.json")
    assert yes, said
    assert len(party.model_.charges_) == len(party.status()["charges"]) == 1
    # The noise of three sites. That of two is charged.
    table, charge = party.model_.life_table_, party.model_.charges_[0]
    assert table.spread == pytest.approx(math.sqrt(1.5 * charge["variance"]) / 2**34, rel=1e-9)
    assert table.to_dict()["noise"] == table.spread
    assert {path.name for path in hospitals.own("h1").iterdir()} - {"party.json", "journal.jsonl"} == FILES
    page = (hospitals.own("h1") / "report.html").read_text()
    assert "The table is of 240 private records." in page
    assert "epsilon = 2" in page
    curves = pd.read_csv(hospitals.own("h1") / "life-table.csv")
    assert curves["survival"].tolist() == [one for curve in table.curves for one in curve.survival]
    assert "arm=drug" in party.where_
    assert "report.html" in party.where_
    # Every party has the same numbers.
    assert (hospitals.root / "c" / "life-table.csv").read_text() == (hospitals.own("h1") / "life-table.csv").read_text()


@pytest.mark.parametrize("settings", [{"relation": "add-or-remove-one"}, {"unit": "person"}])
def test_no_file_or_message_has_a_number_that_is_not_public(tmp_path, settings):
    hospitals = Hospitals(tmp_path, (61, 83, 107), rows=timed, **settings)
    for name, rows in hospitals.tables.items():
        if "unit" in settings:
            # Every third person has two records.
            rows.assign(person=[f"p{3 * place // 4}" for place in range(len(rows))]).to_csv(
                hospitals.file(name), index=False
            )
    hospitals.all_join().play()
    own = [hospitals.parties[name]._tables.site.n_units for name in hospitals.names]
    for name in ("coordinator", *hospitals.names):
        data = json.loads((hospitals.own_of(name) / "run.json").read_text())["data"]
        assert data["private_records"] is None
        assert data["private_units"] == (None if "relation" in settings else sum(own))
    for path in hospitals.messages.iterdir():
        assert not any(f" {n} " in path.read_text() for n in (*own, 61, 83, 107))


def test_bad_records_and_columns_that_no_term_names_add_nothing_and_show_nothing(tmp_path):
    hospitals = Hospitals(tmp_path, rows=timed, **BY_ARM)
    rows = hospitals.tables["h0"].astype(object)
    rows.iloc[:4, 0] = ["soon", None, -1, "inf"]
    rows.iloc[4:6, 1] = [7, None]
    rows.iloc[6:8, 2] = ["other", None]
    rows.to_csv(hospitals.file("h0"), index=False)
    hospitals.all_join()
    block = hospitals.parties["h0"]._tables.site.records.blocks[0]
    assert (block.targets[:8] == -1).all()
    assert (block.targets[8:] >= 0).all()
    assert list(block.rows.columns) == ["time", "event"]
    names = {path.name for path in hospitals.messages.iterdir()}
    assert names == {"terms.coordinator.0.0.json", *(f"join.h{number}.0.0.json" for number in range(3))}


def test_a_table_without_a_column_that_the_terms_name_cannot_join(tmp_path):
    hospitals = Hospitals(tmp_path, rows=timed, **BY_ARM)
    hospitals.tables["h0"].drop(columns="arm").to_csv(hospitals.file("h0"), index=False)
    with pytest.raises(DataError, match="strata='arm' is not a column of the private table"):
        hospitals.join(["h0"])
    assert not list(hospitals.messages.glob("*.h0.*"))


def test_records_that_changed_since_the_site_joined_are_refused(tmp_path):
    hospitals = Hospitals(tmp_path, rows=timed).all_join()
    rows = hospitals.tables["h1"]
    rows.loc[3, "days"] += 1
    rows.to_csv(hospitals.file("h1"), index=False)
    hospitals.parties["h1"] = SiteRun.load(hospitals.messages, hospitals.own("h1"))
    with pytest.raises(DataError, match="changed since this site joined"):
        hospitals.step("h1")


def test_a_sum_that_wraps_is_longer_than_all_units_allow_and_stays_charged(tmp_path, monkeypatch):
    hospitals = Hospitals(tmp_path, rows=timed).all_join()
    ordinary = sums.exact_total

    def wrapping(records, query, number):
        total, whose = ordinary(records, query, number)
        # Three times 2**62 is negative modulo 2**64.
        return total + 2**62 * bool(number), whose

    monkeypatch.setattr(sums, "exact_total", wrapping)
    with pytest.raises(SitesError, match="sum 2 is larger than the units of all sites allow"):
        hospitals.play()
    assert all(len(hospitals.parties[name].status()["charges"]) == 1 for name in hospitals.names)
    assert not list(hospitals.messages.glob("opened.*.1.json"))


def test_one_person_adds_one_row_and_the_first_event_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    hospitals = Hospitals(tmp_path, (4, 4, 4), rows=timed, unit="person")
    rows = pd.DataFrame({"days": [10, 70, 50, 80], "status": [0, 1, 1, 0], "person": ["a", "a", "a", "b"]})
    for name in hospitals.names:
        rows.to_csv(hospitals.file(name), index=False)
    hospitals.all_join().play()
    single = LifeTable([30, 60, 90], events=[1], competing=[2], epsilon=2.0, delta=1e-6, insecure_release_seed=0)
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    # Of each site, the event at 50 and the censoring at 80.
    single.fit([50, 80] * 3, [1, 0] * 3)
    assert np.array_equal(hospitals.parties["h0"].model_.life_table_.noisy, single.life_table_.noisy)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bins": [30]}, "bins"),
        ({"bins": [60, 30]}, "must ascend"),
        ({"bins": "30,60"}, "must be lists of numbers"),
        ({"bins": [30, "x"]}, "must be lists of numbers"),
        ({"events": ["0"]}, "must not share a code"),
        ({"events": "1"}, "list codes of events as texts"),
        ({"at": [45]}, "must be ends of bins"),
        ({"time_unit": "d1"}, "must be a word"),
        ({"strata": {"arm": ["drug"]}}, "strata"),
        ({"strata": {"arm": "drug"}}, "strata"),
        ({"strata": {"status": ["a", "b"]}}, "must be different columns"),
        ({"time": ""}, "must name the column of times"),
        ({"entry": "x"}, "has the entry 'entry'"),
    ],
)
def test_impossible_declarations_are_refused(changes, words):
    with pytest.raises(InvalidParameterError, match=words):
        RunTerms.of(sites=["a", "b", "c"], target="status", times={**TIMED["times"], **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"public": b"age\n1\n", "times": BY_ARM["times"]}, "strata is not for risks given a row: leave it out"),
        ({"rounds": 2}, "rounds is not for a life table"),
        ({"drop": ["note"]}, "drop is not for a life table"),
        ({"statistics": ["class-shares"]}, "statistics is not for a life table"),
        ({"declared_columns": {"age": [0, 9]}}, "declared_columns is not for a life table"),
        ({"classes": ["a", "b"]}, "only one of them can be given"),
        ({"range": (0, 9)}, "only one of them can be given"),
        ({"unit": "days"}, "must be different columns"),
    ],
)
def test_terms_that_do_not_belong_to_a_life_table_are_refused(changes, words):
    with pytest.raises(InvalidParameterError, match=words):
        RunTerms.of(**{"sites": ["a", "b", "c"], **TIMED, **changes})


def test_terms_survive_json_in_the_order_of_strata_and_say_what_is_released():
    strata = {"sex": ["m", "f"], "arm": ["placebo", "drug"]}
    terms = RunTerms.of(sites=["a", "b", "c"], target="status", times={**TIMED["times"], "strata": strata})
    plain = json.loads(json.dumps(terms.to_dict(), sort_keys=True))
    again = RunTerms.from_dict(plain)
    assert again == terms
    assert list(again.declared_times.strata) == ["sex", "arm"]
    assert again.declared_times.model().stratum_names[0] == "sex=m, arm=placebo"
    words = "A life table of 'days' until status is 1, by sex (m, f), by arm (placebo, drug), at 30, 60, 90."
    assert words in terms.words()
    for name in plain["times"]:
        for odd in (None, 1, True, "x", [None], [[]], {"a": 1}, [1e400]):
            changed = {**plain["times"], name: odd}
            if (name, odd) in (("at", None), ("time_unit", None), ("time_unit", "x"), ("time", "x")):
                continue
            with pytest.raises(InvalidParameterError):
                RunTerms.from_dict({**plain, "times": changed})
    for odd in ([], "x", 1, {}, {**plain["times"], "more": 1}):
        with pytest.raises(InvalidParameterError):
            RunTerms.from_dict({**plain, "times": odd})
