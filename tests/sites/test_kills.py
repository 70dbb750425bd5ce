"""A party of whole runs is killed at every step: nothing is opened that was not charged, and one sentence explains it.

An exception ends the party at a step, and from then on the dead party writes nothing. Some parties are processes that
get SIGKILL.
"""

import json
import os
import signal
from collections import Counter
from contextlib import nullcontext, suppress

import pytest

from dpensemble.certificates import confirmed
from dpensemble.errors import FileError
from dpensemble.releases import SumReleaser
from dpensemble.server import Ledger
from dpensemble.sites import SiteRun, masks
from dpensemble.sites import charges as charges_module
from dpensemble.sites import run as run_module
from dpensemble.sites import tables as tables_module
from dpensemble.sites.messages import Folder, StillWaiting
from tests.sites.hospitals import ONE_EVENT, Hospitals, priced, risky, table, timed

ATTEMPTS = 20
SITE, COORDINATOR = "h0", "coordinator"
RESULTS = ["student.skops", "certificate.json", "summary.json"]
#: Steps of a site in the order of one sum, and steps of the coordinator.
OF_A_SITE = [
    *(f"{when} public.csv" for when in ("before", "after")),
    *(f"{when} approve" for when in ("before", "after")),
    *(f"{when} joined in the journal" for when in ("before", "half of", "after")),
    *(f"{when} key" for when in ("before", "after")),
    *(f"{when} agree" for when in ("before", "after")),
    *(f"{when} draws in the journal" for when in ("before", "half of", "after")),
    *(f"{when} number in the journal" for when in ("before", "half of", "after")),
    *(f"{when} the ledger" for when in ("before", "after")),
    *(f"{when} the draw" for when in ("before", "after")),
    *(f"{when} the masks" for when in ("before", "after")),
    *(f"{when} sum" for when in ("before", "after")),
    *(f"{when} lost" for when in ("before", "after")),
    *(f"{when} {file}" for file in RESULTS for when in ("before", "after")),
]
OF_EACH_SUM = OF_A_SITE[OF_A_SITE.index("before agree") : OF_A_SITE.index("before lost")]
OF_THE_COORDINATOR = [
    *(f"{when} public.csv" for when in ("before", "after")),
    *(f"{when} start" for when in ("before", "after")),
    *(f"{when} opened" for when in ("before", "after")),
    *(f"{when} {file}" for file in RESULTS for when in ("before", "after")),
]


# Newer Pythons warn of forks of a process with threads. Those of linear algebra are idle here.
FORKS = "ignore:.*multi-threaded:DeprecationWarning"


class Killed(BaseException):
    """The party ends here."""


class Executioner:
    """Ends the party that acts at some step of some sum, and lets a dead party write nothing."""

    def __init__(self):
        self.acting, self.victim, self.step, self.skips, self.dead = None, None, None, 0, False
        self.really = False
        self.kills = Counter()

    def arm(self, victim, step, skips=0):
        self.victim, self.step, self.skips, self.dead = victim, step, skips, False

    def is_due(self, step):
        """Return whether the victim acts and is at its step, perhaps not for the last time."""
        return self.victim is not None and self.acting == self.victim and step == self.step

    def at(self, step):
        """End the party here if the time has come. A dead party stays dead."""
        if self.acting != self.victim or self.victim is None:
            return
        if self.dead:
            raise Killed
        if not self.is_due(step):
            return
        if self.skips:
            self.skips -= 1
            return
        if self.really:
            os.kill(os.getpid(), signal.SIGKILL)
        self.dead = True
        self.kills[self.victim, step] += 1
        raise Killed


class Notes:
    """Lines of a file that outlive every process, where a witness writes."""

    def __init__(self, path):
        self.path = path

    def add(self, *line):
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def all(self):
        return (
            [tuple(json.loads(line)) for line in self.path.read_text().split("\n")[:-1]] if self.path.exists() else []
        )


class WatchedAccount:
    """An account of a real ledger. A witness notes every charge."""

    def __init__(self, account, killer, notes):
        self.account, self.killer, self.notes = account, killer, notes

    def has_release(self, key):
        return self.account.has_release(key)

    def one_release(self, what, *, release):
        def charge(spendings):
            self.killer.at("before the ledger")
            before = len(self.account.history())
            self.account.one_release(what, release=release)(spendings)
            if len(self.account.history()) > before:
                self.notes.add(release)
            self.killer.at("after the ledger")

        return charge


@pytest.fixture
def killer(monkeypatch):
    """Patch every step at which a party writes, charges, draws or sends."""
    killer = Executioner()

    def around(owner, name, step_of, half=None):
        ordinary = getattr(owner, name)

        def stepped(*given, **more):
            step = step_of(*given, **more)
            killer.at(f"before {step}")
            if half is not None:
                half(killer, step, *given)
            done = ordinary(*given, **more)
            killer.at(f"after {step}")
            return done

        monkeypatch.setattr(owner, name, stepped)

    def half_a_line(killer, step, journal, line):
        """Write a half of the line, and end."""
        half = f"half of {step}"
        if killer.is_due(half) and not killer.skips and not killer.dead:
            with journal._path.open("a") as file:
                file.write(json.dumps(line)[:7])
        killer.at(half)

    around(Folder, "put", lambda folder, name, content: name.split(".")[0])
    around(
        charges_module.Journal,
        "add",
        lambda journal, line: f"{next(one for one in ('joined', 'draws', 'number') if one in line)} in the journal",
        half_a_line,
    )
    around(masks, "masked", lambda *given: "the masks")
    around(tables_module, "save_classifier", lambda model, path: path.name)
    for module in (run_module, tables_module):
        around(module, "replace_own_file", lambda path, content: path.name)
    return killer


class Play:
    """A run of three hospitals of which one party is killed again and again. All hospitals have ledgers."""

    def __init__(self, root, killer, monkeypatch, **settings):
        # A draw is a site, an attempt and the number of a sum.
        self.killer, self.noted = killer, Notes(root / "draws")
        # Sums are small, so that a run takes about a second.
        self.hospitals = Hospitals(root, (30, 30, 30), attempts=ATTEMPTS, **settings)
        self.hospitals.all_join()
        self.accounts = {}
        for name in self.hospitals.names:
            ledger = Ledger.create(str(root / f"{name}.db"))
            relation = settings.get("relation", "replace-one")
            account = ledger.open_account("patients", epsilon=100, delta=1e-3, relation=relation)
            notes = Notes(root / f"{name}.charges")
            self.accounts[name] = WatchedAccount(account, killer, notes)
        self._watch(monkeypatch)

    def _watch(self, monkeypatch):
        """Note every draw, and require that its charge is on the disk and in the ledger."""
        ordinary = SumReleaser._charged

        def charged(sums, query, total, share, site=None):
            draw = ordinary(sums, query, total, share, site)
            name = self.killer.acting
            party = self.hospitals.parties[name]

            def watched():
                self.killer.at("before the draw")
                where = party._exchange.now, party._payer.number
                lines = (self.hospitals.own(name) / "journal.jsonl").read_text().split("\n")[:-1]
                assert where in [(one.get("attempt"), one.get("number")) for one in map(json.loads, lines)]
                assert self.accounts[name].account.history()
                assert (name, *where) not in self.draws, "two draws under one mask"
                self.noted.add(name, *where)
                drawn = draw()
                self.killer.at("after the draw")
                return drawn

            return watched

        monkeypatch.setattr(SumReleaser, "_charged", charged)

    @property
    def draws(self):
        return self.noted.all()

    def act(self, name, loud=False):
        """Let a party act once. Return whether it has the model."""
        self.killer.acting = name
        try:
            with nullcontext() if loud else suppress(StillWaiting):
                file = None if name == COORDINATOR else self.hospitals.file(name)
                self.hospitals.parties[name].run(file, patience=0, ledger=self.accounts.get(name))
                return True
            return False
        finally:
            self.killer.acting = None

    def restart(self, name):
        """Begin another process of a party, with its folder only."""
        self.hospitals.parties[name] = SiteRun.load(self.hospitals.messages, self.hospitals.own_of(name))

    def until_killed(self, victim, step, skips=0, turns=40):
        """Let all act in turn until the victim is killed or all have the model. Return whether it was killed."""
        self.killer.arm(victim, step, skips)
        done = set()
        for _ in range(turns):
            for name in self.hospitals.parties:
                if name in done:
                    continue
                try:
                    if self.act(name):
                        done.add(name)
                except Killed:
                    return True
            if len(done) == len(self.hospitals.parties):
                return False
        raise AssertionError(f"only {done} have a model")

    def lines(self, name):
        path = self.hospitals.own(name) / "journal.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def charges(self, name):
        return [(one["attempt"], one["number"]) for one in self.lines(name) if "sigma" in one]

    def messages(self, kind):
        """Return sender, attempt and number of all messages of a kind."""
        names = [path.name.split(".") for path in self.hospitals.messages.glob(f"{kind}.*.json")]
        return [(sender, int(attempt), int(number)) for _, sender, attempt, number, _ in names]

    def require_charged(self):
        """Require that all that left a site or was opened had been charged and drawn once."""
        for name, attempt, number in self.messages("sum"):
            # The first sum is the number of all units, which costs nothing.
            if number:
                assert (attempt, number) in self.charges(name)
                assert (name, attempt, number) in self.draws
        for _, attempt, number in self.messages("opened"):
            for name in self.hospitals.names:
                assert not number or (attempt, number) in self.charges(name)
        for name in self.hospitals.names:
            drawn = Counter(number for one, _, number in self.draws if one == name)
            charged = Counter(number for _, number in self.charges(name))
            assert not drawn - charged
            # The ledger has one charge for all first draws of a run, and one for each further draw.
            keys = self.accounts[name].notes.all()
            assert len(keys) == len(set(keys)) == len(self.accounts[name].account.history())
            assert len(keys) >= bool(drawn) + sum(count - 1 for count in drawn.values())

    def require_explained(self, victim):
        """Let the victim begin again, and require that its sentence is true."""
        joined = {one["joined"] for one in self.lines(victim) if "joined" in one}
        sentence = ""
        try:
            self.act(victim, loud=True)
        except StillWaiting as waits:
            sentence = str(waits)
        status = self.hospitals.parties[victim].status()
        lost = {int(attempt): names for attempt, names in status["lost"].items()}
        if victim == COORDINATOR:
            # It has no secrets, so nothing is lost with it.
            assert lost == {}
            assert "lost" not in sentence
            return
        assert all(names == [victim] for names in lost.values()), lost
        assert set(lost) == joined or (status["done"] and set(lost) == joined - {max(joined)})
        if joined and not status["done"]:
            stopped = f"{victim} was stopped in attempt {max(joined)}, which is lost"
            assert f"{stopped}, and what was drawn stays charged" in sentence
        else:
            assert status["done"] or (f"{victim} is waiting for" in sentence and "lost" not in sentence)

    def require_certified(self):
        """Require that certificates cover what was drawn at every site, and agree."""
        stated = [one.certificate_ for one in self.hospitals.parties.values()]
        assert all(one == stated[0] for one in stated)
        for name in self.hospitals.parties:
            yes, said = confirmed(self.hospitals.own_of(name) / "certificate.json")
            assert yes, said
            assert self.hospitals.parties[name].status()["done"]
        # Sums of held-back units are parts of their own, and every sum has one number.
        parts = [one["body"] for one in stated[0]["parts"] if one["body"]["at"] == 1]
        charges = [one for body in parts for one in body["rounds"]]
        for name in self.hospitals.names:
            drawn = Counter(number for one, _, number in self.draws if one == name)
            assert len(charges) >= drawn.total()
            assert len(charges) >= len(self.charges(name))


def kill_at_all(root, killer, monkeypatch, victim, steps, **settings):
    """Kill a party at all steps in turn, over as many runs as needed."""
    left, runs = list(steps), 0
    while left:
        folder = root / f"{victim}-{runs}"
        folder.mkdir()
        with monkeypatch.context() as patch:
            play, runs, before = Play(folder, killer, patch, **settings), runs + 1, len(left)
            play.restart(victim)
            for step, skips in left[: ATTEMPTS - 2]:
                killed = play.until_killed(victim, step, skips)
                play.require_charged()
                if not killed:
                    break
                left.remove((step, skips))
                play.restart(victim)
                killer.arm(None, None)
                # A site that begins again sends that it is lost.
                if not left or not left[0][0].endswith(" lost"):
                    play.require_explained(victim)
            else:
                assert not play.until_killed(None, None)
            assert len(left) < before, f"{left[0]} is never reached"
            play.require_charged()
            play.require_certified()
    assert killer.kills.total() == len(steps)


def test_a_site_killed_around_its_charge_and_draw(tmp_path, killer, monkeypatch):
    steps = ["half of number in the journal", "after the ledger", "after the draw", "after sum"]
    kill_at_all(tmp_path, killer, monkeypatch, SITE, [(step, 0) for step in steps])


def at_sum(number):
    """Return the steps of each sum. The first step is passed some times, so that a later sum is reached."""
    return [(step, 0 if place else number) for place, step in enumerate(OF_EACH_SUM)]


ALL_OF_A_SITE = [(step, 0) for step in OF_A_SITE]
#: The victim, its steps, and the relation. Under add-or-remove-one no number of units is opened.
KILLS = {
    "a site": (SITE, ALL_OF_A_SITE, "replace-one"),
    "a site at the second sum": (SITE, at_sum(1), "replace-one"),
    "a site at the last sum": (SITE, at_sum(2), "replace-one"),
    "a site without a public number of units": (SITE, ALL_OF_A_SITE, "add-or-remove-one"),
    "a site in the middle": ("h1", ALL_OF_A_SITE, "replace-one"),
    "the last site": ("h2", ALL_OF_A_SITE, "replace-one"),
    "the last site at the second sum": ("h2", at_sum(1), "replace-one"),
    "the last site at the last sum": ("h2", at_sum(1), "add-or-remove-one"),
    "the coordinator": (COORDINATOR, [(step, 0) for step in OF_THE_COORDINATOR], "replace-one"),
}


def test_the_kills_are_200():
    assert sum(len(steps) for _, steps, _ in KILLS.values()) >= 200


@pytest.mark.parametrize("name", KILLS)
def test_a_party_killed_at_every_step(tmp_path, killer, monkeypatch, name):
    victim, steps, relation = KILLS[name]
    kill_at_all(tmp_path, killer, monkeypatch, victim, steps, relation=relation)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("number", "settings"),
    [
        # Of a number: counts of the target, clipped residuals, and counts of residuals.
        *((number, {"rows": priced}) for number in (2, 3, 7)),
        # The sum of a life table, and the histogram of held-back units.
        (1, {"rows": timed}),
        (3, {"holdout_score": 0.4, "epsilon": 8.0}),
        # Of risks: the life table, and the residuals of both rounds.
        *((number, {"rows": risky, **ONE_EVENT}) for number in (2, 3, 4)),
    ],
)
def test_a_site_killed_at_every_step_of_a_sum_of_another_kind(tmp_path, killer, monkeypatch, number, settings):
    kill_at_all(tmp_path, killer, monkeypatch, SITE, at_sum(number), **settings)


def forked(act):
    """Let a forked process act. Return a function that states whether it ended, which it must by SIGKILL."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(1)

    def ended(flags=os.WNOHANG):
        pid, status = os.waitpid(child, flags)
        assert not pid or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL)
        return bool(pid)

    return ended


def killed_process(play, victim, step):
    """Let a forked process be the victim until SIGKILL ends it at a step. The others act here."""

    def act():
        play.killer.really, play.killer.acting = True, victim
        account = play.accounts.get(victim)
        if account is not None:
            account.account = Ledger(account.account.ledger.place).account("patients")
        file = None if victim == COORDINATOR else play.hospitals.file(victim)
        party = play.hospitals.parties[victim] = SiteRun.load(play.hospitals.messages, play.hospitals.own_of(victim))
        party.run(file, ledger=account, patience=30)

    play.killer.arm(victim, step)
    ended = forked(act)
    while not ended():
        for name in play.hospitals.parties:
            if name != victim:
                play.act(name)


@pytest.mark.filterwarnings(FORKS)
@pytest.mark.parametrize("victim", [SITE, COORDINATOR])
def test_a_process_that_gets_sigkill(tmp_path, killer, monkeypatch, victim):
    play = Play(tmp_path, killer, monkeypatch)
    steps = {
        SITE: ["after key", "half of number in the journal", "after the ledger", "after the draw", "after sum"],
        COORDINATOR: ["after start", "before opened", "after opened", "before certificate.json"],
    }[victim]
    for step in steps:
        killed_process(play, victim, step)
        killer.arm(None, None)
        play.require_charged()
        play.restart(victim)
        play.require_explained(victim)
    assert not play.until_killed(None, None)
    play.require_charged()
    play.require_certified()


@pytest.mark.filterwarnings(FORKS)
def test_a_site_killed_while_it_joins_joins_again_with_the_same_key(tmp_path, killer):
    hospitals, keys = Hospitals(tmp_path), set()
    steps = [("before party.json", 0), ("after party.json", 0), ("before party.json", 1), ("after party.json", 1)]
    killer.acting = SITE

    def killed_at(step, skips):
        killer.arm(SITE, step, skips)

        def act():
            killer.really = True
            hospitals.join([SITE])

        assert forked(act)(0)

    for step, skips in [*steps, ("before join", 0)]:
        killed_at(step, skips)
        assert not (hospitals.messages / f"join.{SITE}.0.0.json").exists()
        path = hospitals.own(SITE) / "party.json"
        if path.exists():
            keys.add(json.loads(path.read_text())["secret"])
    assert len(keys) == 1
    killed_at("after join", 0)
    # A site that joined may join again, also after a kill, and its key stays.
    message = (hospitals.messages / f"join.{SITE}.0.0.json").read_bytes()
    table(30, 7).to_csv(hospitals.file(SITE), index=False)
    stored = set()
    for when in ("before", "after"):
        killed_at(f"{when} party.json", 0)
        party = json.loads(path.read_text())
        stored.add(party["records"])
        assert keys == {party["secret"]}
    assert len(stored) == 2
    killer.arm(None, None)
    hospitals.join([SITE])
    assert json.loads(path.read_text())["records"] in stored
    assert (hospitals.messages / f"join.{SITE}.0.0.json").read_bytes() == message
    assert SiteRun.load(hospitals.messages, hospitals.own(SITE)).status()["joined"].keys() == {SITE}


def test_a_folder_of_another_site_is_not_taken_over(tmp_path):
    hospitals = Hospitals(tmp_path)
    hospitals.join([SITE])
    (hospitals.messages / f"join.{SITE}.0.0.json").unlink()
    with pytest.raises(FileError, match="holds the key of a party already"):
        SiteRun.join(hospitals.messages, hospitals.own(SITE), name="h1", private=hospitals.file("h1"))
