"""The cost of a noisy maximum over three or more classes, of which only the label is released."""

from dpensemble.accounting.worst_case.two_gaps.dominating import two_gap_pairs

__all__ = ["two_gap_pairs"]
