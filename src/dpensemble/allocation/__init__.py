"""Which records teach which teachers."""

from dpensemble.allocation.base import Allocation, Taught
from dpensemble.allocation.bootstrap import Bootstrap, BootstrapScheme
from dpensemble.allocation.everyone import everyone
from dpensemble.allocation.partition import keyed_partitions, partitions, slot_partitions
from dpensemble.allocation.personal import grouped_partitions, teachers_of_groups, upsampled_partition

__all__ = [
    "Allocation",
    "Bootstrap",
    "BootstrapScheme",
    "Taught",
    "everyone",
    "grouped_partitions",
    "keyed_partitions",
    "partitions",
    "slot_partitions",
    "teachers_of_groups",
    "upsampled_partition",
]
