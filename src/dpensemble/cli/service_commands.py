"""Options of the commands of the service: `dpensemble serve` and `dpensemble keys ACTION`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpensemble.cli.command_parts import Commands, Json, option, print_answer, run_command
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.option import OUTPUT, PRIVACY


def serve(
    config: Annotated[Path, typer.Argument(help="The service's configuration, TOML.")],
    host: Annotated[str, option(OUTPUT, "Address to listen at. [127.0.0.1]")] = "127.0.0.1",
    port: Annotated[int, option(OUTPUT, "Port. [8000]")] = 8000,
    certificate: Annotated[Path | None, option(OUTPUT, "Certificate for TLS, unless a proxy does it.")] = None,
    certificate_key: Annotated[Path | None, option(OUTPUT, "Its key.")] = None,
    check: Annotated[bool, option(OUTPUT, "Only print what would be served, and check it.", "--check")] = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP, from posted votes or hosted teachers. Each answer is charged before it is drawn.

    Example: dpensemble serve service.toml --port 8000
    """
    if check:
        print_answer("server.service_commands:check_service", config=config, as_json=as_json)
        return
    run_command(
        "server.service_commands:run_service",
        config=config,
        follow=INTERRUPTS.follow,
        host=host,
        port=port,
        certificate=certificate,
        certificate_key=certificate_key,
    )


_Keys = Annotated[Path, typer.Argument(metavar="KEYS", help="File of keys.")]


def keys_create(
    keys: _Keys,
    holder: Annotated[str, typer.Argument(metavar="HOLDER", help="Whose key it is.")],
    scope: Annotated[list[str], option(PRIVACY, "read, predict, metrics or own; several may be given. Required.")],
    grant: Annotated[list[str] | None, option(PRIVACY, "Grant of the key; several may be given. [all]")] = None,
    days: Annotated[int | None, option(PRIVACY, "Days until it expires. [never]")] = None,
    as_json: Json = False,
) -> None:
    """Create an API key for the service, and print it once. The file stores a hash.

    Example: dpensemble keys create keys.json alice --scope read --scope predict
    """
    print_answer("server.service_commands:run_keys", action="create", **locals())


def keys_list(keys: _Keys, as_json: Json = False) -> None:
    """List API keys without their secrets.

    Example: dpensemble keys list keys.json
    """
    print_answer("server.service_commands:run_keys", action="list", keys=keys, as_json=as_json)


def keys_revoke(
    keys: _Keys, key: Annotated[str, typer.Argument(metavar="ID", help="Id from keys list.")], as_json: Json = False
) -> None:
    """Revoke an API key at once.

    Example: dpensemble keys revoke keys.json 1f2e3d4c5b6a
    """
    print_answer("server.service_commands:run_keys", action="revoke", keys=keys, key=key, as_json=as_json)


KEYS: Commands = {"create": keys_create, "list": keys_list, "revoke": keys_revoke}
