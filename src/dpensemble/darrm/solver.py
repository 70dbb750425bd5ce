"""The linear program over gamma, solved again whenever privacy constraints are added."""

from __future__ import annotations

import highspy
import numpy as np
from numpy.typing import NDArray

# The tightest that HiGHS accepts, then what it always reaches.
_TOLERANCES = (1e-10, 1e-10, 1e-9, 1e-8, 1e-7)


class _SilentHighs(highspy.Highs):
    """A solver that is silent before its callbacks are enabled, which prints a banner since HiGHS 1.16."""

    def enableCallbacks(self) -> None:  # noqa: N802
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


class GammaProgram:
    """Maximise ``lead @ gamma`` over gamma in [0, 1], non-decreasing if `rising`, with ``row @ gamma <= 1``.

    Rows are added when they are violated. Each solve starts from the last basis.
    """

    def __init__(self, lead: NDArray[np.float64], *, rising: bool) -> None:
        self._rising, self._size = rising, len(lead)
        self._solver = _SilentHighs()  # type: ignore[no-untyped-call]
        self._solver.silent()
        self._solver.setOptionValue("threads", 1)
        self._columns = np.arange(self._size, dtype=np.int32)
        for _ in self._columns:
            self._solver.addVar(0.0, 1.0)
        # Scaled to 1, so that the tolerances mean the same for every prior.
        self._scale = float(lead.max())
        self._solver.changeColsCost(self._size, self._columns, self._in_variables(lead / self._scale))
        self._solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
        if rising:
            self._add(np.ones(self._size))

    def add(self, row: NDArray[np.float64]) -> None:
        """Require ``row @ gamma <= 1`` from now on."""
        self._add(self._in_variables(row))

    def solve(self) -> tuple[NDArray[np.float64], float] | None:
        """Return the best gamma under the rows so far and its objective, or None if the solver fails."""
        if not any(self._solve_within(tolerance) for tolerance in _TOLERANCES):
            return None
        values = np.maximum(np.array(self._solver.getSolution().col_value), 0)
        gamma = np.minimum(np.cumsum(values) if self._rising else values, 1)
        return gamma, self._scale * float(self._solver.getInfo().objective_function_value)

    def _solve_within(self, tolerance: float) -> bool:
        """Return whether the solver succeeds. A second run often succeeds after a failure."""
        for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            self._solver.setOptionValue(option, tolerance)
        self._solver.run()
        return bool(self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def _in_variables(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        # An increment raises its own entry and all later ones.
        return np.cumsum(row[::-1])[::-1] if self._rising else row

    def _add(self, row: NDArray[np.float64]) -> None:
        self._solver.addRow(-highspy.kHighsInf, 1.0, self._size, self._columns, row)
