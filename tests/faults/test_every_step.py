"""Something goes wrong at each step of the way to the disk: there is the old run, the new one, or a journal."""

import json
import shutil

import pytest

from dpensemble.report.page import date

EARLIER, LATER = 1, 2


def state_of(out):
    """Return which run a folder holds, by its labels, record and report at once, or None if there is none."""
    if not out.exists() or not any((out / name).exists() for name in ("run.json", "labels.csv", "report.html")):
        return None
    record = json.loads((out / "run.json").read_text())
    seed = record["settings"]["random_state"]
    assert (out / "labels.csv").read_text().count("\n") == record["labels"] + 1
    assert (out / "student.skops").exists()
    # Of the report all but the day, which ends at midnight, and the time.
    report = (out / "report.html").read_text().replace(record["created"], "").replace(date(record["created"]), "")
    return seed, (out / "labels.csv").read_bytes(), report


def leftovers(folder):
    return sorted(path.name for path in folder.rglob(".*"))


class Scene:
    """A folder as it was before, and what a run into it would bring."""

    def __init__(self, zygote, command, folder, existing, exchange):
        self.zygote, self.command, self.existing, self.exchange = zygote, command, existing, exchange
        self.folder, self.out = folder, folder / "out"
        self.more = ["--private-report", "--overwrite"] if existing else ["--private-report"]
        self.set()
        steps = folder.parent / "steps"
        assert self.train(steps=str(steps)).code == 0
        self.steps = steps.read_text().split("\n")[:-1]
        self.spends = self.steps.index("spend")
        self.after = state_of(self.out)
        assert self.after != self.before

    def set(self):
        """Put the folder back to what it was."""
        shutil.rmtree(self.folder, ignore_errors=True)
        kept = self.folder.parent / "kept"
        if kept.exists():
            shutil.copytree(kept, self.folder)
            return
        self.folder.mkdir()
        if self.existing:
            assert self.zygote.run(*self.command(self.out, noise_seed=EARLIER)).code == 0
            (self.out / "notes").write_text("mine")
            (self.out / "more").mkdir()
            (self.out / "more" / "notes").write_text("mine too")
        self.before = state_of(self.out)
        shutil.copytree(self.folder, kept)

    def train(self, **request):
        arguments = self.command(self.out, *self.more, noise_seed=LATER)
        return self.zygote.run(*arguments, exchange=self.exchange, **request)

    def found(self):
        """Return ``"before"`` or ``"after"``. A mixture of both is neither."""
        state = state_of(self.out)
        if state is not None:
            assert not list(self.out.glob(".*")), "publishing the folder would publish what a killed run left"
        # If folders cannot be exchanged, for a moment neither is in place. Then the journal decides.
        if state is None and self.journal() is not None:
            return "before"
        if state == self.before:
            return "before"
        assert state == self.after, "a mixture"
        return "after"

    def journal(self):
        path = self.folder / ".dpensemble-out" / "journal.json"
        return json.loads(path.read_text()) if path.exists() else None

    def check_extras(self):
        if self.existing:
            assert (self.out / "notes").read_text() == "mine"
            assert (self.out / "more" / "notes").read_text() == "mine too"

    def finish(self):
        """Do what a user would do next, and see that all is well in the end."""
        found, journal = self.found(), self.journal()
        again = self.zygote.run(*self.command(self.out, noise_seed=3))
        if journal is not None and found == "before":
            # Neither another run nor a report may pass over it in silence.
            assert again.code == 2
            assert "dpensemble recover" in again.err or "earlier run" in again.err
        if journal is None or (journal["stage"] == "finished" and found == "after"):
            recovered = self.zygote.run("recover", self.out)
            assert recovered.code in (0, 2)
        else:
            recovered = self.zygote.run("recover", self.out, "--json", exchange=self.exchange)
            assert recovered.code == 0, recovered.err
            told = json.loads(recovered.out)
            assert [(one["epsilon"], one["delta"]) for one in told["budgets"]] == [(2.0, 1e-4)]
            # A run that spent its budget and drew nothing, or a part, is finished too.
            assert (told["placed"], told["account"]) == (True, None)
            assert self.found() == "after"
        if found == "before" or self.existing or again.code == 2:
            self.check_extras()
        assert leftovers(self.folder) == []


CASES = {"fresh": (False, True), "existing": (True, True), "no-exchange": (True, False)}


@pytest.fixture
def scene(request, zygote, command, tmp_path):
    return Scene(zygote, command, tmp_path / "here", *CASES[request.param])


every_case = pytest.mark.parametrize("scene", CASES, indirect=True)


def test_the_steps_are_those_that_matter(zygote, command, tmp_path):
    steps = Scene(zygote, command, tmp_path / "here", *CASES["no-exchange"]).steps
    wanted = ["claimed", "spend", "replaced journal.json", "spent", "write run.json", "write private.json", "finished"]
    wanted += ["place", "moved away", "placed", "carry", "tidied"]
    assert [name for name in wanted if name not in steps] == []
    assert steps.index("spent") < steps.index("write run.json") < steps.index("finished") < steps.index("place")


@every_case
def test_killed_at_every_step(scene):
    for at, name in enumerate(scene.steps):
        scene.set()
        assert scene.train(at=at, what="kill").code == -9
        found, journal = scene.found(), scene.journal()
        if at <= scene.spends:
            assert (found, journal) == ("before", None), name
        if at > scene.steps.index("spent") and found == "before":
            assert journal is not None, f"a budget is spent without a word, at {name}"
        scene.finish()


@pytest.mark.parametrize(
    ("scene", "what", "code", "word"),
    [
        ("fresh", "int", 130, "interrupted"),
        ("existing", "term", 143, "terminated"),
    ],
    indirect=["scene"],
)
def test_told_to_stop_at_every_step(scene, what, code, word):
    for at, name in enumerate(scene.steps):
        scene.set()
        answer = scene.train(at=at, what=what)
        assert answer.code == code, (name, answer)
        assert answer.err.startswith(f"dpensemble: {word}; "), name
        assert answer.err.count("\n") == 1
        check_truth(scene, answer.err)
        scene.finish()


@pytest.mark.parametrize("scene", ["no-exchange"], indirect=True)
def test_disk_full_at_every_step(scene):
    for at in range(len(scene.steps)):
        scene.set()
        answer = scene.train(at=at, what="full")
        assert answer.err.startswith("dpensemble: ")
        assert answer.err.count("\n") == 1
        assert "No space left" in answer.err
        if answer.code == 2:
            # Bad input, of which nothing is left.
            assert (scene.found(), scene.journal(), leftovers(scene.folder)) == ("before", None, [])
        else:
            assert answer.code == 1
            check_truth(scene, answer.err)
        scene.finish()


def check_truth(scene, said):
    """The sentence matches the files."""
    found, journal = scene.found(), scene.journal()
    if "nothing was written" in said:
        assert (found, journal, leftovers(scene.folder)) == ("before", None, [])
    elif "stands in" in said:
        assert found == "after"
    elif "waits in" in said:
        assert (found, journal["stage"]) == ("before", "finished")
        assert (scene.folder / ".dpensemble-out" / "new" / "run.json").exists()
    else:
        assert "is spent without a release" in said
        assert (found, journal["stage"]) == ("before", "spent")


@pytest.mark.parametrize("name", ["claimed", "spent", "finished", "placed"])
def test_killed_at_some_steps(zygote, command, tmp_path, name):
    scene = Scene(zygote, command, tmp_path / "here", *CASES["existing"])
    scene.set()
    assert scene.train(at=scene.steps.index(name), what="kill").code == -9
    stage = (scene.journal() or {}).get("stage")
    assert (scene.found(), stage) == {
        "claimed": ("before", None),
        "spent": ("before", "spent"),
        "finished": ("before", "finished"),
        "placed": ("after", "finished"),
    }[name]
    scene.finish()


@pytest.mark.parametrize("name", ["spent", "finished"])
@pytest.mark.parametrize(("what", "code"), [("term", 143), ("full", 1)])
def test_stopped_at_some_steps(zygote, command, tmp_path, name, what, code):
    scene = Scene(zygote, command, tmp_path / "here", *CASES["no-exchange"])
    scene.set()
    answer = scene.train(at=scene.steps.index(name), what=what)
    assert answer.code == code
    check_truth(scene, answer.err)
    scene.finish()
