"""Algebra of a covariance that is a diagonal plus products of rows, at the size of the smaller side.

A table with a thousand columns has thousands of features, and often fewer public rows. The covariance of its features
then is ``E + X' X``, with a diagonal ``E`` of noise and few rows ``X``. By the identity of Woodbury (M. Woodbury,
"Inverting modified matrices", 1950) its inverse is ``inv(E) - inv(E) X' inv(1 + X inv(E) X') X inv(E)``. The matrix in
the middle has a side for each row and not for each feature, so that no matrix of features by features is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from dpensemble._entries import Floats


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance ``diag(diagonal) + rows.T @ rows``, whose inverse is used, and never made.

    Parameters
    ----------
    diagonal : ndarray of shape (n_features,)
        Variances above 0.
    rows : ndarray of shape (n_rows, n_features)
        Rows whose products are added.
    root : ndarray of shape (n, n)
        Cholesky root: of the covariance if features are fewer than rows, otherwise of ``1 + X inv(E) X'``.

    Examples
    --------
    >>> few = Covariance.of(np.ones(3), np.array([[1.0, 2.0, 0.0]]))
    >>> few.root.shape, few.lengths(np.eye(3)).round(3).tolist()
    ((1, 1), [0.833, 0.333, 1.0])
    """

    diagonal: Floats
    rows: Floats
    root: Floats

    @classmethod
    def of(cls, diagonal: Floats, rows: Floats) -> Covariance:
        """Return the covariance with the root of the smaller side."""
        wide = rows.shape[0] < rows.shape[1]
        products = (rows / diagonal) @ rows.T if wide else rows.T @ rows
        products[np.diag_indices_from(products)] += 1.0 if wide else diagonal
        return cls(diagonal, rows, linalg.cholesky(products, lower=True, overwrite_a=True, check_finite=False))

    @property
    def _wide(self) -> bool:
        return self.rows.shape[0] < self.rows.shape[1]

    def lengths(self, vectors: Floats) -> Floats:
        """Return ``v . inv(covariance) v`` for each row of `vectors`, shape (n_vectors,)."""
        if not self._wide:
            return _squares(linalg.solve_triangular(self.root, vectors.T, lower=True, check_finite=False))
        scaled = vectors / self.diagonal
        along = linalg.solve_triangular(self.root, self.rows @ scaled.T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->i", vectors, scaled) - _squares(along))

    def inverse_trace(self) -> float:
        """Return the trace of the inverse."""
        if not self._wide:
            inverse, _ = linalg.lapack.dtrtri(self.root, lower=True)
            return float(np.sum(inverse**2))
        along = linalg.solve_triangular(self.root, self.rows / self.diagonal, lower=True, check_finite=False)
        return float(np.sum(1 / self.diagonal) - np.sum(along**2))


def _squares(columns: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", columns, columns))
