"""Count the words of prose on the written pages of the documentation: ``python scripts/page_words.py``.

Generated pages, code blocks, tables, comments and the targets of links do not count. A test limits the sum.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Pages that programs write.
GENERATED = ("reference/", "notebooks/", "results.md")
_LEFT_OUT = (
    re.compile(r"(?ms)^ *```.*?^ *```"),
    re.compile(r"(?s)<!--.*?-->"),
    re.compile(r"(?m)^ *\|.*$"),
    re.compile(r"(?m)^    .*$"),
    re.compile(r"<[^>]+>"),
    re.compile(r"\]\([^)]*\)"),
)
_WORD = re.compile(r"[^\W\d_]")


def words(text: str) -> int:
    """Return the number of words of prose in Markdown."""
    for pattern in _LEFT_OUT:
        text = pattern.sub(" ", text)
    return sum(bool(_WORD.search(word)) for word in text.split())


def pages(docs: Path = DOCS) -> dict[str, int]:
    """Return the number of words of every written page, by its address."""
    counts = {}
    for path in sorted(docs.rglob("*.md")):
        name = path.relative_to(docs).as_posix()
        if not name.startswith(GENERATED):
            counts[name] = words(path.read_text(encoding="utf-8"))
    return counts


if __name__ == "__main__":
    counts = pages()
    for page, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:7,} {page}")
    print(f"{sum(counts.values()):7,} together")
