"""Which two data sets count as neighbours."""

from enum import StrEnum


class Relation(StrEnum):
    """Neighbouring relation that a guarantee speaks about.

    Attributes
    ----------
    REPLACE_ONE
        The data sets have equally many units and differ in one of them.
    ADD_OR_REMOVE_ONE
        One data set is the other with one unit added.
    """

    REPLACE_ONE = "replace-one"
    ADD_OR_REMOVE_ONE = "add-or-remove-one"


class Basis(StrEnum):
    """What a guarantee holds for.

    Attributes
    ----------
    WORST_CASE
        Every possible private data set; the numbers may be published.
    DATA_DEPENDENT
        The private data set at hand only; computed from its votes, so neither
        the amount spent nor the number of answers is itself private.
    """

    WORST_CASE = "worst-case"
    DATA_DEPENDENT = "data-dependent"
