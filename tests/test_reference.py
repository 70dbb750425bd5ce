"""Every export of a package has an entry in the built reference."""

import importlib
import pkgutil
import runpy
import subprocess
import sys
import zlib
from pathlib import Path

import dpensemble

ROOT = Path(__file__).parent.parent
HOOK = runpy.run_path(str(ROOT / "scripts" / "api_pages.py"))
PACKAGES = ["dpensemble"] + [
    info.name for info in pkgutil.walk_packages(dpensemble.__path__, "dpensemble.") if info.ispkg
]
EXPORTS = {f"{name}.{export}" for name in PACKAGES for export in getattr(importlib.import_module(name), "__all__", ())}


def entries(inventory: bytes) -> set[str]:
    """Names in a Sphinx inventory: four lines of text, then compressed lines that begin with a name."""
    return {line.split()[0] for line in zlib.decompress(inventory.split(b"\n", 4)[4]).decode().splitlines()}


def test_every_package_has_a_page_that_names_all_it_exports():
    pages = HOOK["public_modules"]()
    on_page = {f"{module}.{name}" for module, names in pages.items() for name in names}
    assert EXPORTS - on_page == set()
    assert len(EXPORTS) > 150


def test_what_the_top_package_exports_is_described_once():
    page = HOOK["page"](
        "dpensemble.methods",
        ["PATEClassifier"],
        {HOOK["origin"]("dpensemble", "PATEClassifier"): "PATEClassifier"},
    )
    assert "::: dpensemble.methods.PATEClassifier" not in page
    assert "[`PATEClassifier`][dpensemble.PATEClassifier]" in page


def test_every_export_is_in_the_built_reference(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert EXPORTS - entries((tmp_path / "objects.inv").read_bytes()) == set()
    assert "PATEClassifier" in (tmp_path / "reference" / "dpensemble" / "index.html").read_text(encoding="utf-8")
