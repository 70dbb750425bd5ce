"""The files around the package agree with one another."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from towncrier._shell import cli as towncrier

from scripts import release

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = ("CHANGELOG.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "pyproject.toml")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Copy the files of a release, without fragments, and work there."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "changelog.d").mkdir()
    for name in ("README.md", "template.md.jinja"):
        shutil.copy(ROOT / "changelog.d" / name, tmp_path / "changelog.d")
    return tmp_path


def add(tree, name, text):
    (tree / "changelog.d" / name).write_text(text, encoding="utf-8")


def built(tree, *options):
    version, date = release.declared(tree)
    line = ["build", "--dir", str(tree), "--version", version, "--date", date, *options]
    return CliRunner().invoke(towncrier, line, catch_exceptions=False).output


def without_section(tree):
    """Remove the section of the declared version, if the changelog has one."""
    path, version = tree / "CHANGELOG.md", release.declared(tree)[0]
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(rf"^## {re.escape(version)} - .*?(?=^## )", "", text, flags=re.S | re.M), encoding="utf-8")


def test_the_changelog_the_citation_and_the_package_name_one_version():
    assert release.disagreements(ROOT) == []
    assert release.declared(ROOT) == (PROJECT["version"], str(CITATION["date-released"]))


def test_fragments_have_the_form_that_the_changelog_needs():
    assert release.wrong_fragments(ROOT) == []


def test_the_next_section_is_short_enough_to_be_read(tree):
    shutil.copytree(ROOT / "changelog.d", tree / "changelog.d", dirs_exist_ok=True)
    if release.fragments(tree):
        without_section(tree)
        assert built(tree, "--draft").count("\n") <= release.MOST_LINES


def test_a_section_lists_changes_and_has_privacy_as_a_table_by_severity(tree):
    without_section(tree)
    add(tree, "+b.added.md", "**Zebras** are counted.\n")
    add(tree, "+a.added.md", "**Apples**\nare counted.\n")
    add(tree, "+i.internal.md", "nobody sees this\n")
    for severity in ("Low", "Critical", "Medium", "High"):
        add(tree, f"+{severity}.privacy.md", f"| {severity} | wrong | right |\n")
    assert release.wrong_fragments(tree) == []
    built(tree, "--yes")
    text = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = release.declared(tree)
    newest, *_ = release.sections(tree)
    assert newest[:2] == (version, date)
    section = text[text.index(f"## {version}") :]
    assert "\n### Added\n\n- **Apples**\n  are counted.\n- **Zebras** are counted.\n\n### Privacy\n" in section
    assert "nobody" not in section
    rows = [row.split(" | ")[0] for row in section.split("\n### ")[2].splitlines() if row.endswith("| right |")]
    assert rows == ["| Critical", "| High", "| Medium", "| Low"]
    assert "| Low | wrong | right |\n\n## " in section
    assert release.fragments(tree) == []
    assert release.disagreements(tree) == []


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("+a.feature.md", "**Ledger.** New.\n", "'feature'"),
        ("+a.added.md", "a new ledger\n", "bold"),
        ("+a.added.md", "**Ledger.** " + "x" * 118 + "\n", "3 lines of 118"),
        ("+a.added.md", "**Ledger.**\na\nb\nc\n", "3 lines of 118"),
        ("+a.privacy.md", "**Ledger.** A leak.\n", "one row"),
        ("+a.privacy.md", "| Severe | a | b |\n", "one row"),
        ("+a.privacy.md", "| High | a |\n", "one row"),
    ],
)
def test_a_fragment_of_another_form_is_named(tree, name, text, reason):
    add(tree, name, text)
    (sentence,) = release.wrong_fragments(tree)
    assert name in sentence
    assert reason in sentence


def test_files_that_disagree_are_named(tree):
    without_section(tree)
    version, date = release.declared(tree)
    assert [one for one in release.disagreements(tree) if "no fragment" in one]
    add(tree, "+a.added.md", "**Ledger.** New.\n")
    assert release.disagreements(tree) == []
    built(tree, "--yes")
    citation = tree / "CITATION.cff"
    text = citation.read_text(encoding="utf-8")
    citation.write_text(text.replace(version, "9.9.9").replace(date, "2031-01-02"), encoding="utf-8")
    wrong = " ".join(release.disagreements(tree))
    assert "9.9.9" in wrong
    assert "2031-01-02" in wrong
    citation.write_text(text, encoding="utf-8")
    path = tree / "CHANGELOG.md"
    longer = path.read_text(encoding="utf-8").replace("- **Ledger.** New.\n", "- **Ledger.** New.\n" * 130)
    path.write_text(longer, encoding="utf-8")
    assert [one for one in release.disagreements(tree) if "shorten" in one]


def test_a_commit_is_ready_only_without_fragments_changes_and_tag(tree):
    def git(*command):
        line = ["git", "-c", "user.name=a", "-c", "user.email=a", *command]
        subprocess.run(line, cwd=tree, check=True, capture_output=True)

    without_section(tree)
    git("init", "--quiet")
    add(tree, "+a.added.md", "**Ledger.** New.\n")
    problems = " ".join(release.unready(tree))
    for reason in ("'make changelog'", "no section", "without a commit"):
        assert reason in problems
    built(tree, "--yes")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Release")
    assert release.unready(tree) == []
    git("tag", f"v{release.declared(tree)[0]}")
    assert "set the next version" in " ".join(release.unready(tree))


def test_what_only_the_owner_knows_is_listed_and_not_made_up(tree):
    assert len(release.blanks(tree)) == 3
    described = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    for place in ("pyproject.toml", "CITATION.cff", "CODE_OF_CONDUCT.md"):
        assert f"`{place}`" in described
    for name in ("RELEASING.md", "CODE_OF_CONDUCT.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text
        assert not re.search(r"\w@\w+\.\w", text)


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_releasing_lists_every_action_that_workflows_use():
    described = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    used = {step["uses"] for path in WORKFLOWS for step in steps(yaml.safe_load(path.read_text())) if "uses" in step}
    assert used
    assert used == set(re.findall(r"^\| `(actions/[^`]+)` \|", described, re.MULTILINE))


def test_workflows_run_the_scripts_of_this_tree_and_name_no_address():
    read = {path.stem: steps(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in WORKFLOWS}
    runs = {name: " ".join(step.get("run", "") for step in each) for name, each in read.items()}
    assert ".ci/run" in runs["checks"]
    assert ".ci/nightly" in runs["nightly"]
    assert "make dist" in runs["build"]
    for path in WORKFLOWS:
        assert "://" not in path.read_text(encoding="utf-8"), path.name


def test_only_people_publish_in_an_environment_of_the_owner():
    publish = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8"))
    # YAML reads `on` as a truth value.
    assert list(publish[True]) == ["workflow_dispatch"]
    assert {job["environment"] for job in publish["jobs"].values()} == {"release"}


def test_the_package_claims_no_system_that_nobody_tests():
    systems = [one for one in PROJECT["classifiers"] if one.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]


def test_what_a_command_suggests_works_in_a_base_install():
    """`train` and `plan --certificate` suggest `dpensemble verify`, which needs python-flint."""
    assert any(one.startswith("python-flint>=") for one in PROJECT["dependencies"])


def test_one_licence_is_named_and_every_licence_file_is_there():
    assert PROJECT["license"] == CITATION["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert [name for name in PROJECT["license-files"] if not (ROOT / name).is_file()] == []
