"""The golden cases on other processors: NumPy without AVX-512, and OpenBLAS with other kernels."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CASES = "fit-4] or fit-26] or fit-35] or fit-41] or fit-107] or plan-31] or price- or confident-gnmax"
# Newer names of NumPy first.
NAMES = ("X86_V4", "AVX512_SKX")


def enabled():
    features = np._core._multiarray_umath.__cpu_features__
    return [name for name in NAMES if features.get(name)][:1]


def run(code, **more):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", **more}
    return subprocess.run([sys.executable, *code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kernels", [None, "Haswell", "SkylakeX", "Zen", "Prescott"])
def test_the_account_is_the_same_on_another_processor(kernels):
    names = enabled()
    if not names:
        pytest.skip("the processor, or NumPy's settings, lack AVX-512")
    more = {"NPY_DISABLE_CPU_FEATURES": " ".join(names)} | ({"OPENBLAS_CORETYPE": kernels} if kernels else {})
    ask = f"import numpy as np; print([np._core._multiarray_umath.__cpu_features__[n] for n in {names!r}])"
    assert run(["-c", ask], **more).stdout.strip() == str([False] * len(names))
    here = Path(__file__).parent
    ended = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(here / "test_golden.py"),
                 str(here / "test_released_sums.py"), "-k", CASES], **more)  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:]
