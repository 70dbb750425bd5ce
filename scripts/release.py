"""What a release needs beside its code: the changelog, and files that agree.

Usage: ``python scripts/release.py changelog [--draft]``, ``... fragments`` or ``... check``.

`changelog` lets towncrier write the section of the version in ``pyproject.toml``. `fragments` fails if this branch adds
no file to ``changelog.d``. It compares with the branch main, and asks for nothing when git or main is missing, for
example in an sdist. `check` lists what speaks against a tag of this commit.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
#: The longest section that users read.
MOST_LINES = 120
#: The longest fragment of a list.
MOST_LINES_OF_A_FRAGMENT = 3
SEVERITIES = ("Critical", "High", "Medium", "Low")
_ROW = re.compile(rf"\| ({'|'.join(SEVERITIES)}) \| [^|\n]+ \| [^|\n]+ \|")
_HEADING = re.compile(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
_BLANK = "(to be filled in by the owner)"


def declared(root: Path) -> tuple[str, str]:
    """Return the version that pyproject.toml states, and the date that CITATION.cff states."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return version, str(yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["date-released"])


def sections(root: Path) -> list[tuple[str, str, int]]:
    """Return version, date and number of lines of each dated section of the changelog, the newest first."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    starts = list(_HEADING.finditer(text))
    ends = [start.start() for start in re.finditer(r"^## ", text, re.MULTILINE)] + [len(text)]
    lengths = [text[one.start() : min(end for end in ends if end > one.start())].count("\n") for one in starts]
    return [(one[1], one[2], length) for one, length in zip(starts, lengths, strict=True)]


def fragments(root: Path) -> list[Path]:
    """Return the files that the next section of the changelog is made of."""
    return sorted(path for path in (root / "changelog.d").glob("*.md") if path.name != "README.md")


def wrong_fragments(root: Path) -> list[str]:
    """Return a sentence for each fragment that does not have the form which changelog.d/README.md describes."""
    kinds = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]["type"]
    known = {kind["directory"] for kind in kinds}
    problems = []
    for path in fragments(root):
        text = path.read_text(encoding="utf-8").strip()
        kind = path.stem.rpartition(".")[2]
        if kind not in known:
            problems.append(f"{path.name} has the type {kind!r}: use one of {', '.join(sorted(known))}.")
        elif kind == "privacy" and not _ROW.fullmatch(text):
            problems.append(f"{path.name} must be one row: | {' or '.join(SEVERITIES)} | what was wrong | what holds |")
        elif kind not in ("privacy", "internal") and not text.startswith("**"):
            problems.append(f"{path.name} must begin with its subject in bold letters: **Ledger.**")
        elif text.count("\n") >= MOST_LINES_OF_A_FRAGMENT or any(
            len(line) > 118 for line in text.split("\n") if kind != "privacy"
        ):
            problems.append(f"{path.name} must have at most {MOST_LINES_OF_A_FRAGMENT} lines of 118 characters.")
    return problems


def disagreements(root: Path) -> list[str]:
    """Return a sentence for each two files that state another version or date."""
    version, date = declared(root)
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    problems = [] if cited == version else [f"CITATION.cff has version {cited}, and pyproject.toml has {version}."]
    newest, newest_date, length = sections(root)[0]
    if newest != version and not fragments(root):
        problems.append(f"CHANGELOG.md ends with {newest}, and changelog.d has no fragment for {version}.")
    if newest == version and newest_date != date:
        problems.append(f"CHANGELOG.md dates {version} on {newest_date}, and CITATION.cff on {date}.")
    if length > MOST_LINES:
        problems.append(f"the section of {newest} has {length} lines: shorten it to {MOST_LINES}.")
    return problems


def unready(root: Path) -> list[str]:
    """Return a sentence for each reason not to tag this commit."""
    version, _ = declared(root)
    problems = disagreements(root)
    left = fragments(root)
    if left:
        problems.append(f"changelog.d has {len(left)} files: 'make changelog' writes the section of {version}.")
    if sections(root)[0][0] != version:
        problems.append(f"CHANGELOG.md has no section for {version}.")
    if _git(root, "status", "--porcelain"):
        problems.append("the tree has changes without a commit.")
    if _git(root, "tag", "--list", f"v{version}"):
        problems.append(f"the tag v{version} exists: set the next version.")
    return problems


def blanks(root: Path) -> list[str]:
    """Return what only the owner can fill in, and has not yet."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    missing = []
    if "Repository" not in project.get("urls", {}):
        missing.append("pyproject.toml: address of the repository (Repository under [project.urls])")
    if project["authors"] == [{"name": "The dpensemble maintainers"}]:
        missing.append("pyproject.toml and CITATION.cff: names of the authors")
    if _BLANK in (root / "CODE_OF_CONDUCT.md").read_text(encoding="utf-8"):
        missing.append("CODE_OF_CONDUCT.md: contact")
    if (root / ".github" / "zizmor.yml").exists():
        missing.append(".github/workflows: digests of actions (RELEASING.md lists them)")
    return missing


def _git(root: Path, *command: str) -> str:
    command = ("git", *command)  # Found on the path, as make and pip are.
    return subprocess.run(command, cwd=root, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def _towncrier(root: Path, *command: str) -> int:
    return subprocess.run([sys.executable, "-m", "towncrier", *command], cwd=root, check=False).returncode


def _changelog(draft: bool) -> int:
    version, date = declared(ROOT)
    problems = wrong_fragments(ROOT)
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    return _towncrier(ROOT, "build", "--version", version, "--date", date, "--draft" if draft else "--yes")


def _fragments_of_branch() -> int:
    problems = wrong_fragments(ROOT)
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    try:
        _git(ROOT, "rev-parse", "--verify", "--quiet", "main")
    except (OSError, subprocess.CalledProcessError):
        print("release: git has no branch main to compare with")
        return 0
    return _towncrier(ROOT, "check", "--compare-with", "main", "--staged")


def _check() -> int:
    problems = unready(ROOT)
    for sentence in problems:
        print(f"error: {sentence}")
    for place in blanks(ROOT):
        print(f"for the owner: {place}")
    version, _ = declared(ROOT)
    if not problems:
        print(f"git tag --annotate v{version} --message 'dpensemble {version}'")
    return bool(problems)


def main(given: list[str]) -> int:
    """Run a command, and return the exit code."""
    match given:
        case ["changelog"] | ["changelog", "--draft"]:
            return _changelog("--draft" in given)
        case ["fragments"]:
            return _fragments_of_branch()
        case ["check"]:
            return _check()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
