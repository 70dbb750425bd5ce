"""Every kind of cell runs, on tiny data, and fills places that its tables have."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from dpensemble.datasets import load_digit_images
from reproductions import TABLES, Workplace, bagging, bagging_pretrained, figure, personalised
from reproductions.data import Rows

BY_NAME = {table.name: table for table in TABLES}


def figures(experiment, settings, place):
    found = {}
    for cell in experiment.cells(dict(experiment.settings) | settings, 0):
        found |= cell.work(place)
    assert all(np.isfinite(value) for value in found.values())
    return found


def places(*names):
    """Return the keys that tables can show."""
    return {
        figure(row, panel.title, column, beside)
        for name in names
        for table in [BY_NAME[name]]
        for row in table.rows
        for panel in table.panels
        for column in panel.columns
        for beside in ("", *table.beside)
    }


@pytest.fixture
def few_records(monkeypatch):
    def rows(data, repeat, n_public):
        rng = np.random.default_rng(repeat)
        classes = 10 if data == "mnist" else 2
        y = rng.permutation(np.arange(1200) % classes)
        X = rng.normal(size=(1200, 3)) + 2 * y[:, None]
        return Rows(X[:800], y[:800], X[800:1100], y[800:1100], X[1100:], y[1100:])

    monkeypatch.setattr(personalised, "_rows", rows)
    monkeypatch.setattr(personalised, "_learner", lambda settings: GaussianNB())


SMALL = {"teachers": 60, "law": [20, 80, 40], "votings": 1, "repeats": 1, "highs": [8], "shares": [50]}


def test_personalised_labels_of_two_classes(few_records, tmp_path):
    found = figures(BY_NAME["personalised-5"].experiment, SMALL, Workplace(tmp_path))
    assert set(found) <= places("personalised-5", "personalised-9", "personalised-figure-3") | {
        key for key in found if "Epsilon" in key
    }
    labels = found[figure("ln 8 for 50 %", "Labels", "weighting")]
    assert (
        found[figure("ln 2 for all", "Labels", "average")] < labels < found[figure("ln 8 for all", "Labels", "average")]
    )
    assert figure("ln 8 for 50 %", "Labels", "upsampling", "exact, solved") in found


def test_personalised_labels_of_ten_classes(few_records, tmp_path):
    found = figures(BY_NAME["personalised-4"].experiment, SMALL, Workplace(tmp_path))
    shown = places("personalised-3", "personalised-4", "personalised-8", "personalised-figure-2")
    assert {key for key in found if "Epsilon" not in key} <= shown
    # Better than a guess, for all the noise.
    assert found[figure("ln 8 for all", "Accuracy in %", "average")] > 15


def test_budgets_of_one_class_alone(few_records, tmp_path):
    found = figures(BY_NAME["personalised-6"].experiment, SMALL, Workplace(tmp_path))
    assert set(found) == places("personalised-6", "personalised-7", "personalised-10") & set(found)
    assert 50 < found[figure("ln 2 for all", "Voting accuracy in %", "upsampling")] <= 100


def test_costs_grow_with_sensitivities(few_records, tmp_path):
    settings = SMALL | {"ratios": [2, 4], "classes": 10}
    found = figures(BY_NAME["personalised-figure-4"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= places("personalised-figure-4")
    for kind in ("upsampling", "weighting"):
        two, four = (found[figure(personalised.ratio_row(c), "Ratio of the groups' epsilons", kind)] for c in (2, 4))
        assert 1 < two < four


@pytest.fixture
def few_images(monkeypatch):
    pytest.importorskip("torch")
    from dpensemble.neural import digit_cnn

    monkeypatch.setattr(bagging, "load_mnist", load_digit_images)
    monkeypatch.setattr(bagging, "load_fashion_mnist", load_digit_images)
    monkeypatch.setattr(bagging, "bagging_cnn", digit_cnn)
    monkeypatch.setattr(bagging, "SAME_DISTRIBUTION", 100)


def test_models_of_draws(few_images, tmp_path):
    settings = {"sizes": [500], "epochs": 3, "rival_repeats": 0, "moments": False, "repeats": 1}
    found = figures(BY_NAME["bagging-2"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= {key.replace("k=300", "k=500") for key in places("bagging-2")}
    assert found[figure("k=500", "Accuracy in %", "Bagging")] > 20
    assert found[figure("k=500", "Epsilon", "value", "exact")] == 0


def test_models_of_colour_pictures(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    from dpensemble.neural import digit_cnn

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 80)
    X = np.clip(25 * y[:, None] + rng.integers(0, 9, (80, 3072)), 0, 255).astype(np.uint8)
    tiny = replace(
        load_digit_images(), X_train=X[:60], y_train=y[:60], X_test=X[60:], y_test=y[60:], image_shape=(3, 32, 32)
    )
    monkeypatch.setattr(bagging, "load_cifar10", lambda: tiny)
    monkeypatch.setattr(bagging, "bagging_vgg16", digit_cnn)
    settings = {"sizes": [64], "epochs": 1, "rival_repeats": 0, "repeats": 1}
    found = figures(BY_NAME["bagging-3"].experiment, settings, Workplace(tmp_path))
    assert figure("k=64", "Accuracy in %", "Bagging") in found
    assert found[figure("k=64", "Delta", "value", "exact")] > 0.5


@pytest.mark.parametrize(("asked", "runs"), [(None, [3, 1, 0]), (1, [1, 1, 0])])
def test_slow_rows_have_fewer_runs(asked, runs):
    experiment = BY_NAME["bagging-3"].experiment
    names = [cell.name for cell in experiment.cells(experiment.chosen(quick=False, repeats=asked), 0)]
    assert [sum(name.startswith(f"k{k}-") for name in names) for k in (1000, 5000, 10_000)] == runs


def test_models_that_begin_from_public_images(few_images, tmp_path):
    settings = {"sizes": [500], "epochs": 2, "start_epochs": 1, "pate_epochs": 0, "repeats": 1}
    found = figures(BY_NAME["bagging-4"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= places("bagging-4")


def test_a_student_of_pate_learns_from_the_answers_of_its_row(few_images, monkeypatch, tmp_path):
    learned = []

    class Learner:
        def score(self, X, y):
            return 0.5

    def student(network, X, y, repeat):
        learned.append((len(y), network.epochs))
        return Learner()

    monkeypatch.setattr(bagging, "fit_student", student)
    monkeypatch.setattr(bagging, "plan", lambda design, **budget: SimpleNamespace(labels=20))
    settings = {"sizes": [50, 60], "answers": [5, 30], "epochs": 1, "start_epochs": 1, "repeats": 1}
    settings |= {"pate_epochs": 1, "pate_student_epochs": 7, "pate_teachers": 3, "pate_law": [1, 150, 40]}
    found = figures(BY_NAME["bagging-4"].experiment, settings, Workplace(tmp_path))
    # What epsilon 1 allows, and then each row's number.
    assert learned == [(20, 7), (5, 7), (30, 7)]
    assert found[figure("k=50", "Accuracy in %", "PATE", "exact")] == 50.0


def test_last_layers_learn_from_what_a_public_network_sees(monkeypatch, tmp_path):
    digits = load_digit_images()
    seen = []

    def squared(data, pictures):
        seen.append(len(pictures))
        return data.scaled(pictures) ** 2

    monkeypatch.setattr(bagging_pretrained, "load_cifar10", load_digit_images)
    monkeypatch.setattr(bagging_pretrained, "_seen", squared)
    monkeypatch.setattr(bagging_pretrained, "SAME_DISTRIBUTION", 100)
    monkeypatch.setattr(bagging, "plan", lambda design, **budget: SimpleNamespace(labels=30))
    settings = {"pictures": 1000, "tests": 300, "sizes": [300, 600], "answers": [10, 20], "repeats": 1}
    settings |= {"pate_teachers": 20, "pate_law": [10, 5, 2]}
    found = figures(BY_NAME["bagging-5"].experiment, settings, Workplace(tmp_path))
    # Pictures are looked at once for all cells.
    assert seen == [1000, min(300, len(digits.X_test))]
    assert found[figure("k=600", "Accuracy in %", "Bagging")] > 70
    assert found[figure("k=600", "Accuracy in %", "PATE")] > 20
    assert found[figure(bagging.MOMENTS, "Accuracy in %", "Bagging")] > 25


def test_several_models_of_one_budget(few_images, tmp_path):
    settings = {"draws": [500], "models": [1, 5], "epochs": 1, "start_epochs": 1, "repeats": 1}
    found = figures(BY_NAME["bagging-figure-1"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= places("bagging-figure-1", "bagging-figure-2") | {
        figure(bagging.drawn_row(500, bagging.WITHOUT), "Accuracy in %", "N=5")
    }
    assert len(found) == 4
