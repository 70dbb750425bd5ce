import math

import pytest

from dpensemble.accounting import GaussianSum
from dpensemble.errors import InvalidParameterError


def test_a_law_says_its_noise():
    law = GaussianSum(4)
    assert law.sigma == 4.0
    assert isinstance(law.sigma, float)
    assert law.settings() == {"law": repr(law), "sigma": 4.0}
    assert "4 sensitivities" in law.words()
    assert law == GaussianSum(sigma=4.0)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, "4", None, True])
def test_noise_that_is_none_is_refused(sigma):
    with pytest.raises(InvalidParameterError, match="sigma"):
        GaussianSum(sigma)
