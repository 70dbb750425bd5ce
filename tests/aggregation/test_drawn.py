"""Records drawn for an answer: what is drawn is what the guarantee protects."""

import numpy as np
import pytest

from dpensemble import Aggregator, Budget
from dpensemble._random import SystemNoise
from dpensemble.aggregation.drawn import Draws
from dpensemble.errors import DataError, InvalidParameterError

PATIENTS = np.repeat(np.arange(4000), 5)


def made(**given):
    settings = {"unit": "patient", "rate": 0.05, "answers": 20} | given
    budget = Budget(epsilon=2, delta=1e-6)
    return Aggregator("lnmax", 2, 10, relation="replace-one", budget=budget, sampling="fresh", **settings)


class TestUnits:
    @pytest.mark.parametrize("units", [PATIENTS, [f"patient {one}" for one in PATIENTS]], ids=["numbers", "texts"])
    def test_all_records_of_a_unit_go_to_one_voter_or_to_nobody(self, units):
        voters = made().draw(units=units).voters
        seen = np.concatenate(voters)
        assert len(seen) == len(set(seen.tolist()))
        whom = [set(PATIENTS[positions].tolist()) for positions in voters]
        assert sum(map(len, whom)) == len(set().union(*whom))
        assert len(seen) == 5 * sum(map(len, whom))
        assert all(np.all(np.diff(positions) > 0) for positions in voters)

    def test_units_are_drawn_at_the_rate_however_many_records_they_have(self):
        sizes = np.random.default_rng(0).integers(1, 9, 20_000)
        units = np.random.default_rng(1).permutation(np.repeat(np.arange(20_000), sizes))
        drawn = {one for positions in made().draw(units=units).voters for one in units[positions].tolist()}
        # Five standard deviations: a false alarm in a million.
        assert abs(len(drawn) - 1000) < 5 * np.sqrt(1000)

    def test_a_draw_without_units_is_refused_where_units_are_protected(self):
        with pytest.raises(InvalidParameterError, match=r"unit='patient' needs units in draw\(\)") as caught:
            made().draw(1000)
        assert caught.value.parameter == "units"
        assert len(made().draw(units=range(1000)).voters) == 10

    def test_units_are_refused_where_records_are_protected(self):
        with pytest.raises(InvalidParameterError, match="this one protects records"):
            made(unit="record").draw(units=PATIENTS)

    def test_a_number_of_records_must_be_that_of_the_units(self):
        assert made().draw(3, units=["a", "b", "a"]).n_records == 3
        with pytest.raises(DataError, match="n_records=4 must match units, which has 3 entries"):
            made().draw(4, units=["a", "b", "a"])

    @pytest.mark.parametrize("missing", [None, float("nan"), np.ma.masked, 1j, 10**400])
    def test_a_record_without_a_unit_is_refused(self, missing):
        with pytest.raises(DataError, match="units"):
            made().draw(units=["a", "b", missing])

    def test_no_records_are_drawn_from_none(self):
        assert sum(map(len, made().draw(units=[]).voters)) == 0

    def test_an_answer_is_given_and_its_guarantee_names_the_unit(self):
        votes = made()
        assert votes.answer(ballots=[1] * 10, drawn=votes.draw(units=PATIENTS)).label in (0, 1)
        told = str(votes.guarantee())
        assert "drew each patient independently, with all its records" in told
        assert "records of each drawn patient were seen by one voter only" in told

    def test_the_rate_of_units_is_never_exceeded(self):
        class Edge:
            def uniform_bits(self, size):
                return np.array([2**62 - 1, 2**62], dtype=np.uint64)[:size]

        drawn = Draws(1, 0.5, Edge()).draw(4, ["a", "b", "a", "b"])
        assert drawn.voters[0].tolist() == [0, 2]


@pytest.mark.parametrize("drawn", [7, np.array([1, 2]), "drawn", [None], [object], np.ma.masked, {}], ids=repr)
def test_other_objects_than_draws_are_refused(drawn):
    with pytest.raises(DataError, match=r"drawn must be 1 results of this aggregator's draw\(\)"):
        made().answer(ballots=[1] * 10, drawn=drawn)


def test_records_by_themselves_are_drawn_as_before():
    class Scripted:
        def __init__(self):
            self.given = iter([np.array([0, 2**62, 1, 5], dtype=np.uint64), np.array([1, 0, 1], dtype=np.uint64)])

        def uniform_bits(self, size):
            found = next(self.given)
            assert len(found) == size
            return found

    assert [one.tolist() for one in Draws(2, 0.25, Scripted()).draw(4).voters] == [[2], [0, 3]]
    assert len(Draws(2, 0.25, SystemNoise()).draw(0).voters) == 2
