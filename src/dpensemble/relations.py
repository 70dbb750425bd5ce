"""The neighbouring relations of data sets."""

from enum import StrEnum


class Relation(StrEnum):
    """Neighbouring relation of a guarantee.

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
    """Data sets that a guarantee covers.

    Attributes
    ----------
    WORST_CASE
        Every possible private data set. The numbers may be published.
    DATA_DEPENDENT
        Only this private data set. The guarantee is computed from its votes, so neither
        the amount spent nor the number of answers is itself protected.
    """

    WORST_CASE = "worst-case"
    DATA_DEPENDENT = "data-dependent"
