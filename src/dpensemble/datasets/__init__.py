"""Example data, their splits, and functions that read and encode tables."""

from dpensemble.datasets.adult import load_adult
from dpensemble.datasets.cifar10 import load_cifar10
from dpensemble.datasets.csv_files import CSVFormat
from dpensemble.datasets.encoding import fit_encoder
from dpensemble.datasets.images import ImageDataset, load_digit_images, load_fashion_mnist, load_mnist
from dpensemble.datasets.parquet import ParquetBlocks
from dpensemble.datasets.preparation import TableEncoder, TablePreparation
from dpensemble.datasets.splits import three_way_split
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
    "load_cifar10",
    "load_digit_images",
    "load_fashion_mnist",
    "load_mnist",
    "read_table",
    "same_columns",
    "three_way_split",
]
