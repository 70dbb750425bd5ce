"""Example data, their splits, and functions that read and encode tables."""

from typing import TYPE_CHECKING

from dpensemble.datasets.arrow import ParquetBlocks
from dpensemble.datasets.csv import CSVFormat
from dpensemble.datasets.preparation import TableEncoder, TablePreparation, fit_encoder
from dpensemble.datasets.published import (
    ImageDataset,
    load_adult,
    load_digit_images,
    load_fashion_mnist,
    load_mnist,
    three_way_split,
)
from dpensemble.datasets.tables import as_table, read_table, same_columns

__all__ = [
    "CSVFormat",
    "ImageDataset",
    "ParquetBlocks",
    "TableEncoder",
    "TablePreparation",
    "as_table",
    "fit_encoder",
    "load_adult",
    "load_digit_images",
    "load_fashion_mnist",
    "load_mnist",
    "read_table",
    "same_columns",
    "three_way_split",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "load_cifar10":
            # Not an AttributeError: Python would replace its text in `from dpensemble.datasets import load_cifar10`.
            raise ImportError(
                "load_cifar10 is no longer in dpensemble: the repository holds it in reproductions/cifar10.py, so run "
                "your program from the repository's root with 'from reproductions.cifar10 import load_cifar10'."
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
