"""The page of one run (for sharing, or with secret statistics for the owner), its model card and its registry entry."""

from dpensemble.report.record import RunRecord

__all__ = ["RunRecord"]
