"""Sums of several sites: exactness, masks, and attacks. Nothing is opened that was not charged."""

import base64
import hashlib
import json
import math
import time
from contextlib import suppress

import numpy as np
import pytest

from dpensemble.cost import noise_variance
from dpensemble.sites import exchange, masks
from dpensemble.sites.messages import SigningKey, SitesError, StillWaiting, _signed_part, canonical
from tests.sites.parties import QUERY, Box, Crew, Memory, Party, ZeroNoise, play, until


def only_a_sent(crew, attempt=1):
    """Let all sites sign the transcript of an attempt, and only site `a` send its masked sum."""
    # The last site that signs sends at once.
    until(crew, ["coordinator", "b", "a", "c"], 0, f"sum.a.{attempt}.0.json")
    assert f"sum.b.{attempt}.0.json" not in crew.box.messages


@pytest.mark.parametrize("n_sites", [3, 5])
def test_without_noise_the_opened_sum_is_the_exact_sum(n_sites):
    crew = Crew(n_sites, source=ZeroNoise)
    for number in range(2):
        for result in play(crew, number).values():
            assert (result == crew.total()).all()
    assert all(len(crew[name].charged) == 2 for name in crew.terms.sites)


def test_all_parties_see_one_noisy_sum():
    crew = Crew(4, colluding=2)
    results = play(crew, 0)
    assert all((result == results["a"]).all() for result in results.values())
    assert (results["a"] != crew.total()).all()


def test_nobody_but_its_site_sees_a_sum_without_noise_or_a_key():
    crew = Crew(3, source=ZeroNoise)
    play(crew, 0)
    text = b"".join(crew.box.messages.values()).decode()
    for name in crew.terms.sites:
        exact = canonical(crew.numbers[name].tolist()).decode()[1:-1]
        assert exact not in text


def shares_of(crew, number):
    """Return the masked numbers of every site."""
    words = {}
    for name in crew.terms.sites:
        message = json.loads(crew.box.messages[f"sum.{name}.1.{number}.json"])
        words[name] = np.frombuffer(base64.b64decode(message["body"]["words"]), dtype="<u8")
    return words


def test_masks_hide_each_honest_site_from_the_coordinator_and_its_colluding_sites():
    # The coordinator and site c know the masks of a with c, and not that of a with b. What is left of a's numbers
    # without noise should be uniform: each of 64 bits of 2,000 numbers is 1 in half of the cases, up to 6 deviations.
    # False alarms: 64 x 2e-9.
    entries = 2000
    crew = Crew(3, source=ZeroNoise, entries=entries)
    play(crew, 0)
    words = shares_of(crew, 0)
    known = crew["c"]
    attempt = known.exchange.attempt
    salt = hashlib.sha256(attempt.agreed[0].encode()).digest()
    stream = masks._stream(attempt.key, attempt.keys["a"], ["a", "c"], salt, entries)
    left = words["a"] - stream
    bits = (left[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert (np.abs(bits.mean(axis=0) - 0.5) < 6 * 0.5 / math.sqrt(entries)).all()
    # The test can fail: with the mask of b as well, the numbers themselves are left.
    other = crew["b"].exchange.attempt
    stream = masks._stream(other.key, other.keys["a"], ["a", "b"], salt, entries)
    assert (masks.signed(left - stream) == crew.numbers["a"]).all()


def test_masks_of_two_sums_and_of_two_transcripts_differ():
    one, other = masks.new_key(), masks.new_key()
    keys = {"a": masks.public_bytes(one), "b": masks.public_bytes(other)}
    first = masks.masked([0] * 50, one, "a", keys, b"1" * 32)
    assert (first + masks.masked([0] * 50, other, "b", keys, b"1" * 32) == 0).all()
    second = masks.masked([0] * 50, one, "a", keys, b"2" * 32)
    assert (first != second).all()
    assert (first + masks.masked([0] * 50, other, "b", keys, b"2" * 32) != 0).all()


def test_sums_wrap_exactly_and_signs_survive():
    one, other = masks.new_key(), masks.new_key()
    keys = {"a": masks.public_bytes(one), "b": masks.public_bytes(other)}
    mine, yours = [-(2**61), 2**61, -1, 0], [-(2**61), 2**61 - 1, 1, -5]
    total = masks.masked(mine, one, "a", keys, b"s" * 32) + masks.masked(yours, other, "b", keys, b"s" * 32)
    assert masks.signed(total).tolist() == [x + y for x, y in zip(mine, yours, strict=True)]


def test_the_opened_sum_has_the_stated_variance():
    # Relative error of a variance of 3,000 draws: sqrt(2 / 3000). Six of them: false alarms below 2e-9.
    entries = 3000
    crew = Crew(3, entries=entries)
    noise = play(crew, 0)["a"] - crew.total()
    meter = crew["a"].meter
    charged = noise_variance(meter.sigma(0.25), QUERY.replacing)
    assert np.mean(noise.astype(float) ** 2) / charged == pytest.approx(1.5, rel=6 * math.sqrt(2 / entries))


def test_a_lost_site_ends_the_attempt_and_what_was_drawn_is_drawn_and_charged_again():
    crew = Crew(3)
    only_a_sent(crew)
    crew.restart("b")
    results = play(crew, 0)
    assert "opened.coordinator.1.0.json" not in crew.box.messages
    assert (results["a"] == results["b"]).all()
    assert crew.box.messages["key.b.2.0.json"] != crew.box.messages["key.b.1.0.json"]
    assert crew.draws("a") == 2
    assert shares_differ(crew, "a")


def shares_differ(crew, name):
    """Return whether two attempts of a site have nothing in common."""
    bodies = [json.loads(crew.box.messages[f"sum.{name}.{attempt}.0.json"])["body"]["words"] for attempt in (1, 2)]
    return bodies[0] != bodies[1]


def test_attempts_come_to_an_end():
    crew = Crew(3, attempts=2)
    for attempt in (1, 2):
        only_a_sent(crew, attempt)
        crew.restart("b")
    with pytest.raises(SitesError, match="all 2 attempts of the run are used: what was drawn stays charged"):
        play(crew, 0)
    assert crew.draws("a") == 2
    assert not any(name.startswith("opened") for name in crew.box.messages)


def test_a_late_attempt_and_the_next_one_are_both_charged():
    # The coordinator withholds what it opens in attempt 1, and begins attempt 2.
    crew = Crew(3)
    until(crew, ["coordinator", "a", "b", "c"], 0, "opened.coordinator.1.0.json")
    for name in crew.terms.sites:
        assert crew.draws(name) == 1
    del crew.box.messages["opened.coordinator.1.0.json"]
    coordinator = crew.restart("coordinator")
    coordinator.exchange.opened, coordinator.exchange.attempt = [], None
    coordinator.exchange.begin(0)
    play(crew, 0)
    # Two sums are open, and two were charged at each site.
    assert [crew.draws(name) for name in crew.terms.sites] == [2, 2, 2]


class Killed(BaseException):
    """The process ends here."""


class Dying(Box):
    """A transport that ends the process instead of one more message."""

    def __init__(self, messages, left, sent):
        super().__init__(messages)
        self.left, self.sent = left, sent

    def put(self, name, content):
        if self.left == 0:
            raise Killed
        self.left -= 1
        self.sent.append(name)
        super().put(name, content)


@pytest.mark.parametrize("killed", ["a", "b", "c"])
def test_a_site_killed_at_every_step_never_sends_twice_in_an_attempt(killed):
    # Each step of the site that writes a message is the last one of its process, in turn.
    for steps in range(1, 9):
        crew = Crew(3, attempts=4)
        sent = []

        journal = Memory()
        crew.parties[killed] = Party(crew, killed, box=Dying(crew.box.messages, steps, sent), journal=journal)
        for _ in range(60):
            try:
                results = play(crew, 0, turns=1)
                break
            except Killed:
                draws = crew.draws(killed)
                again = crew.restart(killed)
                again.charged.extend([None] * draws)
            except AssertionError:
                continue
        else:
            raise AssertionError("the run never ended")
        assert len(sent) == len(set(sent))
        used = {int(name.split(".")[2]) for name in crew.box.messages if name.startswith("sum.")}
        assert all(crew.draws(name) >= 1 for name in crew.terms.sites)
        # Every masked sum that left a site was charged there.
        for name in crew.terms.sites:
            of_site = [one for one in crew.box.messages if one.startswith(f"sum.{name}.")]
            assert crew.draws(name) >= len(of_site)
        assert len(used) <= 4
        assert (results["a"] == results["coordinator"]).all()


def test_a_restored_site_neither_repeats_a_mask_nor_draws_in_an_old_attempt():
    crew = Crew(3)
    only_a_sent(crew)
    before = crew.box.messages["sum.a.1.0.json"]
    # The back-up does not know of the attempt.
    restored = crew.restart("a", journal=Memory())
    with pytest.raises(StillWaiting):
        restored.open(0)
    assert restored.charged == []
    assert "lost.a.1.0.json" in crew.box.messages
    assert crew.box.messages["sum.a.1.0.json"] == before
    play(crew, 0)
    assert shares_differ(crew, "a")


def test_a_restored_site_without_its_messages_is_alone_with_its_new_key():
    crew = Crew(3)
    only_a_sent(crew)
    # A coordinator that hides a's own messages and shows a the rest of attempt 1 again.
    shown = {name: one for name, one in crew.box.messages.items() if ".a." not in name}
    restored = crew.restart("a", journal=Memory(), box=Box(shown))
    for name in ("agree.b.1.0.json", "agree.c.1.0.json"):
        assert name in shown
    with pytest.raises(SitesError, match="signed another transcript"):
        restored.open(0)
    assert restored.charged == []


def without_coordinator(crew):
    """Remove all messages of the coordinator."""
    kept = {name: one for name, one in crew.box.messages.items() if ".coordinator." not in name}
    crew.box.messages.clear()
    crew.box.messages.update(kept)


def test_a_restored_coordinator_opens_the_same_sums_again_and_goes_on():
    crew = Crew(3)
    first = play(crew, 0)
    play(crew, 1)
    without_coordinator(crew)
    crew.restart("coordinator")
    assert (play(crew, 0)["coordinator"] == first["a"]).all()
    play(crew, 1)
    play(crew, 2)
    # Its secrets are in nobody's way, since it has none: no sum was drawn twice.
    assert [crew.draws(name) for name in crew.terms.sites] == [3, 3, 3]


def test_a_restored_coordinator_that_makes_up_sums_is_refused():
    crew = Crew(3)
    play(crew, 0)
    crew["coordinator"].exchange.opened = []
    crew["coordinator"].exchange.begin(0)
    with pytest.raises(SitesError, match="states other sums than it opened before"):
        play(crew, 1)
    assert [crew.draws(name) for name in crew.terms.sites] == [1, 1, 1]


def test_a_coordinator_that_forgets_sums_when_all_sites_start_again_gets_no_second_draw():
    crew = Crew(3)
    play(crew, 0)
    play(crew, 1)
    crew["coordinator"].exchange.opened = []
    crew["coordinator"].exchange.begin(0)
    for name in crew.terms.sites:
        crew.restart(name)
    with pytest.raises(SitesError, match="states other sums than it opened before"):
        play(crew, 0)
    assert [crew.draws(name) for name in crew.terms.sites] == [0, 0, 0]


def test_a_site_that_starts_again_after_the_last_sum_needs_no_attempt():
    crew = Crew(3)
    results = play(crew, 0)
    again = crew.restart("b")
    assert (again.open(0) == results["a"]).all()
    assert again.charged == []


def signed_by(crew, name, message):
    """Return a message with a party's signature."""
    signature = crew.keys[name].sign(_signed_part(message)).hex()
    return canonical({**message, "signature": signature})


def another_sum(crew, content):
    """Return a message of the coordinator with another opened sum."""
    message = json.loads(content)
    message.pop("signature")
    message["body"] = base64.b64encode(np.zeros(4, dtype="<i8").tobytes()).decode()
    return signed_by(crew, "coordinator", message)


@pytest.mark.parametrize("kind", ["key", "agree", "sum"])
@pytest.mark.parametrize("how", ["forged", "other run", "other attempt", "other number", "damaged", "empty", "huge"])
def test_a_false_message_counts_as_missing_and_is_explained(kind, how):
    crew = Crew(3)
    name = f"{kind}.b.1.0.json"
    until(crew, ["coordinator", "a", "b", "c"], 0, name)
    good = json.loads(crew.box.messages[name])
    unsigned = {entry: value for entry, value in good.items() if entry != "signature"}
    stranger = SigningKey(SigningKey.new_secret())
    false = {
        "forged": canonical({**good, "signature": stranger.sign(b"any").hex()}),
        "other run": signed_by(crew, "b", {**unsigned, "run": "0" * 64}),
        "other attempt": signed_by(crew, "b", {**unsigned, "attempt": 2}),
        "other number": signed_by(crew, "b", {**unsigned, "number": 1}),
        "damaged": crew.box.messages[name][:-20],
        "empty": b"",
        "huge": b" " * (2**26 + 1),
    }[how]
    fresh = Party(crew, "a", box=Box({**crew.box.messages, name: false}))
    assert fresh.post.read(kind, "b", 1, 0) is None
    assert "counts as missing" in fresh.post.problems[name]
    reader = Party(crew, "coordinator", box=Box({**crew.box.messages, name: false}))
    with pytest.raises(StillWaiting, match="counts as missing, because"):
        reader.open(0)
    # Nothing is opened with the false message.
    assert not any(one.startswith("opened") for one in reader.box.messages)


def test_a_message_of_an_earlier_attempt_does_not_count_in_the_next():
    crew = Crew(3)
    only_a_sent(crew)
    crew.restart("b")
    until(crew, ["coordinator", "a", "c", "b"], 0, "agree.c.2.0.json")
    # A replay of the first attempt's masked sum in the place of the second one's.
    crew.box.messages["sum.a.2.0.json"] = crew.box.messages["sum.a.1.0.json"]
    reader = Party(crew, "coordinator", box=Box(dict(crew.box.messages)))
    assert reader.post.read("sum", "a", 2, 0) is None
    assert "another run, attempt or purpose" in reader.post.problems["sum.a.2.0.json"]


def test_a_site_that_sends_twice_ends_the_run():
    crew = Crew(3)
    until(crew, ["coordinator", "a", "b", "c"], 0, "agree.b.1.0.json")
    with pytest.raises(StillWaiting):
        crew["a"].open(0)
    other = {**json.loads(crew.box.messages["key.b.1.0.json"])}
    other.pop("signature")
    other["body"] = {**other["body"], "key": "11" * 32}
    crew["a"].post.read("key", "b", 1)
    crew.box.messages["key.b.1.0.json"] = signed_by(crew, "b", other)
    with pytest.raises(SitesError, match="b signed two different messages"):
        crew["a"].post.read("key", "b", 1)


def test_two_sites_with_one_key_are_refused():
    crew = Crew(3)
    until(crew, ["coordinator", "a", "b", "c"], 0, "key.c.1.0.json")
    copied = json.loads(crew.box.messages["key.c.1.0.json"])
    copied.pop("signature")
    copied["body"]["key"] = json.loads(crew.box.messages["key.b.1.0.json"])["body"]["key"]
    crew.box.messages["key.c.1.0.json"] = signed_by(crew, "c", copied)
    reader = Party(crew, "coordinator")
    with pytest.raises(SitesError, match="one copied the other"):
        reader.open(0)


def test_a_key_of_low_order_is_refused():
    with pytest.raises(ValueError, match="low order"):
        masks.masked([1], masks.new_key(), "a", {"a": b"1" * 32, "b": bytes(32)}, b"s" * 32)


def test_different_sums_for_different_sites_stop_the_next_draw():
    crew = Crew(3)
    play(crew, 0)
    # The coordinator shows c another first sum.
    name = "opened.coordinator.1.0.json"
    lie = Box({**crew.box.messages, name: another_sum(crew, crew.box.messages[name])})
    # A site that never saw the true one, in a process that began with attempt 2.
    crew2 = Crew.__new__(Crew)
    crew2.__dict__.update(crew.__dict__)
    deceived = Party(crew2, "c", box=lie, journal=Memory())
    with pytest.raises((SitesError, StillWaiting)):
        deceived.open(1)
    assert deceived.charged == []


def test_a_coordinator_that_shows_two_first_sums_gets_no_second_one():
    crew = Crew(3)
    # Each site has a folder of its own, as if messages went by e-mail.
    boxes = {name: Box() for name in crew.parties}
    crew.parties = {name: Party(crew, name, box=boxes[name]) for name in crew.parties}

    def carry():
        for sender in crew.terms.sites:
            own = {name: one for name, one in boxes[sender].messages.items() if f".{sender}." in name}
            for other in boxes.values():
                other.messages.update(own)

    def coordinators(target, lie=False):
        for name, content in boxes["coordinator"].messages.items():
            if ".coordinator." in name:
                false = lie and name == "opened.coordinator.1.0.json"
                boxes[target].messages[name] = another_sum(crew, content) if false else content

    opened = set()
    for _ in range(12):
        for name, party in crew.parties.items():
            with suppress(StillWaiting):
                party.open(0)
                opened.add(name)
        carry()
        for name in crew.terms.sites:
            coordinators(name, lie=name == "c")
    assert opened == set(crew.parties)
    refused = []
    for _ in range(6):
        for name in crew.terms.sites:
            try:
                crew[name].open(1)
            except StillWaiting:
                pass
            except SitesError as error:
                refused.append((name, str(error)))
        carry()
    assert {name for name, _ in refused} == {"a", "b", "c"}
    assert all("signed another transcript" in text for _, text in refused)
    # Only the first sum was ever drawn.
    assert [crew.draws(name) for name in crew.terms.sites] == [1, 1, 1]


def test_members_that_differ_stop_before_any_draw():
    crew = Crew(3)
    crew.restart("b", roster="an invented site more")
    with pytest.raises(SitesError, match="other members"):
        play(crew, 0)
    assert [crew.draws(name) for name in crew.terms.sites] == [0, 0, 0]


def test_other_centres_stop_before_any_draw():
    crew = Crew(3)
    ordinary = exchange.NextSum

    def odd(party):
        def opened():
            coming = ordinary(0, QUERY.description, [1.0, 5.0 if party.name == "b" else 1.0])
            if party.name == "coordinator":
                return party.exchange.open(coming, QUERY, 1e12, 1000.0)
            return party.exchange.open(coming, QUERY, 1e12, 1000.0, lambda: party.charged.append(1) or [0, 0, 0, 0])

        return opened

    def all_act():
        for _ in range(9):
            for party in crew.parties.values():
                with suppress(StillWaiting):
                    odd(party)()

    with pytest.raises(SitesError, match="computed another sum 1"):
        all_act()
    assert [crew.draws(name) for name in crew.terms.sites] == [0, 0, 0]


def test_a_site_that_answers_after_the_attempt_closed_is_not_opened():
    crew = Crew(3)
    until(crew, ["coordinator", "a", "b", "c"], 0, "agree.c.1.0.json")
    crew.restart("b")
    with pytest.raises(StillWaiting):
        crew["b"].open(0)
    with pytest.raises(StillWaiting):
        crew["coordinator"].open(0)
    assert "start.coordinator.2.0.json" in crew.box.messages
    # c was about to answer in attempt 1.
    with pytest.raises(StillWaiting):
        crew["c"].open(0)
    assert "sum.c.1.0.json" not in crew.box.messages
    assert crew.draws("c") == 0


def test_a_sum_beyond_all_units_is_refused_and_stays_charged():
    crew = Crew(3, source=ZeroNoise)
    crew.numbers["b"] = crew.numbers["b"] + 2**61
    with pytest.raises(SitesError, match=r"larger than the units of all sites allow.*stays charged"):
        play(crew, 0)
    assert crew.draws("b") == 1


def test_a_wrong_clock_changes_nothing(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: -1e9)
    crew = Crew(3, source=ZeroNoise)
    assert (play(crew, 0)["a"] == crew.total()).all()
