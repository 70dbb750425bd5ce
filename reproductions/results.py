"""The folder that a reproduction leaves: results as JSON, and a page in Markdown and HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dpensemble.errors import FileError
from reproductions.catalogue import TABLES
from reproductions.page import Block, Heading, Paragraph, as_html, as_markdown, blocks_of
from reproductions.store import write
from reproductions.summary import TableResult

TITLE = "Published tables beside ours"
RESULTS, MARKDOWN, HTML = "results", "results.md", "results.html"


def write_results(found: Sequence[TableResult], out: Path) -> None:
    """Write each table's result as JSON, and one page of all results in the folder."""
    for result in found:
        write(out / RESULTS / f"{result.table}.json", json.dumps(result.to_dict(), indent=1) + "\n")
    blocks = page_of(read_results(out / RESULTS))
    write(out / MARKDOWN, as_markdown(blocks))
    write(out / HTML, as_html(TITLE, blocks))


def read_results(folder: Path) -> dict[str, TableResult]:
    """Return the results in a folder by table."""
    results = {}
    for path in sorted(folder.glob("*.json")):
        try:
            result = TableResult.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileError(
                f"{path} is no result of python -m reproductions ({type(error).__name__}): remove it."
            ) from None
        results[result.table] = result
    return results


def page_of(results: dict[str, TableResult]) -> list[Block]:
    """Return the page of all results, in the order of the papers."""
    blocks: list[Block] = [
        Heading(1, TITLE),
        Paragraph(
            "Each figure is the mean over independent runs, ± their standard deviation. A difference in bold is more "
            "than twice that. Columns to the right of the difference are not in the paper."
        ),
    ]
    for table in TABLES:
        if table.name in results:
            blocks += blocks_of(table, results[table.name])
    return blocks
