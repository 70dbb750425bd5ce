"""A session of Spark for the command line."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dpensemble._arrays import Rows
from dpensemble.clusters.vetting import is_here
from dpensemble.errors import InvalidParameterError

_CONNECT = "sc://"


@contextmanager
def spark_session(address: str | None = None) -> Iterator[Rows]:
    """Yield a session of Spark, and stop it after the block. A session that runs already is used and kept.

    Parameters
    ----------
    address : str, optional
        A master such as ``"local[4]"`` or ``"spark://HOST:7077"``, or a server of Spark Connect (``"sc://HOST"``). By
        default what ``spark-submit`` or Spark's own settings name, else this machine.

    Raises
    ------
    InvalidParameterError
        If pyspark or Java is missing, or Spark does not start. Also if an address of Spark Connect holds a token, or if
        its server is on another machine and the address does not ask for encryption.
    """
    connects = address is not None and address.startswith(_CONNECT)
    if address is not None and connects:
        _require_safe(address)
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  an optional extra
    except ImportError:
        raise InvalidParameterError(
            "cluster='spark' needs pyspark, which is not installed: install dpensemble[spark].", parameter="cluster"
        ) from None
    if not (connects or os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise InvalidParameterError(
            "cluster='spark' needs Java, which is not on this machine: install Java 17 (Debian: "
            "default-jre-headless), or set JAVA_HOME.",
            parameter="cluster",
        )
    # Workers on this machine need the environment of this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    runs_already = SparkSession.getActiveSession() is not None
    builder = SparkSession.builder.appName("dpensemble")
    if address is not None:
        builder = builder.remote(address) if connects else builder.master(address)
    if not (connects or runs_already):
        # Spark writes large tasks to files, also on this machine.
        builder = builder.config("spark.io.encryption.enabled", "true")
    try:
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except Exception as error:
        kind = type(error).__name__
    else:
        try:
            yield session
        finally:
            if not runs_already:
                session.stop()
        return
    raise InvalidParameterError(
        f"scheduler={address!r} did not start a session of Spark ({kind}): check the address, Java and Spark's logs.",
        parameter="scheduler",
    )


def _require_safe(address: str) -> None:
    """Raise if others could read a token, or sums without noise on their way from a server of Spark Connect to here."""
    settings = address.lower().split(";")
    if any(one.strip().startswith("token") for one in settings):
        raise InvalidParameterError(
            "scheduler must not hold a token, because other users can see it in the list of processes: leave it out, "
            "and set SPARK_CONNECT_AUTHENTICATE_TOKEN.",
            parameter="scheduler",
        )
    if not ("use_ssl=true" in settings or is_here(address)):
        raise InvalidParameterError(
            f"scheduler={address!r} would send sums without noise over a network in the clear: write "
            "sc://HOST:15002/;use_ssl=true.",
            parameter="scheduler",
        )
