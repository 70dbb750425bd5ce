"""Hook of mkdocs: one generated reference page for every package and module that exports names.

A package exports the names in its ``__all__``. A module without ``__all__`` exports the public functions and classes it
defines. The exports of the top package are described on its page, and linked from the package that defines them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TOP = "dpensemble"
INTRODUCTION = "reference.md"
# Where the introduction lists the pages.
MARKER = "<!-- pages -->"


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
    lines = [f"::: {module}", "    options:", "      heading_level: 1", "      members: false", ""]
    entries, links = [], []
    for name in names:
        above = on_top.get(origin(module, name)) if module != TOP else None
        if above is None:
            entries += [f"::: {module}.{name}", "    options:", "      show_root_full_path: false", ""]
        else:
            links.append(f"[`{above}`][{TOP}.{above}]")
    if links:
        lines += [f"Described with the package [`{TOP}`][{TOP}]: " + ", ".join(links) + ".", ""]
    return "\n".join(lines + entries)


def address(module: str) -> str:
    """Return where the page of a module is."""
    return f"reference/{module}.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages in the menu, below the introduction."""
    pages = [{module: address(module)} for module in public_modules()]
    config.nav = [
        {title: [target, *pages]} if target == INTRODUCTION else {title: target}
        for entry in config.nav or []
        for title, target in entry.items()
    ]
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Write the pages."""
    modules = public_modules()
    on_top = {origin(TOP, name): name for name in modules[TOP]}
    for module, names in modules.items():
        files.append(File.generated(config, address(module), content=page(module, names, on_top)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """List the pages in the introduction, each with the first line of its docstring."""
    if page.file.src_uri != INTRODUCTION:
        return markdown
    lines = []
    for module in public_modules():
        summary = (inspect.getdoc(importlib.import_module(module)) or "").partition("\n")[0]
        lines.append(f"- [`{module}`]({address(module)}): {summary}")
    return markdown.replace(MARKER, "\n".join(lines))
