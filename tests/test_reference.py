"""The built site: generated pages, every export in the reference, and no request to another host."""

import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import dpensemble

ROOT = Path(__file__).parent.parent
HOOK = runpy.run_path(str(ROOT / "scripts" / "site_pages.py"))
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


def test_every_module_has_a_file_written_before_the_build():
    pages = HOOK["api_pages"]()
    modules = HOOK["public_modules"]()
    assert set(pages) == {HOOK["address"](module) for module in modules} | {HOOK["MODULES"]}
    assert len(pages) == len(modules) + 1
    assert all(f"]({module}.md)" in pages[HOOK["MODULES"]] for module in modules)


def test_the_commands_are_listed_with_their_options():
    page = HOOK["commands_page"]()
    for command in ("train label-moments", "plan bagged-pate", "ledger checkpoint", "keys revoke", "predict"):
        assert f"\n## dpensemble {command}\n" in page
    assert "--holdout-score" in page


def test_the_page_of_claims_has_every_claim():
    claims = [claim for group in HOOK["claims"]() for claim in group["claims"]]
    assert len(claims) >= 56
    page = HOOK["claims_page"]()
    for claim in claims:
        assert f"**{claim['claim']}**" in page
        assert claim["code"]
        assert claim["test"]
        assert set(claim) <= {"claim", "more", "source", "code", "test"}


def test_the_page_for_contributors_names_the_files_of_a_new_law_and_of_a_new_method():
    source = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page = HOOK["contributing_page"]()
    assert [line for line in page.splitlines() if line.startswith("#")] == [
        line for line in source.splitlines() if line.startswith("#")
    ]
    for part, file in (("law in the library", "laws/NAME.py"), ("method", "methods/NAME.py")):
        assert f"`src/dpensemble/{file}`" in page.split(f"## A new {part}\n")[1].split("\n## ")[0]
    # Links lead to pages of the site. Files that the site does not have are named.
    assert "](../stability.md)" in page
    assert "[releasing](RELEASING.md)" in source
    assert "releasing (`RELEASING.md`)" in page
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", page) if "://" not in target]
    assert targets
    assert [target for target in targets if not (ROOT / "docs" / "reference" / target).resolve().is_file()] == []


def test_links_in_code_stay_as_they_are_for_contributors(tmp_path, monkeypatch):
    text = "# Title\n\n[a](docs/b.md#c) [d](E.md) [f](#g)\n\n```\n[a](docs/b.md)\n```\n"
    (tmp_path / "CONTRIBUTING.md").write_text(text)
    monkeypatch.setitem(HOOK["contributing_page"].__globals__, "ROOT", tmp_path)
    expected = "# Title\n\n[a](../b.md#c) d (`E.md`) [f](#g)\n\n```\n[a](docs/b.md)\n```\n"
    assert HOOK["contributing_page"]() == expected


def test_a_page_without_title_ends_the_build(tmp_path, monkeypatch):
    (tmp_path / "good.md").write_text("<!-- a comment -->\n# Title\n")
    (tmp_path / "bad.md").write_text("No title.\n")
    monkeypatch.setitem(HOOK["main"].__globals__, "SHOWN", ())
    with pytest.raises(SystemExit, match=r"need a title.*bad\.md"):
        HOOK["main"](tmp_path)
    (tmp_path / "bad.md").unlink()
    HOOK["main"](tmp_path)


def test_an_example_that_fails_ends_the_build(tmp_path):
    example = tmp_path / "broken.py"
    (tmp_path / "pictures.py").write_text("")
    example.write_text("# %% [markdown]\n# # A title\n\n# %%\nprint(1 / 0)\n")
    with pytest.raises(ZeroDivisionError):
        HOOK["_notebook"](example, tmp_path / "out")
    assert not (tmp_path / "out" / "broken.md").exists()
    example.write_text("# %% [markdown]\n# # A title\n\n# %%\nprint('four', 2 + 2)\n")
    HOOK["_notebook"](example, tmp_path / "out")
    page = (tmp_path / "out" / "broken.md").read_text()
    assert "# A title" in page
    assert "```text\nfour 4\n```" in page
    # Nothing has changed, so nothing runs.
    stamp = (tmp_path / "out" / "broken.md").stat().st_mtime_ns
    HOOK["_notebook"](example, tmp_path / "out")
    assert (tmp_path / "out" / "broken.md").stat().st_mtime_ns == stamp


#: What a browser loads: scripts, styles, pictures and frames. A link that a reader may follow does not count.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed|object)\b[^>]*\b(?:src|data)=["']?(?:https?:)?//[^"'> ]+"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|next|prev))[^>]*\bhref=["']?(?:https?:)?//[^"'> ]+"""
    r"""|url\(["']?(?:https?:)?//[^)]+|@import\s+["'](?:https?:)?//[^"']+"""
)


def test_requests_to_other_hosts_are_recognised():
    for text in (
        '<script src="https://cdn.example.org/a.js">',
        "<link rel=stylesheet href=https://fonts.example.org/css>",
        "@import 'https://fonts.example.org/css'",
        "src: url(//fonts.example.org/a.woff)",
        '<img alt="x" src="http://example.org/a.png">',
    ):
        assert LOADED.search(text), text
    for text in ('<a href="https://example.org">', '<script src="assets/a.js">', "url(data:image/svg+xml;x)"):
        assert not LOADED.search(text), text


#: Addresses of the site of version 0.2, which others may have stored.
OLD_ADDRESSES = (
    "aggregator", "architecture", "auditing", "choosing-epsilon", "command-line", "drift", "explanations", "features",
    "findings", "gallery", "glossary", "ledger", "limits", "methods", "monthly-retraining", "neural", "privacy",
    "quality", "rare-outcomes", "reference", "reference/dpensemble", "results", "scale", "service", "tutorial",
    "verification", "what-it-cannot-do",
)  # fmt: skip
#: Addresses that version 0.3 added.
NEWER_ADDRESSES = (
    "data-protection-officer", "exports", "install-offline", "life-tables", "numbers", "other-libraries",
    "other-programs", "proofs/intervals", "proofs/label-moments", "proofs/law-of-your-own", "proofs/records",
    "public-rows", "reference/claims", "reference/commands", "reference/contributing", "reference/keys",
    "reference/modules", "stability", "table-size", "voting",
)  # fmt: skip
#: Headings of the page of proofs, which has become several pages.
OLD_HEADINGS = (
    "a-law-of-your-own", "a-released-quality", "bad-records", "bagged-pate", "bagging-alone", "budgets-by-group",
    "discriminant-analysis", "exact-accounting", "gated-queries", "label-moments",
    "no-record-decides-how-another-is-read",
    "one-model-many-answers", "random-subspace-voting", "sampling", "soft-votes-of-models", "the-exponential-mechanism",
    "the-neighbouring-relation-is-matched-to-the-allocation", "the-optimal-vote", "the-published-counts",
    "votes-of-your-own", "what-dpbag-calls-personalised-is-data-dependent", "what-only-the-owner-may-see",
    "where-delta-is-not-given",
)  # fmt: skip


def test_the_site_builds_is_complete_and_asks_no_other_host(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert EXPORTS - entries((tmp_path / "objects.inv").read_bytes()) == set()
    assert "PATEClassifier" in (tmp_path / "reference" / "dpensemble" / "index.html").read_text(encoding="utf-8")
    for address in (*OLD_ADDRESSES, *NEWER_ADDRESSES):
        assert (tmp_path / address / "index.html").exists(), address
    # Each page has one title of its own.
    titles = [re.findall(r"<h1\b", page.read_text(encoding="utf-8")) for page in tmp_path.rglob("index.html")]
    assert {len(found) for found in titles} == {1}
    privacy = (tmp_path / "privacy" / "index.html").read_text(encoding="utf-8")
    assert [heading for heading in OLD_HEADINGS if f'id="{heading}"' not in privacy] == []
    loaded = {
        f"{path.relative_to(tmp_path)}: {hit[0]}"
        for path in tmp_path.rglob("*")
        if path.suffix in (".html", ".css", ".xml")
        for hit in LOADED.finditer(path.read_text(encoding="utf-8"))
    }
    assert loaded == set()
    # Its scripts would load a library for such diagrams from another host.
    assert not any('class="mermaid"' in path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html"))
