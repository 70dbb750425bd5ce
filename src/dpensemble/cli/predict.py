"""``dpensemble predict``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import typer

from dpensemble.datasets import read_table
from dpensemble.datasets.encoding import numeric_columns, takes_blanks
from dpensemble.datasets.tables import as_kinds, require_complete
from dpensemble.errors import DataError, FileError
from dpensemble.persistence import load_classifier
from dpensemble.workflow.durable import replace_file


def run(student: Path, rows: Path, out: Path | None, probabilities: bool, as_json: bool) -> None:
    """Classify rows with a saved student."""
    classifier = load_classifier(student)
    if "encoder" not in getattr(classifier, "named_steps", {}):
        raise FileError(f"{student} is not a student that `dpensemble train` wrote.")
    table = read_table(rows)
    expected = list(classifier.feature_names_in_)
    lacking = [name for name in expected if name not in table.columns]
    if lacking:
        raise DataError(f"{rows} lacks the columns {lacking} that the student was trained on.")
    # Columns are read as the student's public rows were, never as the new rows look.
    encoder = classifier.named_steps["encoder"]
    table = as_kinds("new", table[expected], numeric_columns(encoder))
    require_complete(str(rows), table, blanks=takes_blanks(encoder))
    labels = pd.DataFrame({"row": range(len(table)), "label": classifier.predict(table)})
    if probabilities:
        labels[[f"probability of {name}" for name in classifier.classes_]] = classifier.predict_proba(table)
    if as_json:
        typer.echo(json.dumps(labels.to_dict("records") if probabilities else labels["label"].tolist()))
    elif out is None:
        labels.to_csv(sys.stdout, index=False)
    if out is not None:
        if out.exists() and out.samefile(rows):
            raise FileError(f"out={str(out)!r} is the table of rows itself; choose another file.")
        try:
            replace_file(out, labels.to_csv(index=False))
        except OSError as error:
            raise FileError(f"out={str(out)!r} cannot be written ({error.strerror}); choose another file.") from None
