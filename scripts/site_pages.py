"""Write the generated pages of the documentation as Markdown files, before a site generator runs.

``python scripts/site_pages.py`` writes, below ``docs``:

- ``reference/``: a page for every package and module that exports names, one of all commands with their options, the
  claims from ``docs/claims.toml``, and the keys of ``--json`` from ``docs/json-keys.json``.
- ``reference/contributing.md``: ``CONTRIBUTING.md``, with links that work on the site.
- ``notebooks/``: the examples, each executed. An example that fails ends the build. Results are kept until an example
  or the library changes.

The files are not in git. A build that finds a page without a title ends as well. `scripts/site_hooks.py` runs all of
this when mkdocs builds. Any other generator needs this command first, and then reads ``docs``.

A package exports the names in its ``__all__``. A module without ``__all__`` exports the public functions and classes it
defines. The exports of the top package are described on its page, and linked from the package that defines them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TOP = "dpensemble"
REFERENCE, NOTEBOOKS = "reference", "notebooks"
MODULES, COMMANDS, CLAIMS = f"{REFERENCE}/modules.md", f"{REFERENCE}/commands.md", f"{REFERENCE}/claims.md"
KEYS, CONTRIBUTING = f"{REFERENCE}/keys.md", f"{REFERENCE}/contributing.md"
#: The examples that the site shows with their results, in the order of the menu.
SHOWN = ("hospital_with_units", "bank_with_personal_budgets", "images", "law_of_ones_own")
_COLUMNS = "100"
_TITLE = re.compile(r"\A(?:---\n.*?\n---\n)?\s*(?:<!--.*?-->\s*)*# \S", re.DOTALL)


def exported(module: ModuleType) -> list[str]:
    """Return the names that a module offers."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in own if not name.startswith("_")]


def public_modules() -> dict[str, list[str]]:
    """Return every package and every public module of the top package, with what it offers."""
    top = importlib.import_module(TOP)
    names = [TOP]
    for info in pkgutil.walk_packages(top.__path__, f"{TOP}."):
        parts = info.name.split(".")[1:]
        if (info.ispkg or len(parts) == 1) and not any(part.startswith("_") for part in parts):
            names.append(info.name)
    exports = {name: exported(importlib.import_module(name)) for name in names}
    return {name: offers for name, offers in exports.items() if offers}


def origin(module: str, name: str) -> int:
    """Return what two names for one thing have in common."""
    return id(getattr(importlib.import_module(module), name))


def page(module: str, names: list[str], on_top: dict[int, str]) -> str:
    """Return the Markdown of one reference page."""
    lines = [f"# `{module}`", "", f"::: {module}", "    options:", "      show_root_heading: false"]
    lines += ["      show_root_toc_entry: false", "      members: false", ""]
    entries, links = [], []
    for name in names:
        above = on_top.get(origin(module, name)) if module != TOP else None
        if above is None:
            entries += [f"::: {module}.{name}", "    options:", "      show_root_full_path: false", ""]
        else:
            links.append(f"[`{above}`][{TOP}.{above}]")
    if links:
        lines += [f"Described with the package [`{TOP}`]({TOP}.md): {', '.join(links)}.", ""]
    return "\n".join(lines + entries)


def address(module: str) -> str:
    """Return where the page of a module is, below the folder of the documentation."""
    return f"{REFERENCE}/{module}.md"


def api_pages() -> dict[str, str]:
    """Return the pages of all modules, by address, and the page that lists them."""
    modules = public_modules()
    on_top = {origin(TOP, name): name for name in modules[TOP]}
    pages = {address(module): page(module, names, on_top) for module, names in modules.items()}
    lines = ["# Modules", "", "Every name that you can import has a docstring on one of these pages.", ""]
    for module in modules:
        summary = (inspect.getdoc(importlib.import_module(module)) or "").partition("\n")[0]
        lines.append(f"- [`{module}`]({module}.md): {summary}")
    return pages | {MODULES: "\n".join(lines) + "\n"}


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _help(*command: str) -> str:
    """Return the page that a command prints with ``--help``."""
    text = io.StringIO()
    with _environment("COLUMNS", _COLUMNS), contextlib.redirect_stdout(text):
        importlib.import_module(f"{TOP}.cli.app").run([*command, "--help"])
    return text.getvalue()


def commands(*path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield a command and the text of its help, and then those of its subcommands."""
    text = _help(*path)
    yield path, text
    listed = re.search(r"(?ms)^Commands:\n(.*?)(?=^\S|\Z)", text)
    for name in re.findall(r"(?m)^  ([a-z][a-z-]*)", listed[1]) if listed else []:
        yield from commands(*path, name)


def commands_page() -> str:
    """Return the page of all commands with their options."""
    lines = [
        "# Commands and options",
        "",
        "Each part is what the command prints with `--help`. [Command line](../command-line.md) explains the rules.",
        "",
    ]
    for path, text in commands():
        lines += [f"## {' '.join((TOP, *path))}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def claims() -> list[dict[str, Any]]:
    """Return the groups of claims, each with ``title`` and ``claims``."""
    return tomllib.loads((DOCS / "claims.toml").read_text(encoding="utf-8"))["group"]


def claims_page() -> str:
    """Return the page of all claims: a block for each, since a table of prose cannot be read on a phone."""
    lines = [
        "# The claims, one by one",
        "",
        "Each claim has a theorem as its source, the code that rests on it, and the test that could refute it. "
        "[What is proven](../privacy.md) leads to the proofs. *Ours* is a proof of this project.",
        "",
    ]
    for group in claims():
        lines += [f"## {group['title']}", ""]
        for claim in group["claims"]:
            lines += [f"**{claim['claim']}** {claim.get('more', '')}".rstrip(), ""]
            lines += [
                f"- *{name}:* {claim[name.lower()]}" for name in ("Source", "Code", "Test") if name.lower() in claim
            ]
            lines += [""]
    return "\n".join(lines)


def keys_page() -> str:
    """Return the page of the keys that ``scripts/json_keys.py`` found."""
    lines = [
        "# Keys of JSON",
        "",
        "This page is for people who read results by programs. `scripts/json_keys.py` found the keys by running every "
        "command with `--json`. `[]` stands for each element of a list, and a word in capitals for a name of your own. "
        "`run.json` has the keys of `train`, except `out`. "
        "Which keys `settings` and `data` have depends on the method and the options. "
        "[Stability](../stability.md) states how long keys last.",
        "",
    ]
    sections = json.loads((DOCS / "json-keys.json").read_text(encoding="utf-8"))
    for section, keys in sections.items():
        lines += [f"## {section}", ""]
        shown = keys
        if section == "report" and set(keys) - {"page"} <= set(sections["train"]):
            lines += ["The keys of [train](#train), except `out`, and `page`.", ""]
            shown = {"page": keys["page"]}
        lines += ["| key | holds |", "|---|---|"]
        lines += [f"| `{key}` | {kind} |" for key, kind in _shortened(shown).items()]
        lines += [""]
    return "\n".join(lines)


def _shortened(keys: dict[str, str]) -> dict[str, str]:
    """Return keys, with one line for figures on test rows if they have the keys of released figures."""
    test, released = "data.test_quality", "data.released_score"
    own = {key for key in keys if key.startswith(f"{test}.")}
    if not own or not {key.replace(test, released, 1) for key in own} <= set(keys):
        return keys
    return {key: kind for key, kind in keys.items() if key not in own} | {test: f"as `{released}`"}


#: A link of CONTRIBUTING.md: its text, and a path from the root of the repository.
_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:|#)([^)\s]+)\)")


def _on_the_site(link: re.Match[str]) -> str:
    """Return a link from a page of the reference: to a page of the site, or else the name of a file."""
    text, target = link.groups()
    return f"[{text}](../{target.removeprefix('docs/')})" if target.startswith("docs/") else f"{text} (`{target}`)"


def contributing_page() -> str:
    """Return ``CONTRIBUTING.md`` as a page of the site. Code blocks stay as they are."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    parts = re.split(r"(?ms)(^ *```.*?^ *```)", text)
    return "".join(part if number % 2 else _LINK.sub(_on_the_site, part) for number, part in enumerate(parts))


def _digest(example: Path) -> str:
    """Return a hash of an example and of everything that decides its results."""
    digest = hashlib.sha256()
    for path in (example, example.parent / "pictures.py", Path(__file__), *sorted((ROOT / "src").rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _cells(source: str) -> Iterator[tuple[bool, str]]:
    """Yield the cells of an example: whether a cell is text, and its content."""
    cells = runpy.run_path(str(ROOT / "scripts" / "make_notebooks.py"))["notebook"](source)["cells"]
    for cell in cells:
        yield cell["cell_type"] == "markdown", "".join(cell["source"])


def _executed(example: Path, folder: Path) -> str:
    """Return an example as Markdown, with what each cell prints. Its pictures are written into the folder."""
    parts: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    path, arguments = list(sys.path), sys.argv
    # The examples import the module that draws from their own folder, and draw into the folder that they are given.
    sys.path.insert(0, str(example.parent))
    sys.argv = [example.name, str(folder)]
    try:
        for is_text, source in _cells(example.read_text(encoding="utf-8")):
            if is_text:
                parts.append(source)
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(source, str(example), "exec"), names)  # noqa: S102 - an example of ours
            parts.append(f"```python\n{source}\n```")
            if printed.getvalue().strip():
                parts.append(f"```text\n{printed.getvalue().rstrip()}\n```")
    finally:
        sys.path[:], sys.argv = path, arguments
    return "\n\n".join(parts)


def _notebook(example: Path, folder: Path) -> None:
    """Write the page of an example, unless the page is there and nothing has changed."""
    made = f"<!-- {_digest(example)} -->"
    place = folder / f"{example.stem}.md"
    if place.exists() and place.read_text(encoding="utf-8").startswith(made):
        return
    folder.mkdir(parents=True, exist_ok=True)
    text = _executed(example, folder)
    picture = f"{example.stem.replace('_', '-')}.svg"
    source = f"This page is `examples/{example.name}`, executed when the site was built."
    write(place, f"{made}\n{text}\n\n![What this notebook draws]({picture})\n\n{source}\n")


def write(place: Path, text: str) -> None:
    """Write a file in one step, unless its text is there already: a server that watches files would build for ever."""
    if place.exists() and place.read_text(encoding="utf-8") == text:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(place)


def untitled(docs: Path) -> list[str]:
    """Return the pages that do not begin with a title."""
    pages = sorted(docs.rglob("*.md"))
    return [str(path.relative_to(docs)) for path in pages if not _TITLE.match(path.read_text(encoding="utf-8"))]


def main(docs: Path = DOCS) -> None:
    """Write all generated pages, and check that every page has a title."""
    pages = api_pages() | {COMMANDS: commands_page(), CLAIMS: claims_page()}
    pages |= {KEYS: keys_page(), CONTRIBUTING: contributing_page()}
    for name, text in pages.items():
        write(docs / name, text)
    for old in (docs / REFERENCE).glob("*.md"):
        if f"{REFERENCE}/{old.name}" not in pages:
            old.unlink()
    for name in SHOWN:
        _notebook(ROOT / "examples" / f"{name}.py", docs / NOTEBOOKS)
    if without := untitled(docs):
        sys.exit(f"These pages need a title, a first line such as '# Title': {', '.join(without)}.")


if __name__ == "__main__":
    main()
