"""Log a run in MLflow: what may be shared of it, and nothing else.

A run's folder also holds files for the owner of the records. So no file is logged because it lies in the folder. The
report and the card are written again from the public part of the record. The student, the labels and the certificate
are logged after they were read as such. Tags that MLflow usually adds, such as the path of a script and the name of a
user, are left out.

The extra ``dpensemble[mlflow]`` installs MLflow. MLflow reports its own use to its makers unless the environment
variable ``MLFLOW_DISABLE_TELEMETRY`` is ``true``.
"""

from __future__ import annotations

import csv
import io
import math
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from dpensemble._files import UnfitJSONError, file_bytes, parse_json
from dpensemble.errors import DPEnsembleError, FileError, NotForReleaseWarning, file_errors
from dpensemble.report import RunRecord
from dpensemble.report.page import card_texts, model_card, render
from dpensemble.student import release_mark
from dpensemble.workflow.outputs import RunFile, load_run, undamaged
from dpensemble.workflow.predict import load_student

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["log_run"]

# Columns of the file of labels. The last one is there when the noise came from a seed.
_COLUMNS = (["row", "label"], ["row", "label", "for_release"])
_TAG = "dpensemble."


def log_run(
    run: Path | str,
    *,
    run_id: str | None = None,
    experiment: str = "dpensemble",
    tracking_uri: str | None = None,
    allow_experiment: bool = False,
) -> str:
    """Log a run of ``dpensemble train`` in MLflow: what may be shared of the run, and nothing else.

    Parameters
    ----------
    run : path
        The run's folder.
    run_id : str, optional
        Run of MLflow to log to. By default the active run, or a new run when none is active.
    experiment : str, default="dpensemble"
        Experiment of a new run. It is created if there is none of this name.
    tracking_uri : str, optional
        Where MLflow stores runs. By default where ``mlflow.set_tracking_uri`` or the environment sets it.
    allow_experiment : bool, default=False
        Whether an experiment may be logged: a run with ``--insecure-release-seed``, whose tag
        ``dpensemble.for_release`` is ``false``, or a run with a baseline without privacy on records that are not
        public.

    Returns
    -------
    str
        MLflow's id of the run.

    Raises
    ------
    FileError
        If the folder holds no run, or holds damaged files. If the run may not be shared: under
        ``analysis="until-spent"``, or as an experiment unless `allow_experiment`.
    DPEnsembleError
        If MLflow is not installed.

    Notes
    -----
    The metrics are ``epsilon``, ``delta`` and the measures of the model card. Those are exact test scores only if the
    test rows are public (``--test-is-public``). The tags are ``dpensemble.guarantee``, ``dpensemble.for_release`` and,
    if a ledger was charged, ``dpensemble.ledger_id``, the ledger's id. The artifacts are ``card.json``, ``card.md``,
    ``report.html``, ``student.skops``, ``labels.csv`` and, if there is one, ``certificate.json``. All of them follow
    from what was released, so logging costs no privacy.

    Nothing is logged before every file was read. If the storage fails later, a new run is marked as failed.

    Examples
    --------
    >>> log_run("run", tracking_uri="http://localhost:5000")  # doctest: +SKIP
    '1f0e4c9d2c6b4d33a7f7b7f4a3a1d9c2'
    """
    _require_mlflow()
    folder = Path(run)
    record, _ = load_run(folder, private=False)
    with undamaged(folder / RunFile.RECORD):
        _require_shareable(folder, record, allow_experiment=allow_experiment)
        artifacts, metrics, tags = _artifacts(folder, record), _metrics(record), _tags(record)
    client, there, is_new = _opened(tracking_uri, run_id, experiment, record.title)
    try:
        for name, value in metrics.items():
            client.log_metric(there, name, value)
        for name, text in tags.items():
            client.set_tag(there, name, text)
        with tempfile.TemporaryDirectory() as shared:
            for file, content in artifacts.items():
                (Path(shared) / file).write_bytes(content)
            client.log_artifacts(there, shared)
    except BaseException:
        if is_new:
            client.set_terminated(there, "FAILED")
        raise
    if is_new:
        client.set_terminated(there)
    return there


def _require_mlflow() -> None:
    try:
        import mlflow  # noqa: F401, PLC0415  an optional extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mlflow":
            raise
        raise DPEnsembleError(
            'log_run needs MLflow, which is not installed: run pip install "dpensemble[mlflow]".'
        ) from None


def _opened(
    tracking_uri: str | None, run_id: str | None, experiment: str, title: str
) -> tuple[MlflowClient, str, bool]:
    """Return a client, the id of the run to log to, and whether the run is new."""
    import mlflow  # noqa: PLC0415  an optional extra

    client = mlflow.MlflowClient(tracking_uri)
    if run_id is not None:
        return client, run_id, False
    # An active run is in the storage that the program has set.
    active = mlflow.active_run() if tracking_uri is None else None
    if active is not None:
        return client, str(active.info.run_id), False
    known = client.get_experiment_by_name(experiment)
    place = client.create_experiment(experiment) if known is None else known.experiment_id
    # A client adds no tags of the script, its user and its repository, as mlflow.start_run does.
    return client, client.create_run(place, run_name=title).info.run_id, True


def _require_shareable(folder: Path, record: RunRecord, *, allow_experiment: bool) -> None:
    """Raise if nothing of a run may be logged."""
    if not record.labels_are_public:
        raise FileError(
            f"{folder} may not be shared, because the number of its labels depends on secret votes "
            "(analysis='until-spent'): train with another analysis."
        )
    reason = ""
    if not record.statement().for_release:
        reason = "the noise of the run came from a seed"
    elif record.baseline is not None and not record.data.get("data_is_public"):
        reason = "the run has scores of a baseline without privacy"
    if reason and not allow_experiment:
        raise FileError(
            f"{folder} may not be shared, because {reason}: train without it, or give allow_experiment=True."
        )


def _metrics(record: RunRecord) -> dict[str, float]:
    """Return the guarantee, and measures of quality that the card states."""
    card = model_card(record)
    measures = {name: float(value) for name, value in card["quality"]["measures"].items() if value is not None}
    stated = {name: float(card["privacy"][name]) for name in ("epsilon", "delta")}
    return {name: value for name, value in measures.items() if math.isfinite(value)} | stated


def _tags(record: RunRecord) -> dict[str, str]:
    statement = record.statement()
    tags = {"guarantee": " ".join(statement.sentences()), "for_release": str(statement.for_release).lower()}
    if "ledger" in record.data:
        tags["ledger_id"] = str(record.data["ledger"])
    return {_TAG + name: text for name, text in tags.items()}


def _artifacts(folder: Path, record: RunRecord) -> dict[RunFile, bytes]:
    """Return the content of each file to log, in the order of its name."""
    card, card_text = card_texts(record)
    # The files of these may have been replaced by pages for the owner.
    texts = {RunFile.REPORT: render(record), RunFile.CARD: card, RunFile.CARD_TEXT: card_text}
    files = {name: text.encode() for name, text in texts.items()}
    files[RunFile.STUDENT] = _student(folder, for_release=record.statement().for_release)
    files[RunFile.LABELS] = _labels(folder, record)
    if record.data.get("certificate"):
        files[RunFile.CERTIFICATE] = _certificate(folder)
    return files


def _content(folder: Path, name: RunFile) -> bytes:
    with file_errors(lambda reason: f"{folder / name} cannot be read ({reason}): restore the file."):
        return file_bytes(folder / name)


def _student(folder: Path, *, for_release: bool) -> bytes:
    """Return the file of the student. Raise if the file is not the student of such a run."""
    content = _content(folder, RunFile.STUDENT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForReleaseWarning)
        mark = release_mark(load_student(folder))
    if mark is not None and mark is not for_release:
        raise FileError(
            f"{folder / RunFile.STUDENT} is of another run: one of both has seeded noise; restore the student."
        )
    return content


def _labels(folder: Path, record: RunRecord) -> bytes:
    """Return the file of the released labels. Raise if the file holds anything else."""
    content = _content(folder, RunFile.LABELS)
    try:
        head, *rows = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
    except (UnicodeError, ValueError, csv.Error):
        head, rows = [], []
    classes = {str(name) for name in record.data["classes"]}
    whole = len(rows) == record.labels and all(
        len(row) == len(head) and row[0].isdecimal() and row[1] in classes and {"false"}.issuperset(row[2:])
        for row in rows
    )
    if head not in _COLUMNS or not whole:
        raise FileError(
            f"{folder / RunFile.LABELS} must have the run's {record.labels:,} labels and no more: restore the file."
        )
    return content


def _certificate(folder: Path) -> bytes:
    content = _content(folder, RunFile.CERTIFICATE)
    try:
        holds_object = isinstance(parse_json(content, special_numbers=True), dict)
    except UnfitJSONError:
        holds_object = False
    if not holds_object:
        raise FileError(f"{folder / RunFile.CERTIFICATE} is not a certificate: restore the file.")
    return content
