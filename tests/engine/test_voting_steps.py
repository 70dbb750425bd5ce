import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.accounting import Meter
from dpensemble.accounting.published import laplace_moments
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.cost import Conversion
from dpensemble.engine.voting_steps import PrivateDiagnostics, Questions, label_rows
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.relations import Basis
from dpensemble.votes import Votes

ROWS = np.arange(40.0)[:, None]


class Scripted(Meter):
    """Admits a number of queries that depends on the votes only, and logs what happens in which order."""

    basis = Basis.DATA_DEPENDENT
    accounting = "scripted"

    def __init__(self, sure, most, actual, log):
        super().__init__(Budget(epsilon=1, delta=1e-5), Conversion.BEST)
        self._sure, self._most, self._left, self._log = sure, most, actual, log

    sure_queries = property(lambda self: self._sure)
    most_queries = property(lambda self: self._most)
    cost = property(lambda self: laplace_moments(10.0, 1))
    one_query = cost
    group_epsilons = property(lambda self: (self.cost.epsilon(1e-5, self.conversion),))

    def admit(self, votes):
        admitted = min(votes.n_queries, self._left)
        self._left -= admitted
        self._log.append(("charged", admitted))
        return admitted


class LoggingNoise(SeededNoise):
    def __init__(self, log):
        super().__init__(0)
        self._log = log

    def uniform_bits(self, size):
        self._log.append(("drawn", size))
        return super().uniform_bits(size)


def run(meter, log, order=None, **settings):
    asked = []

    def vote(rows):
        asked.extend(rows[:, 0].astype(int))
        return Votes(np.repeat(rows.astype(int) % 2, 50, axis=1), 2)

    order = np.random.default_rng(0).permutation(40) if order is None else order
    found = label_rows(
        Questions(vote, ROWS, order, 50),
        VotingSchedule.everyone(LaplaceNoisyMax(0.5), 50),
        meter,
        LoggingNoise(log),
        **settings,
    )
    return (found.answered, found.labels), asked, order


@pytest.mark.parametrize(
    ("sure", "most", "actual"), [(8, 32, 19), (8, 32, 8), (1, 4, 3), (8, 32, 32), (50, 90, 60), (8, 20, 30)]
)
def test_it_answers_in_order_until_the_meter_stops(sure, most, actual):
    log = []
    (indices, outcomes), asked, order = run(Scripted(sure, most, actual, log), log)
    answered = min(actual, most, 40)
    assert indices.tolist() == order[:answered].tolist()
    assert outcomes.tolist() == (indices % 2).tolist()
    assert asked == order[: len(asked)].tolist()


def test_every_draw_was_charged_before():
    log = []
    run(Scripted(8, 32, 19, log), log)
    balance = 0
    for what, number in log:
        balance += number if what == "charged" else -number
        assert balance >= 0
    assert balance == 0


def test_a_crash_after_charging_leaves_the_charge():
    log = []
    meter = Scripted(8, 32, 19, log)

    class Broken(LoggingNoise):
        def uniform_bits(self, size):
            raise OSError("no entropy")

    with pytest.raises(OSError, match="no entropy"):
        label_rows(
            Questions(lambda rows: Votes(np.zeros((len(rows), 3), dtype=int), 2), ROWS, np.arange(40), 3),
            VotingSchedule.everyone(LaplaceNoisyMax(1.0), 3),
            meter,
            Broken(log),
        )
    assert log == [("charged", 8)]


def test_nothing_to_ask_is_no_labels():
    (indices, outcomes), asked, _ = run(Scripted(8, 32, 19, []), [], order=np.empty(0, dtype=int))
    assert len(indices) == len(outcomes) == len(asked) == 0


def test_diagnostics_count_what_was_answered():
    diagnostics = PrivateDiagnostics()
    (indices, _), _, _ = run(Scripted(8, 32, 19, []), [], diagnostics=diagnostics)
    assert len(diagnostics.margins) == len(indices) == 19
    assert diagnostics.spend[-1][0] == 19
    assert all(margin == 1 for margin in diagnostics.margins)
