"""Python in README and docs runs as printed, and links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

from dpensemble import Aggregator, Budget, total_spent
from dpensemble.errors import RepeatedReleaseWarning
from dpensemble.laws import LaplaceNoisyMax

ROOT = Path(__file__).parent.parent
#: Pages that a build writes, and that are not in git.
GENERATED = re.compile(r"(?:\.\./)*(?:reference|notebooks)/")
WRITTEN = [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if not GENERATED.match(path.relative_to(ROOT / "docs").as_posix())
]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *WRITTEN]
WORDS = runpy.run_path(str(ROOT / "scripts" / "page_words.py"))
#: Words of prose on all written pages together. Shorten another page before you raise the number.
MOST_WORDS = 31_280
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"^\| (?P<what>(?:fixed|fresh)[^|]*) \| (?P<answers>[\d,]+) \|$", re.MULTILINE)
LONE_LINK = re.compile(r"\s*(?:[-*] )?\S*(?:\[[^\]]*\]\(\S+\)|https?://\S+)\S*")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    exec(compile(code, str(page), "exec"), {"__name__": "docs"})  # noqa: S102


def figures_of_fresh_sampling():
    """Return the numbers of answers on the page of the aggregator, row by row."""
    page = (ROOT / "docs" / "aggregator.md").read_text(encoding="utf-8")
    return [(found["what"], int(found["answers"].replace(",", ""))) for found in FIGURE.finditer(page)]


def test_all_rows_about_fresh_sampling_are_computed():
    assert len(figures_of_fresh_sampling()) == 4


@pytest.mark.parametrize(("what", "answers"), figures_of_fresh_sampling())
def test_figures_of_fresh_sampling_are_those_of_the_library(what, answers):
    fresh = {"sampling": "fresh", "rate": 0.02} if "rate 0.02" in what else {}
    votes = Aggregator(
        LaplaceNoisyMax(3.0),
        classes=10 if "ten classes" in what else 2,
        n_voters=10,
        relation="add-or-remove-one" if "added or removed" in what else "replace-one",
        budget=Budget(epsilon=3, delta=1e-5),
        **fresh,
    )
    assert votes.remaining() == answers


def test_prose_is_short():
    assert sum(WORDS["pages"]().values()) <= MOST_WORDS


def test_words_of_prose_are_counted_without_code_tables_and_addresses():
    text = "# A title\n\nOne [link](that/does-not.md#count) here.\n\n| a | b |\n\n```\nx y\n```\n<!-- no --> 12 | -\n"
    assert WORDS["words"](text) == 2 + 3


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_relative_links_exist(page):
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    links = [link for link in links if not GENERATED.match(link)]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_prose_is_at_most_120_characters_wide(page):
    prose = CODE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    wide = [
        number
        for number, line in enumerate(prose.split("\n"), start=1)
        # A table row cannot be wrapped, nor can a lone link.
        if len(line) > 120 and not line.startswith("|") and not LONE_LINK.fullmatch(line)
    ]
    assert wide == [], "wrap these lines"


def test_the_readme_names_the_commands_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?m)(?:^|`)make ([a-z]+)", (ROOT / "README.md").read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_what_follows_exactly_from_private_rows_is_for_the_owner_only():
    docs = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    for page in ("tutorial.md", "privacy.md", "limits.md"):
        part = docs[page][docs[page].index("`total_spent()`") :][:700]
        assert "RepeatedReleaseWarning" in docs[page]
        assert "owner of the records only" in " ".join(part.split()), page
    for described in (total_spent, RepeatedReleaseWarning):
        assert "owner of the records only" in " ".join(described.__doc__.split())


def test_the_security_page_is_found_and_names_what_is_kept():
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for heading in ("What counts as a privacy bug", "How to report one", "How it is announced"):
        assert f"\n## {heading}\n" in security
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    for page in ("limits.md", "findings.md"):
        assert "`SECURITY.md`" in (ROOT / "docs" / page).read_text(encoding="utf-8")
    # The headings that it promises are there, and it makes up no address.
    assert "\n### Privacy\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "@" not in security
    assert "://" not in security


SOURCE_PATH = re.compile(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)(?:::[^`]*)?`")


NAMING_CODE = ["claims.toml", "verification.md", "scale.md", "findings.md", "architecture.md", "proofs/records.md"]


@pytest.mark.parametrize("page", NAMING_CODE)
def test_code_and_tests_that_a_page_names_exist(page):
    """Claims are tied to code and tests, which move."""
    named = set(SOURCE_PATH.findall((ROOT / "docs" / page).read_text(encoding="utf-8")))
    assert named
    places = (ROOT, ROOT / "src" / "dpensemble")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def test_the_diagrams_are_current():
    diagrams = runpy.run_path(str(ROOT / "scripts" / "diagrams.py"))
    for name, diagram in diagrams["DIAGRAMS"].items():
        drawn = (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn == diagrams["picture"](*diagram), "run scripts/diagrams.py"


def test_the_page_for_officers_promises_no_legal_status():
    page = (ROOT / "docs" / "data-protection-officer.md").read_text(encoding="utf-8")
    assert not re.search(r"anonym|complian|compliant", page, re.IGNORECASE)
    for answer in re.split(r"\n\n(?=\*\*)", page)[1:]:
        assert "](" in answer, answer
