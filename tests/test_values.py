"""Budget, cost, guarantee, votes, noise: the small values that everything else is built of."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble import Budget, Guarantee, PrivacyCost
from dpensemble._random import SeededNoise, Stream, public_entropy, seed_integer
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.errors import AccountingError, BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import budget_of_run
from dpensemble.relations import Relation
from dpensemble.votes import Votes

BAD_REALS = [0, -1, float("nan"), float("inf"), "1", None, True]


@pytest.mark.parametrize("value", BAD_REALS)
def test_epsilon_must_be_finite_and_positive(value):
    with pytest.raises(InvalidParameterError, match="epsilon="):
        Budget(epsilon=value, delta=1e-5)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, float("nan"), None])
def test_delta_must_be_inside_the_unit_interval(value):
    with pytest.raises(InvalidParameterError, match="delta="):
        Budget(epsilon=1, delta=value)


def test_delta_of_one_over_n_is_refused_with_a_number_that_works():
    with pytest.raises(BudgetError, match=r"delta=0.01 is not below 1/N = 0.01 for N=100 .* such as 0.001"):
        Budget(epsilon=1, delta=0.01).check_delta_for(100)
    Budget(epsilon=1, delta=0.001).check_delta_for(100)


@given(st.integers(1, 10**12))
def test_the_usual_delta_is_a_fifth_over_n_rounded_down_to_one_digit(n_units):
    found = Budget.of(1, n_units=n_units).delta
    digits = f"{found:e}".split("e")
    # One digit as it is printed, never above the quotient, and the next digit would be.
    assert f"{found:g}" == str(found)
    assert float(digits[0]) == int(float(digits[0]))
    assert Fraction(str(found)) <= min(Fraction(1, 100_000), Fraction(1, 5 * n_units))
    assert found <= 0.2 / n_units
    assert found < 1e-5 or n_units <= 20_000
    step = Fraction(10) ** int(digits[1])
    assert found == 1e-5 or Fraction(str(found)) + step > Fraction(1, 5 * n_units)


@pytest.mark.parametrize(
    ("n_units", "text"),
    [
        (None, "1e-05"),
        *((n, "1e-05") for n in (1, 2, 3, 7, 9_999, 16_281, 20_000)),
        *((n, "9e-06") for n in (20_001, 22_222)),
        (22_223, "8e-06"),
        (100_000, "2e-06"),
        (100_001, "1e-06"),
        (200_000, "1e-06"),
        (200_001, "9e-07"),
        (10**12, "2e-13"),
    ],
)
def test_the_usual_delta_in_numbers(n_units, text):
    assert str(Budget.of(1, n_units=n_units).delta) == text
    Budget.of(1, n_units=n_units).check_delta_for(n_units or 1)


@given(st.integers(2, 10**7))
def test_where_the_number_is_private_a_chosen_delta_does_not_depend_on_it(n_units):
    both = [budget_of_run(1.0, None, Relation.ADD_OR_REMOVE_ONE, n) for n in (n_units, n_units - 1)]
    assert both[0] == both[1] == (Budget(epsilon=1, delta=1e-5), "1e-05, because the number of records is private")
    both = [
        budget_of_run(1.0, None, Relation.ADD_OR_REMOVE_ONE, n, 10**5, has_units=True) for n in (n_units, n_units - 1)
    ]
    assert both[0] == both[1]
    assert both[0][0].delta == 2e-6
    assert both[0][1].endswith("rounded down to one digit, where n = 100,000 is the declared lower bound on units")


def test_where_a_blank_unit_changes_the_number_a_chosen_delta_does_not_depend_on_it():
    def found(n):
        return budget_of_run(1.0, None, Relation.REPLACE_ONE, n, has_units=True, zeroes_bad=True)

    assert found(50_000) == found(49_999)
    assert found(50_000)[0].delta == 1e-5
    with pytest.raises(BudgetError, match=r"no delta was given, and it is 1e-05, because .* is not below 1/N"):
        found(100_000)


@given(st.floats(1e-12, 1e-3), st.integers(1, 900))
def test_a_given_delta_is_never_changed(delta, n_units):
    for relation in Relation:
        assert budget_of_run(1.0, delta, relation, n_units) == (Budget(epsilon=1, delta=delta), "given")


def test_a_guarantee_states_the_rule_that_gave_delta():
    stated = Guarantee(**GUARANTEE, delta_rule="given")
    assert "\nDelta: given." in str(stated)
    assert Guarantee.from_dict(stated.to_dict()) == stated
    assert "Delta:" not in str(Guarantee(**GUARANTEE))


GUARANTEE = {
    "epsilon": 1,
    "delta": 1e-5,
    "basis": "worst-case",
    "relation": "replace-one",
    "unit": "record",
    "accounting": "moments",
}


def curve(level):
    return PrivacyCost(rdp=level * DEFAULT_ORDERS)


@given(st.integers(0, 40), st.floats(1e-6, 1))
def test_a_count_equals_a_list(count, level):
    listed = PrivacyCost.zero()
    for _ in range(count):
        listed = listed + curve(level)
    assert np.allclose((curve(level) * count).rdp, listed.rdp, rtol=1e-12)
    assert np.allclose((count * curve(level)).rdp, listed.rdp, rtol=1e-12)


@given(st.floats(1e-6, 10), st.floats(1e-12, 0.9), st.floats(1.0, 3.0))
def test_epsilon_rises_with_cost_and_falls_with_delta(level, delta, factor):
    assert curve(level).epsilon(delta) <= curve(level * factor).epsilon(delta)
    assert curve(level).epsilon(delta) >= curve(level).epsilon(min(0.99, delta * factor))
    # At a large delta a small cost needs no epsilon at all, which the published conversion never gives.
    assert 0 <= curve(level).epsilon(delta) <= curve(level).epsilon(delta, "classical Renyi conversion")
    assert curve(level).epsilon(delta, "classical Renyi conversion") > 0


def test_nothing_costs_nothing():
    assert PrivacyCost.zero().epsilon(1e-9) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e-9])
def test_a_cost_that_is_not_a_cost_is_refused(bad):
    rdp = DEFAULT_ORDERS.copy()
    rdp[3] = bad
    with pytest.raises(AccountingError):
        PrivacyCost(rdp=rdp)
    with pytest.raises(AccountingError):
        PrivacyCost(rdp=np.ones(2), orders=np.array([1.0, 2.0]))
    with pytest.raises(AccountingError):
        PrivacyCost(rdp=np.ones(2), orders=np.array([np.nan, 2.0]))


@pytest.mark.parametrize("count", [-1, 1.5, float("nan"), True])
def test_a_count_that_is_not_a_count_is_refused(count):
    with pytest.raises(InvalidParameterError, match="count="):
        curve(1.0) * count


def test_costs_over_other_orders_do_not_add():
    with pytest.raises(AccountingError):
        curve(1.0) + PrivacyCost(rdp=np.ones(1), orders=np.array([2.0]))


def test_a_cost_cannot_be_edited():
    with pytest.raises(ValueError, match="read-only"):
        curve(1.0).rdp[0] = 0


GUARANTEE = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "basis": "worst-case",
    "relation": "replace-one",
    "unit": "record",
    "accounting": "moments",
    "assumptions": ("Votes stay secret.",),
}


def test_a_guarantee_reads_as_english_and_survives_json():
    import json

    guarantee = Guarantee(**GUARANTEE)
    text = str(guarantee)
    assert "Replacing any one record by any other" in text
    assert "every possible private data set" in text
    assert "Votes stay secret." in text
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_a_guarantee_of_epsilon_zero_is_about_delta_alone():
    text = str(Guarantee(**GUARANTEE | {"epsilon": 0, "delta": 0.005}))
    assert "epsilon = 0 and delta = 0.005." in text
    assert "changes the probability of every published result by at most 0.005." in text
    with pytest.raises(InvalidParameterError, match=r"epsilon=-0\.1 is not a number from 0"):
        Guarantee(**GUARANTEE | {"epsilon": -0.1})


def test_a_guarantee_warns_where_delta_permits_publishing_records():
    known = GUARANTEE | {"n_units": 60_000, "unit": "unit"}
    assert "WARNING" not in str(Guarantee(**known))
    for delta, share in (
        (1 / 60_000, "about 1 of"),
        (0.005, "about 300 of"),
        (0.00501, "about 300 of"),
        (0.00502, "about 301 of"),
    ):
        guarantee = Guarantee(**known | {"delta": delta})
        assert f"a program that publishes {share} the 60,000 units in full, chosen at random:" in str(guarantee)
        assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
    assert "WARNING" not in str(Guarantee(**GUARANTEE | {"delta": 0.5}))
    with pytest.raises(InvalidParameterError, match="n_units=0"):
        Guarantee(**known | {"n_units": 0})


def test_a_guarantee_stored_before_numbers_of_units_were_is_read():
    fields = Guarantee(**GUARANTEE).to_dict()
    del fields["n_units"]
    assert Guarantee.from_dict(fields) == Guarantee(**GUARANTEE)


def test_a_guarantee_warns_of_data_dependence_and_of_seeded_noise():
    text = str(
        Guarantee(
            **GUARANTEE
            | {
                "basis": "data-dependent",
                "relation": "add-or-remove-one",
                "for_release": False,
                "fixed_number": False,
            }
        )
    )
    assert "publish neither" in text
    assert "Adding or removing any one record" in text
    assert "NOT FOR RELEASE" in text


@pytest.mark.parametrize("change", [{"epsilon": float("nan")}, {"delta": 0}, {"basis": "guess"}, {"relation": "swap"}])
def test_a_guarantee_of_nonsense_is_refused(change):
    with pytest.raises(InvalidParameterError):
        Guarantee(**GUARANTEE | change)


@given(st.integers(2, 300), st.integers(0, 12), st.integers(1, 9), st.integers(0, 999))
def test_counts_are_counts(n_classes, n_queries, n_teachers, seed):
    ballots = np.random.default_rng(seed).integers(0, n_classes, (n_queries, n_teachers))
    votes = Votes(ballots, n_classes)
    assert votes.counts.shape == (n_queries, n_classes)
    assert np.array_equal(votes.counts, [np.bincount(row, minlength=n_classes) for row in ballots]) or n_queries == 0
    assert votes.ballots.dtype == (np.uint8 if n_classes <= 256 else np.uint16)
    assert votes.ballots.T.flags.c_contiguous


@pytest.mark.parametrize("ballots", [[[0, 2]], [[-1, 0]], [0, 1], [[0.0, 1.0]]])
def test_ballots_must_be_declared_classes(ballots):
    with pytest.raises(DataError, match="ballots must"):
        Votes(np.array(ballots), 2)


def test_votes_do_not_print_themselves():
    assert repr(Votes(np.array([[1, 0, 1]]), 2)) == "Votes(n_queries=1, n_teachers=3, n_classes=2)"


def test_streams_and_indices_give_distinct_seeds():
    seeds = {seed_integer(5, stream, index) for stream in Stream for index in range(50)}
    assert len(seeds) == len(Stream) * 50


def test_entropy_comes_from_integers_states_and_the_system():
    assert public_entropy(7) == 7
    assert public_entropy(np.random.RandomState(3)) == public_entropy(np.random.RandomState(3))
    assert public_entropy(None) != public_entropy(None)
    with pytest.raises(InvalidParameterError, match="random_state="):
        public_entropy("seed")


def test_seeded_noise_says_so():
    assert SeededNoise(1).for_release is False
    assert np.array_equal(SeededNoise(1).uniform_bits(9), SeededNoise(1).uniform_bits(9))
