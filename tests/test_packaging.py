"""The files around the package agree with one another."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_newest_changelog_entry_the_citation_and_the_package_name_one_version():
    version, date = re.search(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", CHANGELOG, re.MULTILINE).groups()
    assert version == PROJECT["version"] == CITATION["version"]
    assert date == str(CITATION["date-released"])


def test_what_a_command_suggests_works_in_a_base_install():
    """`train` and `plan --certificate` suggest `dpensemble verify`, which needs python-flint."""
    assert any(one.startswith("python-flint>=") for one in PROJECT["dependencies"])


def test_one_licence_is_named_and_every_licence_file_is_there():
    assert PROJECT["license"] == CITATION["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert [name for name in PROJECT["license-files"] if not (ROOT / name).is_file()] == []
