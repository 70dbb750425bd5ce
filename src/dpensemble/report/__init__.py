"""One self-contained page about one run, for sharing or with secret statistics for its owner; its card and entry."""

from dpensemble.report.record import RunRecord

__all__ = ["RunRecord"]
