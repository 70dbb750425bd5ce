"""Answers from votes that you bring: ballots, counts or log-probabilities, without teachers of this library."""

from dpensemble.aggregation.aggregator import Aggregator, Answer, DrawnRecords, Quote

__all__ = ["Aggregator", "Answer", "DrawnRecords", "Quote"]
