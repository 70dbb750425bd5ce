"""Methods, laws and options as they are chosen, parsed, shown and refused."""

import json
import subprocess
import sys

import pytest
import typer

from dpensemble.cli import main
from dpensemble.cli.app import add_command_of_method, choose_method, methods_of
from dpensemble.cli.app import run as run_app
from dpensemble.cli.options import LAWS, METHODS, described_method, options_of
from dpensemble.errors import InvalidParameterError

QUICK = [
    ["--version"],
    ["--help"],
    ["train", "--help"],
    ["train", "gnmax", "--help"],
    ["train", "--epsilonn", "1"],
    ["train", "saa", "--models", "3"],
    ["train", "magic"],
    ["plan", "--method", "weighting-pate", "--help"],
    ["compare", "--help"],
    ["gamma", "--mm", "1"],
]


@pytest.fixture
def asked():
    """Return what a command line asks for."""

    def asked(command, *arguments):
        found = []
        choice = choose_method(command, arguments)
        app = typer.Typer()
        app.callback()(lambda: None)
        add_command_of_method(app, command, choice, found.append)
        app(args=[command, choice.method, *choice.rest], standalone_mode=False)
        return found[0]

    return asked


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_quick_answers_import_nothing_heavy(arguments):
    code = (
        "import sys; from dpensemble.cli import main; main(sys.argv[1:]); "
        "print([m for m in ('sklearn', 'pandas', 'scipy', 'numpy', 'joblib') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "method", "law"),
    [
        ([], "auto", None),
        (["--seed", "1", "--student", "naive-bayes"], "auto", None),
        # Options that only votes have ask for the method that they were the default of.
        (["--teachers", "3"], "saa", "lnmax"),
        (["--law", "gnmax"], "saa", "gnmax"),
        (["dpbag"], "dpbag", None),
        (["--teachers", "3", "--method", "weighting-pate"], "weighting-pate", "gnmax"),
        (["--method=gnmax", "--teachers", "3"], "pate", "gnmax"),
        (["lnmax"], "pate", "lnmax"),
        (["pate", "--law", "optimal"], "pate", "optimal"),
        (["bagged-pate", "--law=lnmax"], "bagged-pate", "lnmax"),
        (["--method", "optimal", "--partitions", "1"], "pate", "optimal"),
        (["--method", "saa", "--method", "pate"], "pate", "gnmax"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_method_is_named_as_a_word_as_an_option_or_by_its_law(arguments, method, law):
    choice = choose_method("train", arguments)
    if law is not None or method == "pate":
        assert choice.law == law
    assert choice.method == method
    assert not any(part.startswith(("--method", "--law")) for part in choice.rest)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--method=pate", "--teachers", "3", "--law=lnmax", "--seed", "1"],
        ["--method", "pate", "--teachers", "3", "--law", "lnmax", "--seed", "1"],
        ["pate", "--law=lnmax", "--teachers", "3", "--seed", "1"],
    ],
    ids=" ".join,
)
def test_arguments_beside_the_method_and_the_law_are_left_as_they_are(arguments):
    assert choose_method("train", arguments).rest == ("--teachers", "3", "--seed", "1")


def test_several_partitions_of_the_optimal_vote_are_bagging():
    assert choose_method("train", ["optimal", "--partitions", "3"]).method == "dpbag"
    assert choose_method("train", ["--partitions=3", "--method", "optimal"]).method == "dpbag"


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("train", ["magic"], "method='magic' is unknown: use a method (auto, bagged-pate, discriminant, dpbag, "),
        ("train", ["--method", "magic"], ", weighting-pate) or a law ("),
        ("train", ["bagged-pate", "--law", "confident-gnmax"], "law of bagged-pate must be one of gnmax, lnmax, "),
        ("train", ["saa", "--method", "pate"], "name only one"),
        ("train", ["gnmax", "--law", "lnmax"], "--law lnmax contradicts the method 'gnmax'"),
        ("train", ["pate", "--law", "magic"], "law of pate must be one of "),
        ("train", ["bagging"], "BaggingPrivacyClassifier in Python"),
        ("plan", ["private-majority"], "has no plan"),
    ],
)
def test_a_wrong_method_is_refused_in_one_sentence(command, arguments, message):
    with pytest.raises(InvalidParameterError) as caught:
        choose_method(command, arguments)
    assert message in str(caught.value)


def test_values_are_sorted_by_where_they_go(asked):
    request = asked("train", "gnmax", "--teachers", "40", "--sigma", "8", "--seed", "0", "--out", "here")
    assert (request.method, request.law) == ("pate", "gnmax")
    assert request.law_fields == {"sigma": 8.0}
    assert request.settings == {"n_teachers": 40, "random_state": 0, "n_jobs": -1}
    assert (str(request.own["out"]), request.own["json"], request.own["private"]) == ("here", False, None)
    request = asked("train", "--relation", "add-or-remove-one", "--out", "here", "--jobs", "1", "--json")
    assert request.settings == {"relation": "add-or-remove-one", "n_jobs": 1}
    assert type(request.settings["relation"]) is str
    assert request.own["json"] is True
    request = asked("plan", "--epsilon", "2", "--labels", "9")
    assert (request.settings, request.own["labels"], request.own["classes"]) == ({"epsilon": 2.0}, 9, 2)


def _sample(option):
    """Return the words that give an option a value."""
    if option.kind is bool:
        return [option.flag]
    return [option.flag, option.choices[0] if option.choices else {int: "3", float: "0.5"}.get(option.kind, "x")]


@pytest.mark.parametrize("command", ["train", "plan"])
@pytest.mark.parametrize("method", METHODS)
def test_every_option_that_help_names_is_parsed(asked, capsys, command, method):
    if method not in methods_of(command):
        return
    for law in described_method(method).laws or (None,):
        by_law = [] if law is None else ["--law", law]
        assert main([command, method, *by_law, "--help"]) == 0
        shown = capsys.readouterr().out
        options = [one for one in options_of(command, method, law) if one.flag not in ("--method", "--law")]
        assert all(one.flag in shown for one in options)
        given = asked(command, method, *by_law, *(word for one in options for word in _sample(one)))
        for option in options:
            assert option.name in getattr(given, option.goes_to), option.flag


@pytest.mark.parametrize("method", methods_of("plan"))
def test_every_method_that_help_names_can_be_planned(capsys, method):
    flags = {one.flag for one in options_of("plan", method, None)}
    given = ["--epsilon", "8"] if "--epsilon" in flags else []
    given += ["--budgets", "8:50%,16:50%"] if "--budgets" in flags else []
    given += ["--records", "500"] if "--records" in flags else []
    given += ["--subsample", "5"] if method == "bagging" else []
    given += ["--teachers", "20"] if "--teachers" in flags else []
    assert main(["plan", method, *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_bagging_plan_has_models_and_records(asked):
    request = asked("plan", "--method", "bagging", "--records", "100", "--subsample", "3", "--models", "2")
    assert set(request.settings.values()) == {3, 2}
    assert request.own["records"] == 100


@pytest.mark.parametrize("command", ["train", "plan"])
@pytest.mark.parametrize("method", METHODS)
def test_help_is_one_screen(capsys, command, method):
    if method not in methods_of(command):
        pytest.skip("not of this command")
    for law in described_method(method).laws or [None]:
        arguments = [command, method, *([] if law is None else ["--law", law]), "--help"]
        assert run_app(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 65
        assert max(map(len, lines)) <= 80
        assert lines[0].startswith(f"Usage: dpensemble {command} {method}")


@pytest.mark.parametrize("command", ["train", "plan"])
def test_help_without_a_method_lists_them(capsys, command):
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in methods_of(command))
    assert f"dpensemble {command} METHOD --help" in " ".join(shown.split())
    assert all(law in shown for law in LAWS)
    usual = {
        "train": "Method that is selected from public information",
        "plan": "Subsample-and-aggregate with Laplace noisy-max",
    }
    assert f"{usual[command]} (default)" in " ".join(shown.split())
    assert all("..." not in line for line in shown.split("Commands:")[1].splitlines())


def test_help_tells_what_to_give(capsys):
    def shown(*arguments):
        assert main([*arguments, "--help"]) == 0
        return " ".join(capsys.readouterr().out.split())

    train = shown("train", "interactive-gnmax")
    assert "--sigma FLOAT Deviation of answers' noise, in votes; else found" in train
    assert "--threshold-sigma FLOAT Deviation of the noise on the check, in votes" in train
    assert "--student-confidence FLOAT Least probability to keep a student's label [0.9]" in train
    assert "--insecure-release-seed INT Seed the noise: repeatable, NOT FOR RELEASE" in train
    assert "--out FOLDER" in train
    assert "left out" not in shown("plan", "gnmax").split("--sigma")[1]
    bagged = shown("train", "bagged-pate", "--law", "lnmax")
    assert "gnmax (default), lnmax, optimal, randomized- response --scale FLOAT" in bagged
    assert "--public-rows INT" in shown("compare")
    assert "--m FLOAT" in shown("gamma")
    assert shown("report").startswith("Usage: dpensemble report [OPTIONS] RUN Show")
    for command in ("train", "plan", "compare", "gamma", "report", "predict"):
        assert "Options: -h, --help Show this page." in shown(command)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "gnmax", "--reach", "3"], "No such option: --reach; it belongs to the "),
        (["train", "saa", "--partitions", "3"], "No such option: --partitions; it belongs to the method dpbag."),
        (["train", "--epsilonn", "3"], "No such option: --epsilonn; did you mean '--epsilon'?"),
        (["train", "--qqqq", "3"], "No such option: --qqqq: see --help."),
        (["train", "--aggregator", "lnmax"], "No such option: --aggregator: see --help."),
        (["train", "saa", "--sigma", "3"], "No such option: --sigma; it belongs to the laws "),
        (["train", "pate", "--budgets", "x"], "it belongs to the methods upsampling-pate, vanishing-pate, weighting"),
        (["train", "gnmax", "--subsample", "3"], "No such option: --subsample; it belongs to the method bagged-pate."),
        (["train", "--sharing", "everyone"], "it belongs to the method private-majority."),
        (["plan", "--accounting", "best"], "Invalid value for '--accounting': 'best' is not one of 'exact'"),
        (["train", "bagging", "--law", "gnmax"], "publishes models"),
        (["plan", "bagging", "--law", "gnmax"], "No such option: --law; it belongs to the methods "),
        (
            ["plan", "weighting-pate", "--epsilon", "1"],
            "No such option: --epsilon; it belongs to the methods ",
        ),
        (["train", "pate", "--law"], "Option '--law' requires an argument"),
        (["train", "--method"], "Option '--method' requires an argument"),
        (["train", "--relation", "none"], "'--relation'"),
        (["train", "--out", "x", "gnmax"], "unexpected extra argument"),
        (["plan", "--teachers", "0"], "--teachers: n_teachers=0 is not an integer from 1"),
        (["plan", "--epsilon", "nan"], "dpensemble: epsilon=nan is not a number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_do_not_belong_are_refused_by_the_parser(capsys, arguments, message):
    assert main(arguments) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert message in errors
    assert errors.count("\n") == 1


def test_no_arguments_at_all_show_the_commands(capsys):
    assert main([]) == 2
    out, errors = capsys.readouterr()
    assert out.startswith("Usage: dpensemble")
    assert errors == ""


def test_what_a_user_wrote_is_never_rewritten(capsys, tmp_path):
    for name in ("private", "public"):
        (tmp_path / name).with_suffix(".csv").write_text("a,b\n1,2\n")
    files = ["--private", str(tmp_path / "private.csv"), "--public", str(tmp_path / "public.csv")]
    given = [*files, "--classes", "0,1", "--out", str(tmp_path / "o")]
    assert main(["train", *given, "--target", "scheme=x"]) == 2
    errors = capsys.readouterr().err
    assert "target='scheme=x' is not a column" in errors
    assert "--scheme" not in errors


def test_an_interrupt_while_importing_ends_quietly(capsys, monkeypatch):
    def interrupted(app):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpensemble.cli._run_of", interrupted)
    assert main(["--version"]) == 130
    assert capsys.readouterr().err == "dpensemble: interrupted; nothing was written.\n"


def test_the_help_of_compare_names_the_data_there_is(capsys):
    from dpensemble.workflow.comparison_data import ComparedDataset

    assert main(["compare", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split()).replace("fashion- mnist", "fashion-mnist")
    assert all(dataset.value in shown for dataset in ComparedDataset)
