"""Running the service until it is told to stop."""

from __future__ import annotations

import gc
import ipaddress
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from dpensemble._checks import integer_between
from dpensemble.errors import InvalidParameterError
from dpensemble.service.app import create_app
from dpensemble.service.connections import LONGEST_HEAD, bounded, room_for_connections
from dpensemble.service.metrics import JsonLog, LogHandler
from dpensemble.service.settings import ServiceSettings

# Seconds that requests have to end in when the service is told to stop.
_GRACE = 20


def serve(
    settings: ServiceSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certificate: Path | None = None,
    certificate_key: Path | None = None,
) -> None:
    """Serve until the process is told to stop; a certificate is for TLS, which a proxy in front may do instead."""
    if (certificate is None) is not (certificate_key is None):
        raise InvalidParameterError("TLS needs a certificate and its key; give both, or none.")
    if settings.secure_cookie is None:
        settings = replace(settings, secure_cookie=not is_loopback(host))
    app = create_app(settings)
    handler = LogHandler(JsonLog())
    for name in ("uvicorn.error", "asyncio", "fastapi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    # What stays for good need not be looked through again and again, with everybody waiting.
    gc.collect()
    gc.freeze()
    uvicorn.run(
        app,
        host=host,
        port=integer_between("port", port, 0, 65_535),
        **how_to_listen(room_for_connections()),
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if certificate_key is None else str(certificate_key),
    )


def how_to_listen(most: int) -> dict[str, Any]:
    """Return settings of uvicorn for a service with so many connections at most."""
    return {
        "http": bounded(most),
        "ws": "none",
        "h11_max_incomplete_event_size": LONGEST_HEAD,
        "backlog": 2 * most,
        # Addresses and paths as they were asked for are not written down.
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "timeout_graceful_shutdown": _GRACE,
    }


def is_loopback(host: str) -> bool:
    """Tell whether an address is for this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
