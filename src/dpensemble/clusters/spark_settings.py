"""What Spark must encrypt before private rows are summed there, by the settings with which Spark started."""

from __future__ import annotations

import uuid
from contextlib import suppress

from dpensemble._arrays import Rows
from dpensemble.clusters.vetting import is_here
from dpensemble.errors import InvalidParameterError

# What must be on, so that no private row crosses a network or reaches a disk in the clear.
_OF_DISKS = "spark.io.encryption.enabled"
_ENCRYPTION = ("spark.authenticate", "spark.network.crypto.enabled", _OF_DISKS)
_MASTER = "spark.master"


def require_encryption(session: Rows, *, has_units: bool) -> None:
    """Raise if private rows, or what identifies units, could cross a network or reach a disk in the clear."""
    settings = _settings(session)
    master = settings[_MASTER]
    names: tuple[str, ...] = _ENCRYPTION
    if master == "local" or master.startswith("local["):
        # Spark writes tasks of more than a megabyte to a file, and tasks hold hashes of units and their key.
        names = (_OF_DISKS,) if has_units else ()
    for name in names:
        if settings[name].lower() != "true":
            raise InvalidParameterError(
                f"{name} must be true, or private rows or units could be read on a network or a disk: set it where "
                "Spark starts, and start Spark again.",
                parameter="frame",
            )


def _settings(session: Rows) -> dict[str, str]:
    """Return the settings with which Spark started. Those of a session may be changed later, without any effect."""
    try:
        settings = session.sparkContext.getConf()
    except AttributeError:
        return _settings_of_server(session)
    return _named(settings)


def _named(settings: Rows) -> dict[str, str]:
    return {name: str(settings.get(name, "")) for name in (_MASTER, *_ENCRYPTION)}


def _settings_of_server(session: Rows) -> dict[str, str]:
    """Return the settings of a server of Spark Connect, which a new session has before a client changes any."""
    try:
        client = session.client
        host, builder = client.host, client._builder
        encrypted = builder.getDefault("use_ssl", "").lower() == "true"
    except Exception:
        raise InvalidParameterError(
            "frame must be of a session of Spark that shows its address and whether its channel is encrypted: open "
            "the session by SparkSession.builder.remote('sc://HOST:15002/;use_ssl=true').",
            parameter="frame",
        ) from None
    if not (encrypted or is_here(f"sc://{host}")):
        raise InvalidParameterError(
            f"frame is of Spark Connect at {host!r}, and sums without noise would cross a network in the clear: open "
            "the session with sc://HOST:15002/;use_ssl=true.",
            parameter="frame",
        )
    try:
        fresh = type(session)(connection=builder)
        # An address may name a session, which can have settings of its own.
        fresh.client._session_id = str(uuid.uuid4())
        settings = _named(fresh.conf)
    except Exception as error:
        kind = type(error).__name__
    else:
        with suppress(Exception):
            fresh.client.release_session()
            fresh.client.close()
        return settings
    raise InvalidParameterError(
        f"the settings of the server of Spark Connect at {host!r} could not be read ({kind}): check that the server "
        "runs, and that its version is that of pyspark here.",
        parameter="frame",
    )
