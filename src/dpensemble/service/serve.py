"""Run the service until it is stopped."""

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

# Seconds that requests may take to end when the service is stopped.
_GRACE = 20


def serve(
    settings: ServiceSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certificate: Path | None = None,
    certificate_key: Path | None = None,
) -> None:
    """Serve until the process is stopped. A certificate is for TLS, which a proxy in front may handle instead."""
    if (certificate is None) is not (certificate_key is None):
        raise InvalidParameterError("TLS requires a certificate and its key: give both, or neither.")
    if settings.secure_cookie is None:
        settings = replace(settings, secure_cookie=not is_loopback(host))
    app = create_app(settings)
    handler = LogHandler(JsonLog())
    for name in ("uvicorn.error", "asyncio", "fastapi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    # Permanent objects need not be scanned again and again while all requests wait.
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
    """Return settings of uvicorn for a service with at most this many connections."""
    return {
        "http": bounded(most),
        "ws": "none",
        "h11_max_incomplete_event_size": LONGEST_HEAD,
        "backlog": 2 * most,
        # Requested addresses and paths are not logged.
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "timeout_graceful_shutdown": _GRACE,
    }


def is_loopback(host: str) -> bool:
    """Return whether an address is only for this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
