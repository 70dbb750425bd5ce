"""The cost of a noisy maximum over three or more classes that releases the label only."""

from dpensemble.accounting.worst_case.two_gaps.dominating import two_gap_pairs

__all__ = ["two_gap_pairs"]
