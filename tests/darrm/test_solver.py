"""The linear program over gamma."""

import numpy as np

from dpensemble.darrm.solver import GammaProgram


def test_the_solver_prints_nothing(capfd):
    """Of HiGHS 1.16 callbacks print a banner, which would stand before the JSON of the command line."""
    program = GammaProgram(np.array([1.0, 2.0]), rising=True)
    program.add(np.array([1.0, 1.0]))
    gamma, objective = program.solve()
    np.testing.assert_allclose([*gamma, objective], [0.0, 1.0, 2.0], atol=1e-9)
    assert capfd.readouterr() == ("", "")
