"""Rows as numbers for classifiers that need them; everything fitted here is fitted on public rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from arena.discrete import Codes, codes_of
from arena.sources import Rows
from dpensemble.datasets import fit_encoder

_BLANK = "blank"


@dataclass(frozen=True, eq=False)
class Encoded:
    """One split in the forms that rivals take: filled, one-hot and standardised, numbers only, and in codes."""

    rows: Rows

    @cached_property
    def filled(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """Private, public and test rows without blanks.

        A blank number becomes the public median, and where public rows have blanks in a column, another column says
        which they are; a blank category is a category. Numbers are clipped to the range of public rows.
        """
        public = self.rows.X_public
        fill = [_filler(public[name]) for name in public.columns]
        frames = (self.rows.X_private, public, self.rows.X_test)
        return tuple(pd.concat([f(frame) for f in fill], axis=1) for frame in frames)

    @cached_property
    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Private, public and test rows, one-hot and standardised."""
        encoder = fit_encoder(self.filled[1])
        return tuple(encoder.transform(frame) for frame in self.filled)

    @cached_property
    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The standardised number columns, or everything one-hot where a table has none."""
        kept = [name for name in self.filled[1].columns if self.filled[1][name].dtype == float]
        if not kept:
            return self.matrices
        encoder = fit_encoder(self.filled[1][kept])
        return tuple(encoder.transform(frame[kept]) for frame in self.filled)

    @cached_property
    def codes(self) -> Codes:
        """Private and test rows as small whole numbers."""
        return codes_of(*self.filled)


def _filler(public: pd.Series):
    if public.dtype != float:
        return lambda frame: frame[[public.name]].fillna(_BLANK).astype(str).astype(object)
    low, middle, high = (public.min(), public.median(), public.max()) if public.notna().any() else (0.0, 0.0, 0.0)
    has_blanks = bool(public.isna().any())

    def fill(frame: pd.DataFrame) -> pd.DataFrame:
        column = frame[public.name]
        found = {public.name: column.fillna(middle).clip(low, high)}
        if has_blanks:
            found[f"{public.name} is blank"] = column.isna().map({True: "yes", False: "no"}).astype(object)
        return pd.DataFrame(found)

    return fill
