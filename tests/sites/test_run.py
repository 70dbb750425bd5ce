"""Whole runs of several sites in one process, on made-up tables in folders."""

import json
import re
import shutil
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

import dpensemble.engine.run as engine
from dpensemble import LabelMomentsClassifier, Ledger
from dpensemble.certificates import confirmed
from dpensemble.cli import main
from dpensemble.cost import GaussianCost
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.releases.parts import SiteSumsMeter, epsilon_at
from dpensemble.sites import RunTerms, SiteRun
from dpensemble.sites.messages import SitesError
from tests.sites.hospitals import DECLARED, ONE_EVENT, Account, Hospitals, a_folder, priced, risky, table, timed
from tests.sites.parties import ZeroNoise


@pytest.fixture
def hospitals(tmp_path):
    return Hospitals(tmp_path)


@pytest.mark.parametrize(
    ("sizes", "settings"),
    [
        ((60, 80, 100), {}),
        ((40,) * 5, {"rounds": 2}),
        ((12,) * 20, {}),
        ((60, 80, 100), {"declared_columns": DECLARED, "statistics": ["class-shares"]}),
        ((40,) * 5, {"declared_columns": DECLARED, "rounds": 2}),
        ((20, 30, 40), {"declared_columns": DECLARED, "relation": "add-or-remove-one"}),
    ],
)
def test_without_noise_the_model_is_that_of_pooled_records_to_the_last_bit(tmp_path, monkeypatch, sizes, settings):
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    hospitals = Hospitals(tmp_path, sizes, **settings).all_join().play()
    pooled = pd.concat(hospitals.tables.values(), ignore_index=True)
    given = {"classes": ["no", "yes"], "epsilon": 2.0, "delta": 1e-6, "rounds": 1, **settings}
    whole = LabelMomentsClassifier(on_bad_record="zero", **given)
    columns = list(settings.get("declared_columns", ["age", "kind"]))
    public = None if "declared_columns" in settings else hospitals.public
    # The pooled fit has the same noise, 0, and is fitted as if the noise were that of all sites.
    opened = hospitals.parties["coordinator"].model_
    with monkeypatch.context() as patch:
        noise = hospitals.parties["coordinator"].terms.noise()
        ordinary = engine_releaser()
        patch.setattr(label_moments(), "SumReleaser", lambda **given: _as_all_sites(ordinary(**given), noise))
        whole.fit(pooled[columns], pooled["sick"], X_public=public)
    for own, other in zip(opened.moments_, whole.moments_, strict=True):
        assert (own.values == other.values).all()
        assert own.spread == other.spread
    # The same sums in the same order, also those that are not rounds.
    assert [one.description for one in opened.result_.releases] == [one.description for one in whole.result_.releases]
    rows = table(50, 7, target=False)[columns]
    for party in hospitals.parties.values():
        assert (party.model_.predict_proba(rows) == whole.predict_proba(rows)).all()


def label_moments():
    from dpensemble.methods import label_moments as module

    return module


def engine_releaser():
    from dpensemble.releases import SumReleaser

    return SumReleaser


def _as_all_sites(releaser, noise):
    """Return a releaser that draws all noise of one place, as large as that of all sites."""

    class AllSites(type(releaser)):
        def charge_and_draw(self, query, total, share, *, weight=1.0):
            drawn = self.charge_and_draw_part(query, total, share, site=0)
            entries = np.array([int(one) for one in drawn]).reshape(total.shape)
            return self.read_opened(query, entries, share, weight=weight)

    return AllSites(
        relation=releaser.relation, meter=releaser.meter, noise=releaser.noise, kept_as=releaser.kept_as, parts=noise
    )


def test_a_run_states_what_it_cost_and_writes_its_model(hospitals):
    hospitals.all_join().play()
    party = hospitals.parties["h1"]
    assert party.guarantee_.epsilon == pytest.approx(2.0, rel=1e-5)
    assert "At most 1 of the 3 sites" in str(party.guarantee_)
    certificates = {json.dumps(one.certificate_) for one in hospitals.parties.values()}
    assert len(certificates) == 1
    yes, said = confirmed(hospitals.own("h1") / "certificate.json")
    assert yes, said
    assert {"student.skops", "summary.json"} <= {path.name for path in hospitals.own("h1").iterdir()}
    seen = party.status()
    assert seen["done"]
    assert seen["attempts"] == 1
    assert len(seen["charges"]) == len(party.model_.charges_)


def test_a_report_on_the_folder_of_a_site_names_the_files_of_the_result(hospitals, capsys):
    hospitals.join(["h0"])
    own = hospitals.own("h0")
    assert main(["report", str(own)]) == 2
    assert "its result is not there yet" in capsys.readouterr().err
    for name in ("student.skops", "certificate.json", "summary.json"):
        (own / name).touch()
    assert main(["report", str(own)]) == 2
    said = capsys.readouterr().err
    assert "is the own folder of a party of several sites, which has no page unless" in said
    assert "its result is in student.skops, certificate.json, summary.json; see" in said
    assert said.count("\n") == 1
    assert "train again" not in said


def test_no_message_holds_a_count_of_one_site_or_a_private_entry(hospitals):
    hospitals.all_join().play()
    for path in hospitals.messages.iterdir():
        if path.name == "public.csv":
            continue
        text = path.read_text()
        kinds = {"format", "version", "run", "kind", "from", "attempt", "number", "body", "signature"}
        assert set(json.loads(text)) == kinds
        # The secret keys and the records stay in the own folder.
        for name in hospitals.names:
            party = json.loads((hospitals.own(name) / "party.json").read_text())
            assert party["secret"] not in text
            assert party["row_key"] not in text
            assert party["records"] not in text


@pytest.mark.filterwarnings("ignore::dpensemble.errors.UnlikeRowsWarning")
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_units_statistics_and_both_relations(tmp_path, relation):
    run = Hospitals(tmp_path, relation=relation, statistics=["class-shares"], unit="person", at_sites=2)
    for name, rows in run.tables.items():
        rows.assign(person=[f"p{number // 2}" for number in range(len(rows))]).to_csv(run.file(name), index=False)
    run.all_join().play()
    party = run.parties["h0"]
    assert party.guarantee_.relation.value == relation
    assert "at 2 sites at epsilon" in str(party.guarantee_)
    titles = [one["title"] for one in party.summary()["statistics"]]
    assert "Share of each class" in titles
    yes, said = confirmed(run.own("h0") / "certificate.json")
    assert yes, said


def test_a_site_that_insists_on_all_of_the_noise_draws_all_of_it(hospitals):
    hospitals.join(["h0"], least=1.0)
    hospitals.join(["h1", "h2"])
    hospitals.trust()
    hospitals.play()
    noise = hospitals.parties["h1"]._exchange.noise
    assert noise.least == (1.0, 0.0, 0.0)
    variance = 2**60
    assert noise.opened(variance) == 2 * variance


def test_a_ledger_is_charged_once_for_the_run_and_once_more_for_a_sum_that_is_drawn_again(hospitals):
    hospitals.all_join()
    account = Account()
    lost = False
    for _ in range(60):
        done = [hospitals.step(name, **({"ledger": account} if name == "h0" else {})) for name in hospitals.parties]
        if not lost and len(account.keys) == 1 and (hospitals.messages / "sum.h0.1.1.json").exists():
            # h1 ends before it has sent its own sum, or after that. Both are the end of its key.
            hospitals.parties["h1"] = SiteRun.load(hospitals.messages, hospitals.own("h1"))
            lost = True
        if all(done):
            break
    assert lost
    assert account.epsilons[0] == 2.0
    attempts = hospitals.parties["h0"].status()["attempts"]
    charges = hospitals.parties["h0"].status()["charges"]
    again = len(charges) - len({one["number"] for one in charges})
    assert len(account.keys) == 1 + again
    assert len(set(account.drawn)) == len({one["number"] for one in charges})
    assert attempts in (1, 2)


def test_a_ledger_that_refuses_stops_the_site_before_its_draw(hospitals):
    hospitals.all_join()

    account = Account(refuses=True)

    def all_act():
        for _ in range(30):
            for name in hospitals.parties:
                hospitals.step(name, **({"ledger": account} if name == "h0" else {}))

    with pytest.raises(DataError, match="the account is empty"):
        all_act()
    assert (hospitals.messages / "lost.h0.1.0.json").exists()
    assert not (hospitals.messages / "sum.h0.1.1.json").exists()


def test_a_sum_that_may_be_drawn_again_is_charged_after_a_partial_restore(hospitals):
    """The journal has lost its last charge, and the coordinator hides what the site sent."""
    hospitals.all_join()
    account, journal = Account(), hospitals.own("h0") / "journal.jsonl"

    def all_act_until(name):
        for _ in range(60):
            for party in hospitals.parties:
                hospitals.step(party, **({"ledger": account} if party == "h0" else {}))
                if (hospitals.messages / name).exists():
                    return

    all_act_until("sum.h0.1.1.json")
    before = journal.read_text()
    all_act_until("sum.h0.1.2.json")
    assert len(account.keys) == 1
    journal.write_text(before)
    (hospitals.messages / "sum.h0.1.2.json").unlink()
    hospitals.parties["h0"] = SiteRun.load(hospitals.messages, hospitals.own("h0"))
    hospitals.play(h0={"ledger": account})
    assert len(account.keys) == 2
    assert " 2 2 " in account.keys[1]


@pytest.mark.parametrize("kind", ["basic", "gdp"])
def test_an_account_that_holds_one_run_is_enough(hospitals, kind):
    hospitals.all_join()
    terms = hospitals.parties["h0"].terms
    ledger = Ledger.create(hospitals.root / "ledger.db")
    account = ledger.open_account("h0", epsilon=1.02 * terms.epsilon, delta=terms.delta, filter=kind)
    hospitals.play(h0={"ledger": account})
    assert hospitals.parties["h0"].model_.classes_.tolist() == ["no", "yes"]
    notes = [charge for charge in account.history() if charge.what.startswith("sites: noise of sum")]
    assert len(notes) == len(hospitals.parties["h0"].status()["charges"])
    assert {charge.amount.loss for charge in notes} == {0}


@pytest.mark.parametrize("opened", [1, 2])
def test_a_run_restored_in_the_middle_is_charged_for_each_sum_that_is_drawn_again(tmp_path, opened):
    """All folders and messages are those of an earlier moment. The ledger is not, and knows what was drawn."""
    hospitals = Hospitals(tmp_path, rounds=2)
    hospitals.all_join()
    account, copy = Account(), hospitals.root.with_name(f"{hospitals.root.name}-copy")

    def act(until):
        for _ in range(60):
            for name in hospitals.parties:
                hospitals.step(name, **({"ledger": account} if name == "h0" else {}))
            if until():
                return

    act((hospitals.messages / f"opened.coordinator.1.{opened}.json").exists)
    shutil.copytree(hospitals.root, copy)
    hospitals.play(h0={"ledger": account})
    drawn = len(account.drawn)
    shutil.rmtree(hospitals.root)
    shutil.move(copy, hospitals.root)
    for name in hospitals.parties:
        hospitals.parties[name] = SiteRun.load(hospitals.messages, hospitals.own_of(name))
    before = len(account.keys)
    hospitals.play(h0={"ledger": account})
    again = [key for key in account.keys[before:] if " 2 " in key]
    assert before == 1
    assert len(again) == len(account.keys) - before == drawn - opened >= 1


def test_a_restored_site_whose_ledger_knows_the_run_is_charged_for_every_further_sum(hospitals):
    hospitals.all_join()
    account = Account()
    shutil.copytree(hospitals.own("h0"), hospitals.root / "backup")
    for _ in range(60):
        for name in hospitals.parties:
            hospitals.step(name, **({"ledger": account} if name == "h0" else {}))
        if (hospitals.messages / "sum.h0.1.1.json").exists():
            break
    shutil.rmtree(hospitals.own("h0"))
    shutil.move(hospitals.root / "backup", hospitals.own("h0"))
    hospitals.parties["h0"] = SiteRun.load(hospitals.messages, hospitals.own("h0"))
    before = len(account.keys)
    hospitals.play(h0={"ledger": account})
    drawn = len(hospitals.parties["h0"].status()["charges"])
    assert len(account.keys) == before + drawn


def test_records_that_changed_since_the_site_joined_are_refused(hospitals):
    hospitals.all_join()
    rows = hospitals.tables["h1"]
    rows.iloc[3, 0] = 21
    rows.to_csv(hospitals.file("h1"), index=False)
    # A process that joined keeps the records of then in memory. A new process reads the file again.
    hospitals.parties["h1"] = SiteRun.load(hospitals.messages, hospitals.own("h1"))
    with pytest.raises(DataError, match="changed since this site joined"):
        hospitals.step("h1")
    assert not (hospitals.messages / "approve.h1.0.0.json").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.rename(columns={"age": "years"}), "age"),
        (lambda rows: rows.drop(columns="sick"), "sick"),
        (lambda rows: rows.iloc[:0], "no rows|empty|row"),
    ],
)
def test_a_site_with_another_table_cannot_join_and_sends_nothing(hospitals, change, words):
    change(hospitals.tables["h0"]).to_csv(hospitals.file("h0"), index=False)
    with pytest.raises((DataError, FileError), match=words):
        hospitals.join(["h0"])
    assert [path.name for path in hospitals.messages.iterdir() if "h0" in path.name] == []
    # The name is free for the right table.
    table(30, 0).to_csv(hospitals.file("h0"), index=False)
    hospitals.join(["h0"])


def test_a_site_with_other_versions_cannot_join(hospitals, monkeypatch):
    monkeypatch.setattr("dpensemble.sites.run.other_versions", lambda _: "numpy 1.0, but must have 2.0")
    with pytest.raises(SitesError, match=r"numpy 1\.0.*same versions at all sites"):
        hospitals.join(["h0"])


def test_an_unknown_site_and_a_second_one_of_a_name_are_refused(hospitals):
    with pytest.raises(InvalidParameterError, match="not a site of this run"):
        SiteRun.join(hospitals.messages, hospitals.root / "x", name="h9", private=hospitals.file("h0"))
    hospitals.join(["h0"])
    with pytest.raises(SitesError, match="somebody joined as h0 before"):
        SiteRun.join(hospitals.messages, hospitals.root / "y", name="h0", private=hospitals.file("h0"))


KINDS = {
    "labels": {},
    "held back": {"declared_columns": DECLARED, "holdout_score": 0.2},
    "add-or-remove-one": {"declared_columns": DECLARED, "relation": "add-or-remove-one"},
    "number": {"rows": priced},
    "life table": {"rows": timed},
    "risks": {"rows": risky, **ONE_EVENT},
}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_a_table_is_checked_before_and_replaced_after_a_site_joined(tmp_path, settings):
    hospitals, rows = Hospitals(tmp_path, **settings), settings.get("rows", table)
    before = contents(hospitals.messages)
    given = {"name": "h0", "private": hospitals.file("h0")}
    read = SiteRun.check(hospitals.messages, hospitals.own("h0"), **given)
    assert read.counts_of_records()["records"] == 60
    assert not (hospitals.own("h0") / "party.json").exists()
    assert contents(hospitals.messages) == before
    hospitals.all_join()
    before, party = contents(hospitals.messages), json.loads((hospitals.own("h0") / "party.json").read_text())
    rows(31, 7).to_csv(hospitals.file("h0"), index=False)
    with pytest.raises(DataError, match="nothing was sent: give the table of join, or join again"):
        SiteRun.load(hospitals.messages, hospitals.own("h0")).run(hospitals.file("h0"), patience=0)
    assert SiteRun.check(hospitals.messages, hospitals.own("h0"), **given).counts_of_records()["records"] == 31
    hospitals.join(["h0"])
    assert hospitals.parties["h0"].counts_of_records()["records"] == 31
    # Others see nothing of it. The key stays, and so does the trust in others.
    assert contents(hospitals.messages) == before
    again = json.loads((hospitals.own("h0") / "party.json").read_text())
    assert {name for name in party if party[name] != again[name]} == {"records"}
    hospitals.parties["h0"] = SiteRun.load(hospitals.messages, hospitals.own("h0"))
    for name in [*hospitals.parties, *hospitals.parties]:
        hospitals.step(name)
    if not (hospitals.own("h0") / "journal.jsonl").exists():
        hospitals.step("h0")
    assert (hospitals.own("h0") / "journal.jsonl").exists()
    for act in (SiteRun.join, SiteRun.check):
        with pytest.raises(FileError, match="has begun an attempt, so its table stays"):
            act(hospitals.messages, hospitals.own("h0"), **given)
    # The journal binds the site to its table.
    assert json.loads((hospitals.own("h0") / "journal.jsonl").read_text().split("\n")[0])["records"] == again["records"]


def test_a_process_with_the_table_of_before_draws_nothing_after_the_site_joined_again(hospitals):
    hospitals.all_join()
    table(31, 7).to_csv(hospitals.file("h0"), index=False)
    SiteRun.join(hospitals.messages, hospitals.own("h0"), name="h0", private=hospitals.file("h0"))
    with pytest.raises(DataError, match="the private records changed since this site joined"):
        hospitals.play(turns=5)
    assert not list(hospitals.messages.glob("key.h0.*"))
    assert not (hospitals.own("h0") / "journal.jsonl").exists()


def test_the_first_attempt_binds_a_site_to_its_table_even_if_it_joins_again_meanwhile(hospitals):
    hospitals.all_join()
    own, journal = hospitals.own("h0"), hospitals.own("h0") / "journal.jsonl"
    for name in [*hospitals.parties, *hospitals.parties]:
        hospitals.step(name)
    hospitals.step("h0")
    lines = journal.read_text()
    # As if another process had looked for the journal just before.
    journal.unlink()
    for path in hospitals.messages.glob("key.h0.*"):
        path.rename(hospitals.root / path.name)
    table(31, 7).to_csv(hospitals.file("h0"), index=False)
    SiteRun.join(hospitals.messages, own, name="h0", private=hospitals.file("h0"))
    journal.write_text(lines)
    with pytest.raises(DataError, match="give the table of join, or agree on a new run"):
        SiteRun.load(hospitals.messages, own).run(hospitals.file("h0"), patience=0)


def test_a_site_whose_folder_lost_its_journal_does_not_join_again(hospitals):
    hospitals.all_join()
    for name in [*hospitals.parties, *hospitals.parties]:
        hospitals.step(name)
    hospitals.step("h0")
    (hospitals.own("h0") / "journal.jsonl").unlink()
    with pytest.raises(FileError, match="has begun an attempt"):
        hospitals.join(["h0"])


def test_a_site_that_joins_again_keeps_its_noise_and_is_no_other_site(hospitals):
    hospitals.join(["h0"], least=1.0)
    before = (hospitals.own("h0") / "party.json").read_text()
    with pytest.raises(InvalidParameterError, match="give least=1, or agree on a new run"):
        hospitals.join(["h0"])
    table(31, 7).drop(columns="sick").to_csv(hospitals.file("h0"), index=False)
    with pytest.raises(DataError, match="sick"):
        hospitals.join(["h0"], least=1.0)
    # A table that does not fit leaves the site as it was.
    assert (hospitals.own("h0") / "party.json").read_text() == before
    hospitals.join(["h1"])
    table(31, 7).to_csv(hospitals.file("h0"), index=False)
    shutil.copy(hospitals.messages / "join.h1.0.0.json", hospitals.messages / "join.h0.0.0.json")
    with pytest.raises(FileError, match="wrong signature"):
        hospitals.join(["h0"], least=1.0)
    other = SiteRun.join(hospitals.messages, hospitals.root / "x", name="h2", private=hospitals.file("h2"))
    other._post.name = "h0"
    other._post.send("join", {"key": other._key.public.hex(), "least": 1.0, "terms": "", "versions": {}})
    with pytest.raises(SitesError, match="somebody joined as h0 before"):
        hospitals.join(["h0"], least=1.0)


def test_a_site_that_is_not_approved_or_has_another_key_stops_everything(hospitals):
    hospitals.join()
    with pytest.raises(SitesError, match="h1 is not approved yet"):
        hospitals.step("h0")
    hospitals.trust()
    hospitals.parties["h0"].trust({"h1": hospitals.parties["h2"].fingerprint})
    with pytest.raises(SitesError, match="by a typing error or because somebody may pretend to be h1: nothing was"):
        hospitals.step("h0")
    assert not (hospitals.messages / "approve.h0.0.0.json").exists()
    # The right fingerprint replaces the wrong one.
    hospitals.parties["h0"].trust({"h1": hospitals.parties["h1"].fingerprint})
    assert not hospitals.step("h0")
    assert (hospitals.messages / "approve.h0.0.0.json").exists()


def test_changed_terms_or_public_rows_are_refused(hospitals):
    hospitals.all_join()
    (hospitals.messages / "public.csv").write_text("age,kind\n30,north\n")
    with pytest.raises(SitesError, match=r"public\.csv is not the file of the terms"):
        SiteRun.load(hospitals.messages, hospitals.own("h0")).run(hospitals.file("h0"), patience=0)
    other = Hospitals(a_folder(hospitals.root / "other"))
    shutil.copy(other.messages / "terms.coordinator.0.0.json", hospitals.messages)
    with pytest.raises(SitesError, match="not those that this party joined"):
        SiteRun.load(hospitals.messages, hospitals.own("h0"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sites": ["a", "b"]}, "at least 3"),
        ({"sites": ["a", "b", "A"]}, "twice"),
        ({"sites": ["a", "b", "coordinator"]}, "coordinator"),
        ({"sites": ["a", "b", "../c"]}, "letters, digits and hyphens"),
        ({"colluding": 2}, "at least 4"),
        ({"most_units": [2**27, 2**27, 1]}, "268,435,457"),
        ({"most_units": [1, 2]}, "one number for each site"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"attempts": 0}, "attempts"),
        ({"at_sites": 4}, "at_sites"),
        ({"classes": ["no"]}, "classes"),
        ({"relation": "other"}, "relation"),
        ({"statistics": ["mean"]}, "unknown"),
    ],
)
def test_impossible_terms_are_refused(changes, words):
    given = {"sites": ["a", "b", "c"], "classes": ["no", "yes"], "target": "y", "public": b"x\n1\n", **changes}
    with pytest.raises((InvalidParameterError, ValueError), match=words):
        RunTerms.of(**given)


def test_terms_survive_json_and_unknown_entries_are_refused():
    terms = RunTerms.of(sites=["a", "b", "c"], classes=[0, 1], target="y", public=b"x\n1\n", epsilon=2.0)
    plain = json.loads(json.dumps(terms.to_dict()))
    assert RunTerms.from_dict(plain) == terms
    with pytest.raises(InvalidParameterError, match="other entries"):
        RunTerms.from_dict({**plain, "more": 1})
    for name in plain:
        for odd in (None, [], {}, "x" * 5000, -1, True, [[]], 1e300):
            with suppress(InvalidParameterError, ValueError, TypeError):
                RunTerms.from_dict({**plain, name: odd})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": "sick", "classes": ["no", "a b"]}, "'sick' is a label, which is one of 'no', 'a b'."),
        ({"target": "year", "classes": [1, 2]}, "'year' is a label, which is one of 1, 2."),
        ({"range": (0.25, 1234567.0), "target": "price"}, "'price' is a number from 0.25 to 1234567, and"),
        (
            {"target": "died", "times": {"time": "days", "events": [1], "censored": [0, 3], "bins": [30, 1234567]}},
            "until died is 1, at 30, 1234567. Codes of 'died': '1' for the event, '0', '3' for a censoring, none for",
        ),
    ],
)
def test_terms_in_words_name_all_that_sites_compare(given, words):
    terms = RunTerms.of(sites=["a", "b", "c"], public=b"x\n1\n", **given)
    assert words in " ".join(terms.words())
    strange = RunTerms.from_dict(terms.to_dict() | {"target": "\x1b[1m"}).words()
    assert all(line.isprintable() for line in strange)


@pytest.mark.parametrize("attempts", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_the_most_epsilon_in_words_is_not_below_that_of_all_attempts(epsilon, attempts):
    given = {"classes": ["no", "yes"], "target": "y", "public": b"x\n1\n", "epsilon": epsilon, "attempts": attempts}
    terms = RunTerms.of(sites=["a", "b", "c"], at_sites=2, **given)
    meter = SiteSumsMeter(terms.budget, attempts)
    one, two = (re.search(r"at most ([\d.]+)", line).group(1) for line in terms.words()[1:3])
    assert meter.groups[0].budget.epsilon <= float(one) < 1.01 * meter.groups[0].budget.epsilon
    most = epsilon_at(GaussianCost(meter.mu**2), terms.delta, sites=2)
    assert most <= float(two) < 1.01 * most


@pytest.mark.parametrize("where", ["messages", "messages/own", "."])
def test_secrets_never_lie_in_the_folder_of_messages(tmp_path, where):
    messages = a_folder(tmp_path / "messages")
    with pytest.raises(InvalidParameterError, match="apart from"):
        SiteRun.new(
            messages, tmp_path / where, public=table(20, 0), sites=["a", "b", "c"], classes=["n", "y"], target="sick"
        )


def test_arguments_of_run_are_checked(hospitals):
    hospitals.join(["h0"])
    with pytest.raises(InvalidParameterError, match="coordinator has no records"):
        hospitals.parties["coordinator"].run(hospitals.file("h0"))
    with pytest.raises(InvalidParameterError, match="give the site's table"):
        hospitals.parties["h0"].run()
    with pytest.raises(InvalidParameterError, match="ledger must be"):
        hospitals.parties["h0"].run(hospitals.file("h0"), ledger="file.db")
    with pytest.raises(InvalidParameterError, match="not another site"):
        hospitals.parties["h0"].trust({"h0": "1"})


def test_a_message_that_is_no_file_is_one_sentence(hospitals):
    hospitals.join(["h0", "h1"])
    (hospitals.messages / "join.h2.0.0.json").mkdir()
    with pytest.raises(FileError, match=r"join\.h2\.0\.0\.json cannot be read \(it is a folder\)"):
        hospitals.step("h0")
    assert "it is a folder" in hospitals.parties["h0"].status()["problems"][0]


def test_the_certificate_of_a_site_states_no_less_than_the_site_drew(hospitals):
    hospitals.all_join().play()
    stated = hospitals.parties["h0"].certificate_
    assert stated == hospitals.parties["h1"].certificate_
    # As if a coordinator had got a sum twice, and denied the attempt.
    charge = json.loads((hospitals.own("h0") / "journal.jsonl").read_text().splitlines()[-1])
    with (hospitals.own("h0") / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps(charge) + "\n")
    again = SiteRun.load(hospitals.messages, hospitals.own("h0")).run(hospitals.file("h0"), patience=0)
    assert again.guarantee_.epsilon > hospitals.parties["h1"].guarantee_.epsilon
    assert again.certificate_ != stated
