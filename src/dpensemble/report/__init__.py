"""One self-contained page about one run: for sharing, or with secret statistics for the owner."""

from dpensemble.report.page import render
from dpensemble.report.record import PrivateRecord, RunRecord, read_json

__all__ = ["PrivateRecord", "RunRecord", "read_json", "render"]
