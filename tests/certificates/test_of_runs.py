"""Certificates of what was released: of noisy sums in every run, of votes where asked for."""

import json

import numpy as np
import pytest

from dpensemble import LabelMomentsClassifier, PATEClassifier, PrivateMajorityClassifier
from dpensemble.certificates import certificate_of_fit, confirmed
from dpensemble.cli import main
from dpensemble.errors import AccountingError

RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(400, 3)), RNG.normal(size=(250, 3))
Y = (X[:, 0] > 0).astype(int)
SHARED = {"classes": [0, 1], "delta": 1e-4, "insecure_release_seed": 0, "random_state": 0}
ARITHMETIC = "NOT FOR RELEASE: the noise came from a seed, with which it can be removed. The arithmetic holds: "


def told(tmp_path, certificate):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate))
    return confirmed(path)


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")
def test_sums_of_a_run_are_confirmed(tmp_path, relation):
    model = LabelMomentsClassifier(**SHARED, relation=relation).fit(X, Y, X_public=PUBLIC)
    found = certificate_of_fit(model)
    assert len(found["parts"][0]["body"]["rounds"]) == model.spend_[-1][0]
    assert told(tmp_path, found)[1].startswith(ARITHMETIC)
    # One sum more than was charged for.
    rounds = found["parts"][0]["body"]["rounds"]
    rounds.append(rounds[0])
    assert told(tmp_path, found)[1].startswith("no: ")


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_seeded_run_is_not_confirmed_as_a_release(tmp_path):
    settings = SHARED | {"rounds": 1}
    certificate = certificate_of_fit(LabelMomentsClassifier(**settings).fit(X, Y, X_public=PUBLIC))
    yes, said = told(tmp_path, certificate)
    assert certificate["for_release"] is False
    assert not yes
    assert said.startswith(ARITHMETIC)
    assert "(epsilon 1, delta 0.0001) confirmed: 1 round of Gaussian sums" in said
    secure = LabelMomentsClassifier(**settings | {"insecure_release_seed": None}).fit(X, Y, X_public=PUBLIC)
    assert certificate_of_fit(secure)["for_release"] is True


@pytest.mark.usefixtures("few_synthetic_rows")
def test_groups_with_budgets_of_their_own_have_a_part_each(tmp_path):
    model = LabelMomentsClassifier(**SHARED)
    model.fit(X, Y, X_public=PUBLIC, personal_epsilons=np.where(np.arange(400) % 2, 1.0, 0.5))
    found = certificate_of_fit(model)
    assert sorted(float(part["epsilon"]) for part in found["parts"]) == [0.5, 1.0]
    assert told(tmp_path, found)[1].startswith(ARITHMETIC)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_votes_of_a_run_are_confirmed(tmp_path):
    model = PATEClassifier(**SHARED, n_teachers=20, max_labels=5, law="lnmax").fit(X, Y, X_public=PUBLIC)
    assert told(tmp_path, certificate_of_fit(model))[1].startswith(ARITHMETIC)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_what_cannot_be_certified_is_refused_in_a_sentence():
    model = PrivateMajorityClassifier(**SHARED).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(AccountingError, match="certificates need exact accounting"):
        certificate_of_fit(model)


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize(("method", "written"), [("saa", True), ("private-majority", False)])
def test_train_writes_one_where_it_can(tmp_path, monkeypatch, capsys, method, written):
    monkeypatch.chdir(tmp_path)
    for name, rows in (("private", np.column_stack([X, Y])), ("public", PUBLIC)):
        head = ",".join(["a", "b", "c", "y"][: rows.shape[1]])
        np.savetxt(f"{name}.csv", rows, delimiter=",", header=head, comments="")
    line = f"train {method} --private private.csv --public public.csv --target y --classes 0,1 --delta 1e-4 --out run"
    assert main([*line.split(), "--certificate", *(["--teachers", "20"] if method == "saa" else [])]) == 0
    assert (tmp_path / "run" / "certificate.json").exists() is written
    assert ("no certificate was written" in capsys.readouterr().err) is not written
