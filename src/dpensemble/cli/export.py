"""``dpensemble export``."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer

from dpensemble._work import progress_on_stderr
from dpensemble.cli.options import parts_of
from dpensemble.cli.output import check_folder
from dpensemble.errors import FileError, InvalidParameterError, NotForReleaseWarning, file_errors
from dpensemble.exports.description import Description, described
from dpensemble.workflow.disk import replace_file
from dpensemble.workflow.predict import load_student


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a format may use beside the student."""

    dialect: str
    table: str
    keep: tuple[str, ...]
    rows: Path | None
    out: Path | None
    run: Path


def _sql(student: Description, settings: _Settings) -> str:
    from dpensemble.exports.sql import as_sql  # noqa: PLC0415

    return as_sql(student, settings.dialect, table=settings.table, keep=settings.keep)


def _python(student: Description, settings: _Settings) -> str:  # noqa: ARG001
    from dpensemble.exports.script import as_script  # noqa: PLC0415

    return as_script(student)


def _score_card(student: Description, settings: _Settings) -> str:
    from dpensemble.exports.card import as_csv, as_html, score_card, with_error  # noqa: PLC0415

    card = score_card(student)
    if settings.rows is not None:
        card = with_error(card, load_student(settings.run), settings.rows)
    return as_csv(card) if settings.out is not None and settings.out.suffix.lower() == ".csv" else as_html(card)


def _onnx(student: Description, settings: _Settings) -> bytes:  # noqa: ARG001
    from dpensemble.exports.onnx import as_onnx  # noqa: PLC0415

    return as_onnx(student)


#: What writes each format. Bytes are for files only.
_FORMATS: dict[str, Callable[[Description, _Settings], str | bytes]] = {
    "sql": _sql,
    "onnx": _onnx,
    "scorecard": _score_card,
    "python": _python,
}
#: The formats that each option is for.
_OPTIONS = {"dialect": ("sql",), "table": ("sql",), "keep": ("sql",), "rows": ("scorecard",)}


def run(
    run: Path,
    format: str,
    dialect: str | None,
    table: str | None,
    keep: str | None,
    rows: Path | None,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a student for other programs."""
    given: dict[str, object] = {"dialect": dialect, "table": table, "keep": keep, "rows": rows}
    _check_options(format, given)
    check_folder("out", out)
    if out is not None and out.is_file() and not overwrite:
        raise FileError(f"out={str(out)!r} exists: choose another file, or give --overwrite.")
    settings = _Settings(
        dialect=dialect or "sqlite",
        table=table or "rows",
        keep=tuple(parts_of(keep) or ()),
        rows=rows,
        out=out,
        run=run,
    )
    with warnings.catch_warnings(), progress_on_stderr("Writing the export"):
        # The file and a note state this.
        warnings.simplefilter("ignore", NotForReleaseWarning)
        student = described(run)
        content = _FORMATS[format](student, settings)
    if isinstance(content, bytes) and out is None:
        raise InvalidParameterError(f"format={format} cannot be printed: name a file by --out.", parameter="out")
    if out is not None:
        with file_errors(lambda reason: f"out={str(out)!r} cannot be written ({reason}): choose another file."):
            replace_file(out, content)
    if as_json:
        typer.echo(json.dumps(_answer(student, format, out, content), indent=2))
    elif out is None:
        sys.stdout.write(str(content))
    if student.mark:
        typer.echo(f"dpensemble: note: the export is {student.mark}", err=True)


def _check_options(form: str, given: dict[str, object]) -> None:
    """Raise for an unknown format, or an option of another format."""
    if form not in _FORMATS:
        raise InvalidParameterError(
            f"format={form!r} is unknown: use one of {', '.join(_FORMATS)}.", parameter="format"
        )
    for name, value in given.items():
        if value is not None and form not in _OPTIONS[name]:
            raise InvalidParameterError(
                f"{name}={str(value)!r} is for --format {_OPTIONS[name][0]}: leave it out.", parameter=name
            )


def _answer(student: Description, form: str, out: Path | None, content: str | bytes) -> dict[str, object]:
    """Return what ``--json`` prints."""
    answer: dict[str, object] = {
        "format": form,
        "columns": student.sources,
        "classes": list(student.classes),
        "guarantee": list(student.guarantee),
        "for_release": student.for_release,
    }
    return answer | ({"content": content} if out is None else {"out": str(out)})
