import pytest

from dpensemble.cost import optimal_composition
from dpensemble.darrm.composition import general_composition
from dpensemble.errors import InvalidParameterError


@pytest.mark.parametrize(("epsilon", "delta", "times", "slack"), [(0.1, 1e-5, 35, 0.1), (0.5, 0.0, 200, 1e-6)])
def test_it_is_simple_composition_or_better_and_never_below_the_optimum(epsilon, delta, times, slack):
    total, total_delta = general_composition(epsilon, delta, times, slack)
    assert total <= times * epsilon
    assert total_delta <= times * delta + slack + 1e-15
    assert optimal_composition([(epsilon, delta)] * times, total_delta) <= total + 1e-9


def test_no_slack_means_simple_composition():
    assert general_composition(0.5, 0.0, 4, 0.0) == (2.0, 0.0)
    assert general_composition(500.0, 0.0, 2, 0.5) == (1000.0, pytest.approx(0.5))


@pytest.mark.parametrize(
    "arguments", [(0.0, 0.0, 1, 0.0), (1.0, 2.0, 1, 0.0), (1.0, 0.0, 0, 0.0), (1.0, 0.0, 1, float("nan"))]
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(InvalidParameterError):
        general_composition(*arguments)


def test_a_tiny_delta_is_not_lost_to_cancellation():
    for epsilon, delta, times, slack, least in ((0.1, 1e-17, 10, 0, 1e-16), (0.1, 1e-18, 100, 0, 1e-16)):
        assert general_composition(epsilon, delta, times, slack)[1] >= least
    assert general_composition(0.1, 0, 10_000, 1e-20)[1] >= 1e-20
    assert general_composition(0.1, 0.0, 3, 0.0) == (pytest.approx(0.3), 0.0)
    assert general_composition(0.1, 1.0, 3, 0.0)[1] == 1.0
