"""A mistake that public facts show is refused, or noted, before a budget is spent on nothing."""

import json
import re
from collections import Counter

import pandas as pd
import pytest

from dpensemble.cli import main

from .mistakes import generate

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


def outcome(folder, seed, capsys):
    """Return what becomes of a generated run. `check` reads what `train` reads, and counts what it would charge for."""
    mistake = generate(folder, seed)
    groups = "--groups" in mistake.options
    if groups:
        # `check` has no groups.
        code = main(["train", "label-moments", *mistake.options, "--quiet", "--out", str(folder / "run")])
        assert not (folder / "run").exists()
    else:
        code = main(["check", *mistake.options, "--json"])
    shown = capsys.readouterr()
    if code:
        assert code == 2, shown.err
        assert shown.err.count("\n") == 1
        return "refused"
    found = json.loads(shown.out)
    assert mistake.odd_column is None or any("'odd'" in note for note in found["notes"]), found["notes"]
    readable = 1 - found["without_class"] / found["records"]
    if mistake.is_hidden:
        return "hidden" if readable < 0.5 else "hidden, readable"
    assert readable >= 0.5, mistake.options
    return "noted" if mistake.odd_column else "reads well"


def count(tmp_path, seeds, capsys):
    counted = Counter()
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        counted[outcome(folder, seed, capsys)] += 1
    return counted


def test_no_visible_mistake_charges_for_nothing(tmp_path, capsys):
    counted = count(tmp_path, range(0, 400, 16), capsys)
    assert {"refused", "reads well", "hidden"} <= set(counted)


@pytest.mark.slow
def test_no_visible_mistake_of_400_charges_for_nothing(tmp_path, capsys):
    counted = count(tmp_path, range(400), capsys)
    assert counted.total() == 400
    assert {"refused", "reads well", "noted", "hidden"} <= set(counted)


def visible(folder, capsys, labels):
    """Train, and return what others see, without digits and what follows from released labels: the noise differs."""
    age = list(range(18, 90)) * 3
    public = pd.DataFrame({"age": age, "size": [number % 7 for number in age]})
    private = public.assign(ill=labels)
    folder.mkdir()
    private.to_csv(folder / "private.csv", index=False)
    public.to_csv(folder / "public.csv", index=False)
    files = ["--private", str(folder / "private.csv"), "--public", str(folder / "public.csv"), "--target", "ill"]
    code = main(["train", "label-moments", *files, "--classes", "no,yes", "--quiet", "--out", str(folder / "run")])
    shown = capsys.readouterr()
    text = (shown.out + shown.err).replace(str(folder), "")
    text = re.sub(r"^Hint: the student answers .*\n\n?", "", text, flags=re.MULTILINE)
    return code, re.sub(r"\d[\d.,]*", "#", text), sorted(path.name for path in (folder / "run").iterdir())


def test_labels_that_are_not_declared_are_told_to_nobody(tmp_path, capsys):
    labels = ["Y" if number > 50 else "N" for number in range(18, 90)] * 3
    one = visible(tmp_path / "one", capsys, labels)
    other = visible(tmp_path / "other", capsys, ["yes", *labels[1:]])
    assert one[0] == other[0] == 0
    assert one == other
    files = ["--private", str(tmp_path / "one" / "private.csv"), "--public", str(tmp_path / "one" / "public.csv")]
    assert main(["check", *files, "--target", "ill", "--classes", "no,yes"]) == 0
    assert "216 have no declared class: 100 % of all, WHICH A RUN WOULD PAY FOR" in capsys.readouterr().out
