"""Algebra at the size of the smaller side against the whole matrix."""

import numpy as np
import pytest

from dpensemble.moments.many_features import Covariance


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (4, 4), (0, 5)])
def test_a_covariance_is_inverted_at_the_size_of_its_smaller_side(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    rows, diagonal, vectors = rng.normal(size=shape), rng.uniform(0.1, 2, shape[1]), rng.normal(size=(6, shape[1]))
    inverse = np.linalg.inv(np.diag(diagonal) + rows.T @ rows)
    covariance = Covariance.of(diagonal, rows)
    assert len(covariance.root) == min(shape)
    assert covariance.lengths(vectors) == pytest.approx(np.einsum("ij,jk,ik->i", vectors, inverse, vectors))
    assert covariance.inverse_trace() == pytest.approx(np.trace(inverse))
