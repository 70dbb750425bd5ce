"""Run the service until it is stopped."""

from __future__ import annotations

import gc
import ipaddress
import logging
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from dpensemble._checks import integer_between
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.service.app import create_app
from dpensemble.service.connections import LONGEST_HEAD, bounded, room_for_connections, secured
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
    context = None if certificate is None or certificate_key is None else tls_context(certificate, certificate_key)
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
        **how_to_listen(room_for_connections(), context, settings.waits.handshake),
    )


def tls_context(certificate: Path, certificate_key: Path) -> ssl.SSLContext:
    """Return the settings of TLS with a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, certificate_key)
    # An error of TLS is an OSError too, and has a reason of its own.
    except OSError as error:
        reason = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or type(error).__name__
        raise FileError(
            f"certificate={str(certificate)!r} and certificate_key={str(certificate_key)!r} cannot be used ({reason}): "
            "give a certificate in PEM format and its private key."
        ) from None
    return context


def how_to_listen(most: int, context: ssl.SSLContext | None = None, handshake: float = 5.0) -> dict[str, Any]:
    """Return settings of uvicorn for a service with at most this many connections, with TLS or without."""
    connection = bounded(most)
    return {
        # uvicorn's own TLS counts no connection before its handshake has finished.
        "http": connection if context is None else secured(connection, context, handshake),
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
