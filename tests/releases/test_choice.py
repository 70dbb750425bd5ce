"""Which release a law stands for, and the same interface for all of them."""

import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.accounting import GaussianSum
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws import (
    ExponentialVote,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    LawChoice,
    SparseNoisyMax,
)
from dpensemble.relations import Relation
from dpensemble.releases import (
    RELEASES,
    LabelByLaw,
    LabelBySoftVotes,
    NamedVotes,
    NoisyMean,
    SparseLabel,
    Voters,
    release_of,
)

VOTERS = Voters(10, 3, 1, Relation.REPLACE_ONE, None)
GIVEN = {
    "label by law": (GaussianNoisyMax(9.0), None, LabelByLaw),
    "label by soft votes": (ExponentialVote(9.0), 10.0, LabelBySoftVotes),
    "sparse label": (SparseNoisyMax(6.0, 40.0), None, SparseLabel),
    "noisy mean": (GaussianSum(5.0), None, NoisyMean),
}


@pytest.mark.parametrize("name", GIVEN)
def test_every_release_has_a_cost_a_description_and_a_draw(name):
    law, clip, kind = GIVEN[name]
    release = release_of(law, 10, 3, clip=clip)
    assert type(release) is kind
    release.check(VOTERS)
    assert (release.name, release.description, release.settings()) == (law.name, law.words(), law.settings())
    assert release.clip == clip
    assert "exact" in release.analysis(VOTERS)
    quieter, one = release.with_noise(10.0), release.cost(VOTERS)
    assert quieter.settings() != release.settings()
    # Converting the cost of a sparse label takes ten seconds, which tests/accounting/test_price.py does.
    if kind is not SparseLabel:
        assert quieter.cost(VOTERS).epsilon(1e-2) < one.epsilon(1e-2)
    votes = [NamedVotes(np.array([0, 2]), np.array([7, 3]))]
    if release.takes == ("log_probs",):
        votes = release.whole(np.log(np.full((1, 10, 3), 1 / 3))).sum(axis=1)
    else:
        with pytest.raises(DataError, match="takes ballots or counts"):
            release.whole(np.zeros((1, 10, 3)))
    outcomes = release.draw(votes, VOTERS, SeededNoise(0))
    assert len(outcomes.numbers) == 1
    assert outcomes.numbers[0] in {-1, 0, 1, 2}
    assert (outcomes.means is not None) is (kind is NoisyMean)


def test_names_and_classes_of_laws_have_their_usual_noise():
    assert release_of("gnmax", 10, 3) == LabelByLaw(LawChoice.of("gnmax").law(10, 3))
    assert release_of(LaplaceNoisyMax, 10, 3) == LabelByLaw(LawChoice.of("lnmax").law(10, 3))
    assert set(RELEASES) == {SparseNoisyMax, GaussianSum}


@pytest.mark.parametrize("kind", ["sparse label", "noisy mean"])
def test_releases_that_need_one_fixed_ballot_say_so(kind):
    law = GIVEN[kind][0]
    for voters in (Voters(10, 3, 2, Relation.REPLACE_ONE, None), Voters(10, 3, 1, Relation.REPLACE_ONE, 0.1)):
        with pytest.raises(InvalidParameterError, match="one ballot a unit"):
            release_of(law, 10, 3).check(voters)


def test_what_is_no_law_or_does_not_go_together_is_refused():
    with pytest.raises(InvalidParameterError, match="law=3 is unknown"):
        release_of(3, 10, 3)
    with pytest.raises(InvalidParameterError, match="exponential mechanism"):
        release_of(SparseNoisyMax(6.0, 40.0), 10, 3, clip=5.0)
    with pytest.raises(InvalidParameterError, match="requires a student"):
        release_of(InteractiveNoisyMax(9.0, 9.0, 9.0), 10, 3).check(VOTERS)

    class Cheaper(ExponentialVote):
        """Answers otherwise than its parent, so that the parent's cost does not hold."""

    with pytest.raises(InvalidParameterError, match="exponential mechanism"):
        release_of(Cheaper(9.0), 10, 3, clip=5.0)
