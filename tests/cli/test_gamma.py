import json
import xml.etree.ElementTree as ET

import pytest

from dpensemble.cli import main
from dpensemble.darrm import AlikeTeachers, optimise_gamma
from dpensemble.darrm.allowance import check_gamma

SETTING = ["gamma", "--teachers", "11", "--epsilon", "0.1", "--m", "3"]


def printed(capsys, *arguments):
    assert main([*SETTING, *arguments]) == 0
    return capsys.readouterr().out


def test_json_is_what_the_library_finds_and_is_private(capsys):
    found = json.loads(printed(capsys, "--Delta", "1e-5", "--delta", "3e-5", "--json"))
    expected = optimise_gamma(11, epsilon=0.1, m=3, Delta=1e-5, delta=3e-5)
    assert found["gamma"] == list(expected.gamma)
    assert (found["Delta"], found["delta"]) == (1e-5, 3e-5)
    assert set(found["errors"]) == {"optimised", "Sub", "constant"}
    assert sum(corner["teachers"] for corner in found["certificate"]["corners"]) == 11
    assert check_gamma(found["gamma"], epsilon=0.1, m=3, Delta=1e-5, delta=3e-5).private


def test_a_certificate_is_written_and_confirmed(capsys, tmp_path):
    path = tmp_path / "certificate.json"
    assert "dpensemble verify" in printed(capsys, "--certificate", str(path))
    assert main(["verify", str(path)]) == 0
    assert "a majority of 11 private teachers" in capsys.readouterr().out
    assert main([*SETTING, "--certificate", str(tmp_path / "absent" / "file.json")]) == 2


def test_the_text_compares_with_the_baselines_and_shows_the_certificate(capsys):
    shown = printed(capsys)
    for word in ("optimised", "DSub", "Sub", "constant", "(0.3, 0)-private", "78 placements"):
        assert word in " ".join(shown.split())


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("0.8", 0.8),
        ("0.5-1", AlikeTeachers(0.5, 1.0)),
        ("1e-3", 0.001),
        (" 1E-3 - 2.5e-1 ", AlikeTeachers(0.001, 0.25)),
        ("1e-1:0.5,9e-1:5e-1", AlikeTeachers(probabilities=(0.1, 0.9), weights=(0.5, 0.5))),
        ("0.2:0.5,0.9:0.5", AlikeTeachers(probabilities=(0.2, 0.9), weights=(0.5, 0.5))),
        ("alike", AlikeTeachers()),
    ],
)
def test_priors_are_read_as_meant(capsys, text, prior):
    found = json.loads(printed(capsys, "--prior", text, "--json", "--constraints", "all"))
    expected = optimise_gamma(11, epsilon=0.1, m=3, prior=prior, constraints="all")
    assert found["error"] == expected.error


def test_the_plot_shows_every_law_twice(capsys, tmp_path):
    file = tmp_path / "gamma.svg"
    printed(capsys, "--plot", str(file))
    text = file.read_text()
    ET.fromstring(text)  # noqa: S314
    for name in ("optimised", "DSub", "Sub", "constant"):
        assert text.count(f">{name}</text>") == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--m", "12"], "m=12.0 is not a number above 0 and up to n_teachers=11"),
        (["--Delta", "1"], "Delta=1.0"),
        (["--prior", "some"], "or a number; got 'some'"),
        (["--prior", "0.2:0.5,0.9:0.4"], "must sum to 1; got 0.9"),
        (["--prior", "0.5"], "prior makes both classes equally likely"),
        (["--teachers", "101", "--Delta", "1e-5", "--constraints", "all"], "27,883,218,168 constraints"),
        (["--plot", "gamma.png"], ".svg"),
        (["--m", "nan"], "m=nan"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(capsys, arguments, words):
    assert main([*SETTING, *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert words in " ".join(found.err.split())
