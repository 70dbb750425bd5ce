"""skops, without the array libraries that its import would load."""

from __future__ import annotations

import sys
from types import ModuleType

# skops lists all estimators of scikit-learn. For that it imports every package of scikit-learn, with adapters of array
# libraries: PyTorch alone takes longer than predicting a file of rows.
_ADAPTERS = tuple(f"sklearn.externals.array_api_compat.{library}" for library in ("cupy", "dask", "torch"))


def skops_io() -> ModuleType:
    """Return ``skops.io``. Adapters that are not imported yet are not imported."""
    held_back = [] if "skops.io" in sys.modules else [name for name in _ADAPTERS if name not in sys.modules]
    for name in held_back:
        # Importing it fails from now on, and the search for estimators skips it.
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        from skops import io  # noqa: PLC0415
    finally:
        for name in held_back:
            # Another thread may have put the module there meanwhile.
            if sys.modules.get(name, ...) is None:
                del sys.modules[name]
    return io
