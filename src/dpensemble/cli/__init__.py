"""The command ``dpensemble``: parse, call, print."""

from dpensemble.cli.app import main

__all__ = ["main"]
