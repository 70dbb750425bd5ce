"""Which records teach which teachers."""

from dpensemble.allocation.base import Allocation
from dpensemble.allocation.partition import keyed_partitions, partitions, slot_partitions

__all__ = ["Allocation", "keyed_partitions", "partitions", "slot_partitions"]
