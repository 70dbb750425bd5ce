"""``plan --certificate`` and ``verify``."""

import json

import pytest

from dpensemble.cli import main

# Planned in a moment.
SMALL = "plan --method saa --teachers 60 --scale 10"


@pytest.fixture
def certificate(tmp_path, capsys):
    path = tmp_path / "certificate.json"
    planned = ["plan", "--method", "saa", "--teachers", "20", "--scale", "10", "--certificate", str(path)]
    assert main(planned) == 0
    assert f"dpensemble verify {path}" in capsys.readouterr().out
    # An earlier one is replaced.
    assert main([*planned, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 8
    return path


def test_a_plan_is_confirmed(certificate, capsys):
    assert main(["verify", str(certificate)]) == 0
    assert capsys.readouterr().out.startswith("yes: (epsilon 1, delta 1e-05) confirmed: 8 answers")
    assert main(["verify", str(certificate), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["confirmed"], found["arithmetic"], found["for_release"]) == (True, True, None)


def test_an_experiment_ends_with_exit_code_1(certificate, capsys):
    """The arithmetic of a run with seeded noise is confirmed, and the run is still no release."""
    text = certificate.read_text()
    for stated, code in ((False, 1), (True, 0)):
        certificate.write_text(text.replace("{", f'{{"for_release":{json.dumps(stated)},', 1))
        assert main(["verify", str(certificate)]) == code
        assert ("NOT FOR RELEASE" in capsys.readouterr().out) is not stated
        assert main(["verify", str(certificate), "--json"]) == code
        found = json.loads(capsys.readouterr().out)
        assert (found["confirmed"], found["arithmetic"], found["for_release"]) == (stated, True, stated)


def test_a_folder_stands_for_the_certificate_in_it(certificate, tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("yes: ")
    certificate.rename(tmp_path / "run.json")
    assert main(["verify", str(tmp_path)]) == 2
    assert "contains no certificate.json: train with label moments" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "run.json")]) == 2
    assert "is the record of a run: give its folder" in capsys.readouterr().err


def test_another_claim_is_not(certificate, capsys):
    certificate.write_text(certificate.read_text().replace('"1e-05"', '"1e-06"'))
    assert main(["verify", str(certificate)]) == 1
    assert capsys.readouterr().out.startswith("no: so many answers are shown to be private at delta ")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["verify", "missing.json"], "must be the folder of a run, or a certificate"),
        (["verify", __file__], "is not a certificate"),
        (["plan", "--certificate", "no/such/folder/c.json"], "certificate='no"),
        (["plan", "--accounting", "published", "--certificate", "c.json"], "accounting='exact'"),
        ([*SMALL.split(), "--classes", "9", "--certificate", "c.json"], "too many counts"),
    ],
)
def test_bad_input_ends_with_exit_code_2(tmp_path, monkeypatch, capsys, arguments, match):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert match in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
