"""``dpensemble keys``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from dpensemble.service.keys import ApiKey, create_key, read_keys, revoke_key


def run(action: str, keys: Path, as_json: bool, **values: Any) -> None:
    """Run one command on a file of keys, and print its result."""
    if action == "create":
        new_key, token = create_key(keys, values["holder"], values["scope"], values["grant"] or (), values["days"])
        answer: Any = {**_about(new_key), "key": token}
        words = f"{token}\n{_line(new_key)} The key is shown only once; {keys} stores a hash."
    elif action == "list":
        stored_keys = list(read_keys(keys).values())
        answer = [_about(one) for one in stored_keys]
        words = "\n".join(map(_line, stored_keys)) or f"{keys} has no keys."
    else:
        removed_key = revoke_key(keys, values["key"])
        answer, words = {"revoked": removed_key.id}, f"The key {removed_key.id} of {removed_key.holder} is revoked."
    typer.echo(json.dumps(answer, indent=2) if as_json else words)


def _about(key: ApiKey) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "sha256"}


def _line(key: ApiKey) -> str:
    grants = f", for {', '.join(key.grants)}" if key.grants else ""
    expires = "" if key.expires is None else f", until {key.expires}"
    expired = " (expired)" if key.is_expired else ""
    return f"{key.id}: {key.holder}, may {', '.join(key.scopes)}{grants}{expires}{expired}."
