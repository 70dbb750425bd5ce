"""What ``dpensemble serve`` and ``dpensemble keys`` do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpensemble.server import read_settings
from dpensemble.server.app import serve
from dpensemble.server.service import ServiceState
from dpensemble.server.sign_in import ApiKey, KeyFile

#: The result as plain values and in words.
_Answer = tuple[Any, str]


def run_keys(action: str, keys: Path, **values: Any) -> _Answer:
    """Run one command on a file of keys."""
    if action == "create":
        new_key, token = KeyFile(keys).create(values["holder"], values["scope"], values["grant"] or (), values["days"])
        answer: Any = {**_about(new_key), "key": token}
        words = f"{token}\n{_line(new_key)} The key is shown only once; {keys} stores a hash."
    elif action == "list":
        stored_keys = list(KeyFile(keys).read().values())
        answer = [_about(one) for one in stored_keys]
        words = "\n".join(map(_line, stored_keys)) or f"{keys} has no keys."
    else:
        removed_key = KeyFile(keys).revoke(values["key"])
        answer, words = {"revoked": removed_key.id}, f"The key {removed_key.id} of {removed_key.holder} is revoked."
    return answer, words


def _about(key: ApiKey) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "sha256"}


def _line(key: ApiKey) -> str:
    grants = f", for {', '.join(key.grants)}" if key.grants else ""
    expires = "" if key.expires is None else f", until {key.expires}"
    expired = " (expired)" if key.is_expired else ""
    return f"{key.id}: {key.holder}, may {', '.join(key.scopes)}{grants}{expires}{expired}."


def run_service(config: Path, follow: Callable[[Callable[[], str], Callable[[], bool]], None], **values: Any) -> None:
    """Serve until a signal arrives. `follow` gets functions that return what a signal reports."""
    settings = read_settings(config)
    follow(lambda: "every answer that was sent is in the ledger", lambda: False)
    serve(settings, **values)


def check_service(config: Path) -> _Answer:
    """Return what would be served."""
    service = ServiceState.of(read_settings(config))
    service.ledger.verify()
    notes = service.ledger.check()
    grants = [handler.to_dict() for handler in service.handlers.values()]
    words = [
        f"{one['name']}: {one['remaining']:,} of {one['answers']:,} answers left, epsilon {one['epsilon']:.4g} at "
        f"delta {one['delta']:g} of data set {one['data_set']!r}, by {one['law']}; takes {' or '.join(one['takes'])}."
        for one in grants
    ]
    return grants, "\n".join([*words, *notes])
