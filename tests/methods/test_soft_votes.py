"""Soft votes: what is released, to whom, and what is refused."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from dpensemble import Basis, SoftVotesClassifier, load_classifier, save_classifier
from dpensemble.errors import BudgetError, DataError, InvalidParameterError, NotForReleaseWarning, TeacherError
from dpensemble.relations import Relation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=900) > 0.2).astype(int)
THREE = (X @ np.array([[2.0, 0, 0], [-1, 1.7, 0], [-1, -1.7, 0]]).T).argmax(axis=1)
PUBLIC = RNG.normal(size=(60, 3))
SETTINGS = {"classes": [0, 1], "n_teachers": 30, "epsilon": 2.0, "delta": 1e-4, "random_state": 0}
SEEDED = SETTINGS | {"insecure_release_seed": 1}


def fitted(y=Y, public=PUBLIC, fit=(), **settings):
    return SoftVotesClassifier(**SEEDED | settings).fit(X, y, X_public=public, **dict(fit))


@pytest.mark.parametrize("relation", [one.value for one in Relation])
@pytest.mark.parametrize("answers", ["probabilities", "parameters"])
def test_it_learns_and_states_its_privacy(answers, relation):
    model = fitted(answers=answers, relation=relation, n_teachers=90, insecure_release_seed=None)
    assert model.score(X, Y) > 0.85
    stated = model.guarantee_
    assert 1.999 < stated.epsilon <= 2.0
    assert (stated.delta, stated.basis, stated.relation.value) == (1e-4, Basis.WORST_CASE, relation)
    assert stated.for_release
    assert stated.unit == "record"
    assert any("teachers and their own answers stay secret" in text for text in stated.assumptions)
    assert len(model.charges_) == 1
    assert model.spend_[-1] == (1, (stated.epsilon,))
    assert len(model.labels_) == model.labels_.n_asked == 60
    assert np.array_equal(model.predict(PUBLIC)[model.labels_.indices], model.labels_.labels)
    settings = model.design_.settings()
    assert (settings["answers"], settings["n_teachers"], settings["rounds"]) == (answers, 90, 1)


def test_averages_are_soft_labels_with_the_noise_that_is_stated():
    quiet = fitted(epsilon=1e6)
    assert quiet.averages_.shape == (60, 2)
    assert quiet.averages_.sum(axis=1) == pytest.approx(1)
    assert quiet.spread_ < 1e-3
    rows, shares = PUBLIC[quiet.labels_.indices], quiet.averages_[:, 1]
    assert np.corrcoef(rows[:, 0], shares)[0, 1] > 0.8
    assert -0.01 < shares.min() < 0.3
    assert 0.7 < shares.max() < 1.01
    noisy = fitted()
    # Sixty answers of each teacher have one budget: the noise is that of sigma sensitivities of root 60.
    assert noisy.spread_ == pytest.approx(noisy.charges_[0]["sigma"] * np.sqrt(60) / 30, rel=1e-6)
    found = (noisy.averages_ - quiet.averages_)[:, 1] / noisy.spread_
    assert 0.7 < found.std() < 1.3
    few = fitted(max_labels=15)
    assert few.spread_ == pytest.approx(noisy.spread_ / 2, rel=1e-6)
    assert len(few.labels_) == 15
    half = fitted(clip=0.5)
    assert half.spread_ == pytest.approx(noisy.spread_ / 2, rel=1e-6)


def test_the_averaged_model_is_the_mean_of_the_teachers():
    quiet = fitted(answers="parameters", epsilon=1e6, clip=50.0)
    assert quiet.averages_.shape == (1, 4)
    assert quiet.student_.coef_ == pytest.approx(quiet.averages_[:, :-1])
    alone = LogisticRegression().fit(X[:30], Y[:30]).coef_
    assert quiet.student_.coef_[0, 0] == pytest.approx(alone[0, 0], rel=0.5)
    assert quiet.spread_ == pytest.approx(quiet.charges_[0]["sigma"] * 100 / 30, rel=1e-6)
    assert fitted(answers="parameters").student_.coef_.shape == (1, 3)


@pytest.mark.parametrize("answers", ["probabilities", "parameters"])
@pytest.mark.parametrize("clip", [None, 0.6])
def test_three_classes(answers, clip):
    model = fitted(THREE, classes=[0, 1, 2], answers=answers, epsilon=20.0, clip=clip)
    assert model.score(X, THREE) > 0.85
    chances = model.predict_proba(X)
    assert chances.shape == (900, 3)
    assert chances.sum(axis=1) == pytest.approx(1)
    if answers == "probabilities":
        assert model.averages_.sum(axis=1) == pytest.approx(1)


def test_shortened_answers_are_scaled_back():
    whole, short = (fitted(THREE, classes=[0, 1, 2], epsilon=1e5, clip=clip).averages_ for clip in (1.0, 0.5))
    assert short == pytest.approx(whole, abs=0.06)


def test_parameters_need_no_public_rows():
    model = fitted(public=None, answers="parameters")
    assert model.score(X, Y) > 0.8
    assert len(model.labels_) == 0
    with pytest.raises(DataError, match="X_public is missing"):
        fitted(public=None)
    with pytest.raises(DataError, match="X_public is missing"):
        fitted(public=None, answers="parameters", student=DecisionTreeClassifier())


@pytest.mark.parametrize("student", [DecisionTreeClassifier(max_depth=3), GaussianNB(), LinearSVC()])
@pytest.mark.parametrize("answers", ["probabilities", "parameters"])
def test_any_student_learns(answers, student):
    model = fitted(answers=answers, student=student, epsilon=20.0)
    assert type(model.student_) is type(student)
    assert np.mean(model.predict(X) == Y) > 0.75


@pytest.mark.parametrize("teacher", [DecisionTreeClassifier(max_depth=2), GaussianNB()])
def test_any_teacher_teaches(teacher):
    assert fitted(teacher=teacher, epsilon=5.0).score(X, Y) > 0.8


def test_units_teach_together_and_the_number_of_their_records_shows_nowhere():
    units = np.arange(900) // 3
    model = fitted(fit={"units": units})
    assert model.guarantee_.unit == "unit"
    assert any("same order" in text for text in model.guarantee_.assumptions)
    assert model.design_.allocate(units.tolist(), entropy=0)[0].votes_per_unit == 1


def test_personal_budgets_weigh_teachers():
    epsilons = np.where(np.arange(900) % 3, 2.0, 0.5)
    model = fitted(fit={"personal_epsilons": epsilons})
    groups = model.guarantee_.groups
    assert [group.budget for group in groups] == [0.5, 2.0]
    assert [group.epsilon for group in groups] == pytest.approx([0.5, 2.0], rel=1e-3)
    assert all(group.epsilon <= group.budget for group in groups)
    assert model.score(X, Y) > 0.8
    with pytest.raises(InvalidParameterError, match="replace-one"):
        fitted(relation="add-or-remove-one", fit={"personal_epsilons": epsilons})
    with pytest.raises(DataError, match="differ between records of one unit"):
        fitted(fit={"personal_epsilons": epsilons, "units": np.arange(900) // 2})


def test_seeds_repeat_everything_and_are_marked():
    first, second, other = fitted(), fitted(), fitted(insecure_release_seed=2)
    assert np.array_equal(first.averages_, second.averages_)
    assert not np.array_equal(first.averages_, other.averages_)
    assert not first.guarantee_.for_release


@pytest.mark.parametrize("answers", ["probabilities", "parameters"])
def test_students_are_saved_without_pickle(answers, tmp_path):
    model = fitted(answers=answers)
    save_classifier(model.student_, tmp_path / "student.skops")
    with pytest.warns(NotForReleaseWarning):
        student = load_classifier(tmp_path / "student.skops")
    assert np.array_equal(student.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"answers": "votes"}, InvalidParameterError, "answers='votes' is unknown"),
        ({"teacher": LinearSVC()}, InvalidParameterError, "no predict_proba"),
        ({"answers": "parameters", "teacher": GaussianNB()}, InvalidParameterError, "must have a coef_ and intercept_"),
        ({"clip": 2.0}, InvalidParameterError, "clip=2.0"),
        ({"clip": float("nan")}, InvalidParameterError, "clip=nan"),
        ({"answers": "parameters", "clip": 0}, InvalidParameterError, "clip=0"),
        ({"n_teachers": 0}, InvalidParameterError, "n_teachers=0"),
        ({"n_teachers": 901}, InvalidParameterError, "n_teachers=901"),
        ({"max_labels": 0}, InvalidParameterError, "max_labels=0"),
        ({"epsilon": float("nan")}, InvalidParameterError, "epsilon=nan"),
        ({"delta": 0.5}, BudgetError, "delta"),
        ({"classes": [0, 5]}, DataError, "not among classes"),
        ({"classes": None}, InvalidParameterError, "classes"),
        ({"relation": "both"}, InvalidParameterError, "relation='both' is unknown"),
    ],
)
def test_bad_settings_say_what_would_do(settings, error, message):
    model = SoftVotesClassifier(**SEEDED | settings)
    with pytest.raises(error, match=message):
        model.fit(X, Y, X_public=PUBLIC)
    assert not hasattr(model, "guarantee_")


def test_bad_rows_are_refused_before_anything_is_spent():
    bad = X.copy()
    bad[3, 1] = np.nan
    for rows, public in ((bad, PUBLIC), (X, np.array([[np.inf, 0, 0]])), (X, X), (X, PUBLIC[:, :2])):
        with pytest.raises(DataError):
            SoftVotesClassifier(**SEEDED).fit(rows, Y, X_public=public)


def test_a_run_of_failing_teachers_ends():
    class Fails(GaussianNB):
        def fit(self, X, y):
            raise RuntimeError("a record")

    with pytest.raises(TeacherError, match="no teacher could be fitted"):
        fitted(teacher=Fails())


def test_one_class_of_records_gives_a_student():
    for answers in ("probabilities", "parameters"):
        model = fitted(np.zeros(900, dtype=int), answers=answers)
        assert np.mean(model.predict(PUBLIC) == 0) > 0.9


def test_public_rows_that_no_student_can_learn_are_refused_before_anything_is_spent(blobs):
    X, y, _ = blobs
    with pytest.raises(DataError, match="one has size 1e\\+160"):
        SoftVotesClassifier(classes=[0, 1], n_teachers=20).fit(X, y, X_public=np.full((3, 3), 1e160))
