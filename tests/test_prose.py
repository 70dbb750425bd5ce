"""The checker of prose finds what it lists, skips code, and never fails where git cannot compare."""

import json
import subprocess
from pathlib import Path

import pytest

from scripts import prose


def rules(text, name="page.md"):
    return [(hit.line, hit.rule) for hit in prose.findings(name, text)]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("tell", "What an analyst is told."),
        ("say", "The report says more."),
        ("old-word", "The votes at hand are drawn anew."),
        ("whoever", "It is for whoever\nkeeps the keys."),
        ("so-many", "It answers so many questions."),
        ("is-no", "This value is no Budget."),
        ("of-which", "A release, of which epsilon is known."),
        ("by-itself", "A column appears by itself."),
        ("speaks", "The method that public facts speak for."),
        ("semicolon", "One idea; another idea."),
        ("long-sentence", "word " * 31 + "."),
    ],
)
def test_each_rule_finds_its_sentence(rule, sentence):
    assert {found for _, found in rules(sentence)} == {rule}


@pytest.mark.parametrize(
    "text",
    [
        "word " * 30 + ".",
        "There is no longer a limit. Not told apart here? `told; told` <!-- prose: allow tell -->",
        "```sh\ntell; say\n```\n\n~~~\nwhoever; says\n~~~",
        "[a text](https://example.org/whoever;alone) and https://example.org/told",
        "Smith et al. (2019) wrote " + "it " * 20 + ". It holds, e.g. Here. " + "word " * 20,
        "<!-- prose: allow -->\nA sentence that reads well says so; it stays.",
        "- A sentence that reads well says so; it stays.\n  <!-- prose: allow -->",
        "These are noisy answers. If there is no file, it returns numbers for which a table exists.",
        "A value of&nbsp;4 and 3 &lt; 4.",
    ],
)
def test_what_reads_well_or_is_code_is_not_found(text):
    assert rules(text) == []


def test_lines_are_those_of_the_sentences():
    page = "# Title\n\nA first sentence,\nin two lines. A second\nsays more.\n\n- an item\n- an item that tells\n"
    assert rules(page) == [(4, "say"), (8, "tell")]


def test_an_allowed_rule_allows_no_other():
    assert rules("<!-- prose: allow say -->\nIt says this; and that.\n\nIt says more.") == [
        (2, "semicolon"),
        (4, "say"),
    ]


def test_cells_hold_figures_and_labels():
    table = "| a | b |\n|---|---|\n| 1 | {} |\n"
    assert rules(table.format("word " * 12)) == []
    assert rules(table.format("word " * 13)) == [(3, "long-cell")]
    assert rules(table.format("`a | b` " * 4)) == []


SOURCE = '''"""Says what it is."""

VALUE = "one; two"  # a comment that tells
# Whoever reads this reads
# two lines.


def function(x):
    """Return x anew.

    >>> function("told; told")  # said
    'told; told'

    Parameters
    ----------
    x : int; told
        What the caller said.
    """
    if x:
        raise ValueError(f"x={x!r} is no number; give another; or not")
    return "told by you and me"  # prose: allow tell
'''


def test_docstrings_comments_and_messages_of_python_are_read():
    assert rules(SOURCE, "module.py") == [
        (1, "say"),
        (3, "tell"),
        (4, "whoever"),
        (9, "old-word"),
        (17, "say"),
        (20, "is-no"),
        (20, "semicolon"),
    ]


def test_a_remedy_after_a_colon_is_counted_apart():
    long = "this needs another value because " + "very " * 20 + "long words came: give " + "many " * 20 + "others"
    assert rules(f"raise ValueError({long!r})", "module.py") == []
    assert rules(f"raise ValueError({long.replace(':', ',')!r})", "module.py") == [(1, "long-sentence")]


def test_a_message_may_have_one_semicolon():
    assert rules('raise ValueError("x must be a number; give another value")', "module.py") == []
    assert rules('raise ValueError("x must be a number; give another; or stop")', "module.py") == [(1, "semicolon")]


def test_strings_of_tests_are_not_read():
    assert (20, "is-no") not in rules(SOURCE, "tests/test_module.py")
    assert (9, "old-word") in rules(SOURCE, "tests/test_module.py")


def test_exit_codes_and_json(tmp_path, capsys):
    good, bad, broken = tmp_path / "good.md", tmp_path / "bad.md", tmp_path / "broken.py"
    good.write_text("Short and plain.")
    bad.write_text("It tells.")
    broken.write_text("def (")
    assert prose.main([str(good)]) == 0
    assert capsys.readouterr().out == "prose: 0 findings\n"
    assert prose.main([str(tmp_path / "good.md"), str(bad)]) == 1
    assert capsys.readouterr().out.startswith(f"{bad}:1: tell: It tells. (")
    assert prose.main(["--json", str(bad)]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0] == {
        "file": str(bad),
        "line": 1,
        "rule": "tell",
        "sentence": "It tells.",
        "advice": prose.RULES["tell"][1],
    }
    latin = tmp_path / "latin.md"
    latin.write_bytes(b"\xe9")
    for given in (broken, tmp_path / "absent.md", tmp_path / "absent.txt", latin):
        assert prose.main([str(given)]) == 2
        assert "must be" in capsys.readouterr().err
    for given in ([], ["--changed", "main", str(good)]):
        with pytest.raises(SystemExit) as raised:
            prose.main(given)
        assert raised.value.code == 2


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", tmp_path)

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        subprocess.run(command, check=True, capture_output=True)

    return git


def test_only_new_findings_of_changed_files_count(repository, tmp_path, capsys):
    assert prose.main(["--changed"]) == 0
    assert "no merge base with main" in capsys.readouterr().out

    repository("init", "-q", "-b", "main")
    (tmp_path / "old.md").write_text("It tells 1,000 people.\n")
    repository("add", ".")
    repository("commit", "-q", "-m", "first")
    assert prose.main(["--changed"]) == 0
    assert capsys.readouterr().out == "prose: no page or module differs from main\n"

    # A renewed figure, and a sentence that moved to another file, are not new.
    (tmp_path / "old.md").write_text("It tells 2,000 people.\n")
    assert prose.main(["--changed"]) == 0
    (tmp_path / "old.md").unlink()
    (tmp_path / "moved.md").write_text("A title.\n\nIt tells 2,000 people.\n")
    assert prose.main(["--changed"]) == 0
    capsys.readouterr()
    (tmp_path / "moved.md").write_text("It tells 2,000 people. It says more.\n")
    assert prose.main(["--changed"]) == 1
    assert capsys.readouterr().out.startswith("moved.md:1: say: It says more.")

    repository("add", ".")
    repository("commit", "-q", "-m", "second")
    assert prose.main(["--changed"]) == 0  # HEAD is main
    assert prose.main(["--changed", "HEAD~1"]) == 1
    assert prose.main(["--changed", "nothing"]) == 0


def test_make_lint_runs_it():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    assert "scripts/prose.py --changed\n" in makefile
