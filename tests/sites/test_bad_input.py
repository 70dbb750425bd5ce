"""Tables, members and messages that do not fit: each is refused in a sentence, or counts as missing."""

import json
import shutil
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from dpensemble.errors import DataError, DPEnsembleError, FileError
from dpensemble.sites import SiteRun
from dpensemble.sites.exchange import Patience
from dpensemble.sites.messages import KINDS, Post, SigningKey, SitesError, StillWaiting, digest
from dpensemble.sites.terms import COORDINATOR
from tests.sites.hospitals import Account, Hospitals, table
from tests.sites.parties import Box, Crew, Memory, Party, play

#: Values that no message should have anywhere.
ODD = (None, [], {}, "", "x" * 5000, -1, 2**70, True, [[]], 1e300, [None], {"a": 1}, [{}], "00" * 32)


def signer(hospitals, name):
    """Return a post with a party's own key, as a malicious party has it."""
    party = json.loads((hospitals.own_of(name) / "party.json").read_text())
    terms = hospitals.parties[COORDINATOR].terms
    return Post(hospitals.parties[COORDINATOR]._transport, terms.run, name, SigningKey(bytes.fromhex(party["secret"])))


def body_of(hospitals, name):
    return json.loads((hospitals.messages / name).read_text())["body"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (table(0, 0), "has no rows: give a table with rows"),
        (table(1, 0), "has only one row, and private learning requires more"),
        (table(30, 0).assign(weight=1), "has columns that the public table lacks: 'weight'"),
        (table(30, 0).rename(columns={"kind": "age"}), "names a column twice"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_before_anything_is_sent(tmp_path, rows, words):
    hospitals = Hospitals(tmp_path)
    rows.to_csv(hospitals.file("h0"), index=False)
    before = sorted(hospitals.messages.iterdir())
    with pytest.raises((DataError, FileError), match=words):
        hospitals.join(["h0"])
    # Others see the same as if the site had not begun, and its folder can be used again.
    assert sorted(hospitals.messages.iterdir()) == before
    assert not (hospitals.own("h0") / "party.json").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"age": "old"},
        {"kind": 1.5},
        {"age": None, "kind": None},
        {"sick": "maybe"},
        {"sick": None},
        {"age": 1e300},
    ],
)
def test_records_that_cannot_be_read_add_nothing_and_show_nothing(tmp_path, change):
    # A column of another kind, other classes, blanks: a refusal would show what the records are.
    hospitals = Hospitals(tmp_path)
    hospitals.tables["h0"].assign(**change).to_csv(hospitals.file("h0"), index=False)
    hospitals.all_join()
    names = {path.name for path in hospitals.messages.iterdir()}
    assert names == {"public.csv", "terms.coordinator.0.0.json", *(f"join.h{number}.0.0.json" for number in range(3))}
    site = hospitals.parties["h0"]._tables.site
    assert site.n_units == 60


def test_a_site_above_its_number_of_units_does_not_refuse_and_the_total_is_not_opened_as_a_count(tmp_path):
    hospitals = Hospitals(tmp_path, most_units=[50, 60, 80]).all_join()
    with pytest.raises(SitesError, match=r"some site has more than the terms allow.*no noise was drawn"):
        hospitals.play()
    # The sentence names no site, and nothing was charged.
    assert all(hospitals.parties[name].status()["charges"] == [] for name in hospitals.names)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"versions": {"numpy": "0.1"}}, "h1 has other versions than the terms state: install the same versions"),
        ({"terms": "0" * 64}, "h1 joined other terms than h0: compare the folders"),
        ({"least": 2.0}, "h1 joined by a message that this version does not know"),
        ({"more": 1}, "h1 joined by a message that this version does not know"),
    ],
)
def test_a_member_that_joined_something_else_stops_everything(tmp_path, change, words):
    hospitals = Hospitals(tmp_path)
    hospitals.join()
    hospitals.trust()
    signer(hospitals, "h1").send("join", body_of(hospitals, "join.h1.0.0.json") | change)
    with pytest.raises(SitesError, match=words):
        hospitals.step("h0")
    assert not (hospitals.messages / "approve.h0.0.0.json").exists()


def test_a_site_that_joined_under_the_key_of_another_one_is_noticed(tmp_path):
    hospitals = Hospitals(tmp_path)
    hospitals.join()
    hospitals.trust()
    body = body_of(hospitals, "join.h1.0.0.json")
    party = hospitals.parties["h1"]
    thief = Post(party._transport, party.terms.run, "h2", party._key)
    thief.send("join", body)
    with pytest.raises(SitesError, match="two parties have one key"):
        hospitals.step("h0")


def test_members_that_approved_other_members_stop_before_any_draw(tmp_path):
    hospitals = Hospitals(tmp_path).all_join()
    for name in ("h0", "h2"):
        hospitals.step(name)
    signer(hospitals, "h1").send("approve", {"roster": "0" * 64})
    with pytest.raises(SitesError, match=r"h1 approved other members than h0 sees.*nothing was drawn"):
        hospitals.step("h0")


def test_signed_terms_with_any_odd_entry_are_refused_in_a_sentence(tmp_path):
    hospitals = Hospitals(tmp_path)
    good = body_of(hospitals, "terms.coordinator.0.0.json")
    post = signer(hospitals, COORDINATOR)
    for name in good["terms"]:
        for odd in ODD:
            body = good | {"terms": good["terms"] | {name: odd}}
            if body == good:
                continue
            post.send("terms", body)
            # Some odd values are harmless, so that the site joins another run than its coordinator wants.
            with suppress(DPEnsembleError):
                SiteRun.load(hospitals.messages, hospitals.own_of(COORDINATOR))
    for odd in (*ODD, {"terms": good["terms"]}, good | {"more": 1}, good | {"key": "zz"}):
        post.send("terms", odd)
        with pytest.raises(DPEnsembleError):
            SiteRun.load(hospitals.messages, hospitals.own_of(COORDINATOR))


def test_signed_members_with_any_odd_entry_are_refused_in_a_sentence(tmp_path):
    hospitals = Hospitals(tmp_path)
    hospitals.join()
    hospitals.trust()
    good = body_of(hospitals, "join.h1.0.0.json")
    for odd in (*ODD, *(good | {name: one} for name in good for one in ODD)):
        if odd == good:
            continue
        signer(hospitals, "h1").send("join", odd)
        party = SiteRun.load(hospitals.messages, hospitals.own("h0"))
        with pytest.raises(DPEnsembleError):
            party._members(Patience(0.0))
        party.status()


def damaged(content, rng, others):
    """Return a message after an accident, or after an attack by somebody without keys."""
    how = rng.integers(6)
    place = int(rng.integers(len(content)))
    if how == 0:
        return content[:place]
    if how == 1:
        return content[:place] + bytes([content[place] ^ (1 << int(rng.integers(8)))]) + content[place + 1 :]
    if how == 2:
        return others[int(rng.integers(len(others)))]
    if how == 3:
        return content + content[place:]
    if how == 4:
        return b""
    return bytes(rng.integers(0, 256, 200, dtype=np.uint8))


def fuzzed(seed, damages):
    """Damage messages in between all acts of a run, then repair them. Return crew, sentences and results."""
    rng, crew = np.random.default_rng(seed), Crew(3, attempts=3)
    said, done = [], {}
    for turn in range(40):
        for name in crew.parties:
            messages = crew.box.messages
            kept = None
            if messages and turn < damages:
                victim = sorted(messages)[int(rng.integers(len(messages)))]
                kept = victim, messages[victim]
                messages[victim] = damaged(messages[victim], rng, list(messages.values()))
            try:
                done[name] = crew[name].open(0)
            except DPEnsembleError as error:
                said.append(str(error))
            if kept is not None and crew.box.messages[kept[0]] is not None:
                # A party that sent its own message again has repaired it.
                messages[kept[0]] = kept[1]
        if len(done) == len(crew.parties) and turn >= damages:
            break
    return crew, said, done


@pytest.mark.parametrize("seed", range(12))
def test_messages_that_are_damaged_between_all_acts_open_nothing_else(seed):
    crew, said, done = fuzzed(seed, damages=6)
    assert all(said)
    opened = [name for name in crew.box.messages if name.startswith("opened")]
    if opened:
        # What is opened is the sum of what was charged and sent at every site.
        assert all(crew.draws(name) >= 1 for name in crew.terms.sites)
        assert set(done) == set(crew.parties)
        assert all((result == done["a"]).all() for result in done.values())


def test_a_signed_message_of_any_kind_and_odd_body_is_refused_or_waited_for():
    for kind in set(KINDS) - {"terms", "join", "approve"}:
        sender = COORDINATOR if kind in ("opened", "start") else "b"
        for odd in ODD:
            crew = Crew(3)
            play(crew, 0)
            Post(crew.box, crew.terms.run, sender, crew.keys[sender]).send(kind, odd, 1, 0)
            for reader in ("a", COORDINATOR):
                if reader == sender:
                    continue
                memory = {} if reader == COORDINATOR else {"journal": Memory()}
                with suppress(DPEnsembleError):
                    fresh = Party(crew, reader, box=Box(dict(crew.box.messages)), **memory)
                    fresh.exchange.opened = []
                    fresh.open(0)


@pytest.mark.parametrize("year", [1985, 2100])
def test_a_wrong_clock_changes_nothing_in_a_whole_run(tmp_path, monkeypatch, year):
    monkeypatch.setattr(time, "time", lambda: (year - 1970) * 3.15e7)
    hospitals = Hospitals(tmp_path).all_join().play()
    for path in Path(hospitals.messages).glob("*.json"):
        assert "time" not in json.loads(path.read_text())
    assert hospitals.parties["h0"].status()["done"]


def test_a_restored_coordinator_of_a_whole_run_costs_nothing(tmp_path):
    hospitals = Hospitals(tmp_path).all_join()
    shutil.copytree(hospitals.own_of(COORDINATOR), tmp_path / "backup")
    account = Account()
    hospitals.play(h0={"ledger": account})
    shutil.rmtree(hospitals.own_of(COORDINATOR))
    shutil.move(tmp_path / "backup", hospitals.own_of(COORDINATOR))
    for path in hospitals.messages.glob("*.coordinator.*"):
        if not path.name.startswith("terms"):
            path.unlink()
    hospitals.parties[COORDINATOR] = SiteRun.load(hospitals.messages, hospitals.own_of(COORDINATOR))
    again = hospitals.parties[COORDINATOR]
    for _ in range(3):
        with suppress(StillWaiting):
            again.run(patience=0)
    assert again.certificate_ == hospitals.parties["h0"].certificate_
    assert len(account.keys) == 1
    assert digest(again.summary()) == digest(hospitals.parties["h0"].summary())
