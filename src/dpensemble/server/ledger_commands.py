"""What ``dpensemble ledger`` does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpensemble.errors import InvalidParameterError, file_errors
from dpensemble.guarantee import Budget
from dpensemble.server import Ledger
from dpensemble.server.ledger import StatedRelease
from dpensemble.server.witness import read_statement
from dpensemble.workflow.disk import ANY_FILE, replace_file
from dpensemble.workflow.outputs import RunFile, load_run, undamaged

#: The result as plain values and in words.
_Answer = tuple[Any, str]


def run(action: str, ledger: str, **values: Any) -> _Answer:
    """Run one command on a ledger."""
    return _ACTIONS[action](ledger, **values)


def _create(where: str) -> _Answer:
    ledger = Ledger.create(where)
    about = {
        "ledger": ledger.place,
        "id": ledger.id,
        "public_key": ledger.public_key,
        "signing_key": str(ledger.key_path),
        "witness": str(ledger.witness_path),
    }
    return about, (
        f"A ledger in {ledger.place}. Its signing key is {ledger.key_path}, and {ledger.witness_path} "
        "notices an old copy: keep back-ups of both files, and keep them away from the ledger's own back-ups."
    )


def _open(
    where: str, data_set: str, *, epsilon: float, delta: float | None, group: str | None, **terms: Any
) -> _Answer:
    ledger = Ledger(where)
    if group is not None:
        ledger.open_group(data_set, group, epsilon=epsilon)
    if delta is None:
        raise InvalidParameterError("--delta is missing: give the delta of the data set's budget.", parameter="delta")
    how, relation = terms.pop("how"), terms.pop("relation")
    account = ledger.open_account(data_set, epsilon=epsilon, delta=delta, filter=how, relation=relation.value, **terms)
    state = account.state()
    return state.to_dict(), str(state)


def _show(where: str) -> _Answer:
    ledger = Ledger(where)
    # Figures of a changed ledger would mislead.
    ledger.verify()
    notes = ledger.check()
    states = [state for account in ledger.accounts() for state in account.states()]
    lines = [str(state) for state in states] or [f"{ledger.place} has no accounts yet."]
    return [state.to_dict() for state in states], "\n".join([*lines, *notes])


def _verify(where: str, checkpoint: list[Path]) -> _Answer:
    ledger = Ledger(where)
    counts = ledger.verify([read_statement(path) for path in checkpoint])
    notes = ledger.check()
    checkpoint_words = f", and all of {len(checkpoint)} checkpoints" if checkpoint else ""
    return asdict(counts), (
        f"The ledger holds: {counts.entries:,} entries, {counts.accounts:,} accounts, {counts.grants:,} releases, "
        f"{counts.requests:,} requests{checkpoint_words}." + "".join(f"\n{note}" for note in notes)
    )


def _protect(where: str) -> _Answer:
    ledger = Ledger(where)
    ledger.protect()
    return {"ledger": ledger.place}, f"{ledger.place} is verified and has all its triggers."


def _forget(where: str, name: str, witness: Path | None) -> _Answer:
    Ledger.forget(where, name, witness=witness)
    return {"ledger": where, "forgotten": name}, (
        f"Ledger {name} is given up: its spending no longer counts. Another ledger can take its place."
    )


def _export(where: str, out: Path) -> _Answer:
    entries = Ledger(where).entries()
    _write(out, "".join(json.dumps(entry.to_dict(), sort_keys=True) + "\n" for entry in entries))
    return {"out": str(out), "entries": len(entries)}, f"{len(entries):,} entries are in {out}."


def _checkpoint(where: str, out: Path) -> _Answer:
    statement = Ledger(where).checkpoint()
    _write(out, json.dumps(statement, indent=2) + "\n")
    return statement, f"Entry {statement['number']:,} is signed in {out}: store the file away from the ledger."


def _charge(where: str, data_set: str, *, epsilon: float, delta: float, what: str) -> _Answer:
    account = Ledger(where).account(data_set)
    account.charge_budget(what, Budget(epsilon=epsilon, delta=delta))
    state = account.state()
    return state.to_dict(), f"Charged: {what}. {state}"


def _restored(
    where: str, *, checkpoint: list[Path], released: list[str], nothing_released: bool, joins: bool
) -> _Answer:
    stated = [_stated_release(one) for one in released]
    outcome = Ledger.restored(
        where,
        [read_statement(path) for path in checkpoint],
        released=stated if stated or nothing_released else None,
        joins=joins,
    )
    return asdict(outcome), "\n".join(outcome.sentences(joins=joins, stated=stated))


def _stated_release(text: str) -> StatedRelease:
    """Return the release of a run's folder, for ``DATA_SET=RUN``, or ``RUN`` in a ledger of one data set."""
    data_set, _, folder = text.rpartition("=")
    record, _ = load_run(Path(folder), private=False)
    with undamaged(Path(folder) / RunFile.RECORD):
        # The largest budget of any group, as `train` charges it.
        budgets = [record.budget, record.guarantee, *(group["budget"] for group in record.groups)]
        epsilon, delta = (max(float(one[name]) for one in budgets) for name in ("epsilon", "delta"))
    return StatedRelease(data_set=data_set or None, what=f"run {Path(folder).name}", epsilon=epsilon, delta=delta)


def _move(where: str, to: str) -> _Answer:
    ledger = Ledger.moved(where, to)
    about = {"ledger": ledger.place, "id": ledger.id, "entries": ledger.head().number, "closed": where}
    return about, (
        f"Ledger {ledger.id} is in {ledger.place}, with the same key and witness. {where} is closed by its last entry: "
        "keep it for the record, and name the new address in every command and configuration."
    )


def _write(out: Path, text: str) -> None:
    with file_errors(lambda reason: f"out={str(out)!r} cannot be written ({reason}): choose another file."):
        replace_file(out, text, ANY_FILE)


_ACTIONS: dict[str, Callable[..., _Answer]] = {
    "create": _create,
    "open": _open,
    "show": _show,
    "verify": _verify,
    "export": _export,
    "checkpoint": _checkpoint,
    "protect": _protect,
    "forget": _forget,
    "charge": _charge,
    "restored": _restored,
    "move": _move,
}
