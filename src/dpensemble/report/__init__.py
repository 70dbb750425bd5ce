"""One self-contained page about one run, for sharing or with secret statistics for its owner; its card and entry."""

from dpensemble.report.card import card_as_markdown, model_card
from dpensemble.report.page import render
from dpensemble.report.record import PrivateRecord, RunRecord, read_json
from dpensemble.report.registry import FILL_IN, as_yaml, registry_entry

__all__ = [
    "FILL_IN",
    "PrivateRecord",
    "RunRecord",
    "as_yaml",
    "card_as_markdown",
    "model_card",
    "read_json",
    "registry_entry",
    "render",
]
