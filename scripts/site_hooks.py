"""Hooks of mkdocs: write the generated pages before a build, and list the modules in the menu."""

from __future__ import annotations

import runpy
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

_PAGES = runpy.run_path(str(Path(__file__).with_name("site_pages.py")))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write the pages, and list those of modules below the page that introduces them."""
    _PAGES["main"](Path(config.docs_dir))
    modules = [{module: _PAGES["address"](module)} for module in _PAGES["public_modules"]()]
    config.nav = [_with_modules(entry, modules) for entry in config.nav or []]
    return config


def _with_modules(entry: dict, modules: list[dict[str, str]]) -> dict:
    """Return an entry of the menu, in which the list of modules is followed by the modules."""
    ((title, target),) = entry.items()
    if isinstance(target, list):
        return {title: [_with_modules(inner, modules) for inner in target]}
    return {title: [target, *modules]} if target == _PAGES["MODULES"] else entry
