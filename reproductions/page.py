"""Results as a page, in Markdown and in HTML that loads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from reproductions.declared import Panel, Table
from reproductions.summary import Entry, TableResult

_WIDE = 116
_STYLE = Markup(
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; "
    "color: #18202c; } table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; } "
    "th, td { border-bottom: 1px solid #d5dce6; padding: .25rem .6rem; text-align: right; vertical-align: bottom; } "
    "th:first-child, td:first-child { text-align: left; } .wide { overflow-x: auto; } img { max-width: 100%; }"
)


@dataclass(frozen=True)
class Heading:
    """A heading of a level."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences with ``*emphasis*``, ``**bold**`` and code in backquotes, as in Markdown."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """An SVG file beside the page."""

    path: str
    text: str


Block = Heading | Paragraph | Grid | Picture


def blocks_of(table: Table, result: TableResult) -> list[Block]:
    """Return a table's part of the page."""
    kind = "quick settings, which are smaller than the paper's" if result.quick else "full settings"
    counted = f"{result.runs} run{'' if result.runs == 1 else 's'}"
    ran = (
        f"{counted}, first seed {result.seed}, {kind}. The experiment took {result.time}. "
        f"Again: `python -m reproductions {table.name}{' --quick' if result.quick else ''}`. {result.note}"
    ).strip()
    about = f"{table.where}. {table.about}".strip()
    blocks: list[Block] = [
        Heading(3, f"{table.name}: {table.title}"),
        Paragraph(f"{about} *Sentences on this table describe the full settings.*" if result.quick else about),
    ]
    for panel in table.panels:
        entries = [entry for entry in result.entries if entry.panel == panel.title]
        if entries:
            blocks.append(_grid(table, panel, entries))
    blocks.append(Paragraph(f"**Verdict.** {result.verdict()} {table.why}".strip()))
    if not result.judged and table.few_runs:
        blocks.append(Paragraph(f"**Few runs.** {table.few_runs}"))
    if table.extension:
        blocks.append(Paragraph(f"**Beyond the paper.** {table.extension}"))
    blocks.append(Paragraph(ran))
    return blocks


def blocks_without_result(table: Table) -> list[Block]:
    """Return the part of the page of a table that was not run, with the reason."""
    return [
        Heading(3, f"{table.name}: {table.title}"),
        Paragraph(f"{table.where}. {table.about}".strip()),
        Paragraph(f"**No result.** {table.few_runs}"),
    ]


def _grid(table: Table, panel: Panel, entries: Sequence[Entry]) -> Grid:
    """Return one quantity: for every setting what was printed, what came out, and the rest."""
    columns = [column for column in panel.columns if any(entry.column == column for entry in entries)]
    beside = [key for key in table.beside if any(key in entry.beside for entry in entries)]
    printed = any(entry.published is not None for entry in entries)
    found = printed or any(entry.reproduced is not None for entry in entries)
    header = [panel.title, "setting"] if len(columns) > 1 else [panel.title]
    header += ["published"] * printed + ["reproduced"] * found + ["difference"] * printed
    header += [table.beside[key] for key in beside]
    rows = []
    by_place = {(entry.row, entry.column): entry for entry in entries}
    for row in dict.fromkeys(entry.row for entry in entries):
        for column in columns:
            entry = by_place.get((row, column))
            if entry is None:
                continue
            alone = row in table.ours and sum(place[0] == row for place in by_place) == 1
            cells = [row, "–" if alone else column] if len(columns) > 1 else [row]
            if printed:
                cells.append(_printed(entry.published, panel))
            if found:
                cells.append(_with_spread(entry, panel.digits))
            if printed:
                cells.append(_signed(entry, panel))
            rows.append(cells + [_number(entry.beside.get(key), panel.digits) for key in beside])
    return Grid(header, rows)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _printed(value: float | None, panel: Panel) -> str:
    return f"{value:,}" if panel.mixed and value is not None else _number(value, panel.digits)


def _with_spread(entry: Entry, digits: int) -> str:
    spread = "" if entry.spread is None else f" ± {entry.spread:,.{digits}f}"
    return _number(entry.reproduced, digits) + spread


def _signed(entry: Entry, panel: Panel) -> str:
    if entry.difference is None:
        return "–"
    rounded = round(entry.difference, panel.digits)
    text = f"{rounded:{'+' if rounded else 'z'},.{panel.digits}f}"
    # Bold where it is more than chance.
    return f"**{text}**" if entry.agrees(None if panel.mixed else panel.digits) is False else text


def as_markdown(blocks: Sequence[Block]) -> str:
    """Return blocks as Markdown, wrapped at the width of the project's prose."""
    parts = []
    for block in blocks:
        match block:
            case Heading():
                parts.append(f"{'#' * block.level} {block.text}")
            case Paragraph():
                parts.append(_wrapped(block.text))
            case Grid():
                lines = [_line(block.header), _line([_rule(block, place) for place in range(len(block.header))])]
                parts.append("\n".join(lines + [_line(row) for row in block.rows]))
            case Picture():
                parts.append(f"![{block.text}]({block.path})")
    return "\n\n".join(parts) + "\n"


def _rule(block: Grid, place: int) -> str:
    """Return what aligns a column: numbers to the right."""
    numbers = all(re.match(r"(\*\*)?[-+–.\d]", row[place]) for row in block.rows)
    return "---:" if numbers and place else "---"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _wrapped(text: str) -> str:
    lines = [""]
    # Code is never broken.
    for word in re.findall(r"`[^`]*`\S*|\S+", text):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WIDE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def as_html(title: str, blocks: Sequence[Block]) -> str:
    """Return blocks as one HTML document."""
    body = Markup("\n").join(_html(block) for block in blocks)
    return str(
        Markup(
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            "<style>{style}</style></head><body>\n{body}\n</body></html>\n"
        ).format(title=title, style=_STYLE, body=body)
    )


def _html(block: Block) -> Markup:
    match block:
        case Heading():
            return Markup("<h{level}>{text}</h{level}>").format(level=block.level, text=block.text)
        case Paragraph():
            return Markup("<p>{text}</p>").format(text=_inline(block.text))
        case Picture():
            return Markup('<p><img src="{path}" alt="{text}"></p>').format(path=block.path, text=block.text)
        case Grid():
            head = Markup("").join(Markup("<th>{}</th>").format(_inline(cell)) for cell in block.header)
            rows = Markup("\n").join(
                Markup("<tr>{}</tr>").format(
                    Markup("").join(Markup("<td>{}</td>").format(_inline(cell)) for cell in row)
                )
                for row in block.rows
            )
            return Markup('<div class="wide"><table><tr>{}</tr>\n{}</table></div>').format(head, rows)


def _inline(text: str) -> Markup:
    """Return Markdown's bold, emphasis, code and links as HTML."""
    html = str(escape(text))
    for pattern, element in ((r"`([^`]*)`", "code"), (r"\*\*([^*]+)\*\*", "strong"), (r"\*([^*]+)\*", "em")):
        html = re.sub(pattern, rf"<{element}>\1</{element}>", html)
    # The text is escaped above. The elements are ours.
    return Markup(re.sub(r"\[([^\]]*)\]\(([^)]*)\)", r'<a href="\2">\1</a>', html))  # noqa: S704
