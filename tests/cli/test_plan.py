"""``dpensemble plan`` as people and programs use it, for bagging and for teachers that draw their records, too."""

import json
from xml.etree import ElementTree

import pytest

from dpensemble.accounting import published_bagging
from dpensemble.allocation import BootstrapScheme
from dpensemble.cli import main

PUBLISHED = [
    (50, 25, "1e-3", (10, 84, 210)),
    (100, 50, "1e-3", (42, 337, 842)),
    (250, 125, "1e-3", (263, 2107, 5268)),
    (250, 125, "1e-5", (162, 1354, 3512)),
]
KEYS = {
    *("method", "basis", "labels", "epsilon", "epsilon_spent", "delta", "law_name", "scale", "accounting"),
    *("conversion", "labels_in_paper_convention", "n_teachers", "n_partitions", "n_classes"),
}


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["plan", *(str(a) for a in arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def plan(run):
    def plan(*arguments):
        code, out, errors = run(*arguments, "--json")
        assert (code, errors) == (0, "")
        return json.loads(out)

    return plan


@pytest.mark.parametrize(("n", "scale", "delta", "labels"), PUBLISHED)
def test_published_counts(plan, n, scale, delta, labels):
    for epsilon, expected in zip((1, 3, 5), labels, strict=True):
        asked = ("--method", "saa", "--teachers", n, "--scale", scale, "--epsilon", epsilon, "--delta", delta)
        found = plan(*asked, "--accounting", "published")
        assert found["labels"] == expected
        assert found["labels_in_paper_convention"] == expected + 1
        assert found["basis"] == "worst-case"


def test_the_default_is_exact(plan):
    found = plan("--teachers", 50, "--delta", "1e-3")
    assert set(found) >= KEYS
    assert (found["accounting"], found["epsilon"], found["scale"]) == ("exact", 1, 25)
    assert found["conversion"] == "exact adaptive composition"
    assert 85 < found["labels"] < 100
    assert found["labels_in_paper_convention"] is None
    rates = [row["wrong_label_rate"] for row in found["quality"]]
    assert rates == sorted(rates, reverse=True)


def test_two_give_the_third_and_the_smallest_ensemble(plan):
    asked = ("--method", "gnmax", "--accounting", "published", "--labels", 100)
    assert plan(*asked)["sigma"] == 40
    found = plan(*asked, "--epsilon", 1, "--label-accuracy", 0.9)
    assert found["labels"] == 100
    assert found["sigma"] == pytest.approx(69.3, abs=0.1)
    smallest = found["smallest_ensemble"]
    assert smallest["n_teachers"] == 210
    assert 0.9 <= smallest["label_accuracy"] < 0.91
    assert plan(*asked[:4], "--sigma", found["sigma"])["labels"] >= 100


def test_for_people_and_for_dpbag(run):
    asked = ("--method", "dpbag", "--teachers", 250, "--partitions", 20)
    code, out, errors = run(*asked, "--accounting", "published")
    assert (code, errors) == (0, "")
    assert "162 labels" in out
    assert "20 partitions" in out
    assert "as the paper counts" in out
    assert "13.53%" in out
    code, out, _ = run("--teachers", 30, "--delta", "1e-3", "--label-accuracy", 0.8)
    assert code == 0
    assert "Smallest ensemble" in out
    assert "exact adaptive composition" in out
    code, out, _ = run("--method", "confident-gnmax", "--accounting", "published", "--classes", 3)
    assert code == 0
    assert "if every query is answered" in out
    assert "query answered" in out
    assert "one other class" in out


def test_the_optimal_vote_is_planned_like_the_others(plan, run, tmp_path):
    asked = ("--method", "optimal", "--teachers", 40, "--labels", 20, "--delta", "1e-4")
    found = plan(*asked, "--epsilon", 2)
    assert found["labels"] == 20
    assert 1.98 < found["epsilon_spent"] <= 2
    settled = ("--reach", found["reach"])
    assert plan(*asked, *settled)["shape"] == 0.25
    code, out, errors = run(*asked, *settled, "--plot", tmp_path / "plan.svg")
    assert (code, errors) == (0, "")
    assert "optimal vote, reach " in out
    assert "published" not in out + (tmp_path / "plan.svg").read_text()
    code, _, errors = run(*asked, "--accounting", "published")
    assert code == 2
    assert "which no paper covers" in errors
    code, _, errors = run("--method", "optimal", "--classes", 9)
    assert code == 2
    assert "law='gnmax'" in errors


@pytest.mark.parametrize("method", ["saa", "confident-gnmax"])
def test_the_plot_is_an_svg_of_two_charts(run, tmp_path, method):
    path = tmp_path / "plan.svg"
    code, out, errors = run("--method", method, "--teachers", 50, "--delta", "1e-3", "--plot", path)
    assert (code, errors) == (0, "")
    assert str(path) in out.replace("\n", "")
    root = ElementTree.parse(path).getroot()  # noqa: S314
    names = {"svg": "http://www.w3.org/2000/svg"}
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("svg:svg", names)) == 2
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"exact", "published", "budget 1", "label wrong"} <= set(texts)
    assert ("not answered" in texts) == (method != "saa")
    assert "nan" not in path.read_text()


def test_a_threshold_above_the_number_of_teachers_is_one_line(run):
    asked = ("--method", "confident-gnmax", "--accounting", "published", "--threshold", 300)
    for flags in ((), ("--json",)):
        code, out, errors = run(*asked, *flags)
        assert code == 0
        assert out
        assert errors.startswith("dpensemble: threshold=300 is above the number of teachers, 250")
        assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # Older parsers use their own words.
        (["--epsilon", "x"], "'x' is not a"),
        (["--labels", "1.5"], "'1.5' is not a"),
        (
            ["optimal", "--classes", "9"],
            "law='optimal' cannot be accounted for with n_classes=9 and 250 teachers: use law='gnmax', two classes or "
            "fewer teachers.",
        ),
        (["--accounting", "exact!"], "--accounting"),
        (["--method", "magic"], "method='magic' is unknown"),
        (["--epsilon", "1e-9"], "the smallest epsilon that would do is"),
        (["--epsilon", "nan"], "epsilon=nan"),
        (["--delta", "0"], "delta=0.0 is not a number strictly between 0 and 1"),
        (["--partitions", "3"], "--partitions; it belongs to the method dpbag"),
        (["--teachers", "0"], "--teachers: n_teachers=0 is not an integer from 1"),
        (["--classes", "1"], "classes=1"),
        (["--labels", "0"], "labels=0"),
        (["--scale", "0"], "scale=0.0"),
        (["--sigma", "3"], "--sigma; it belongs to the laws"),
        (["--threshold", "3"], "--threshold; it belongs to the laws"),
        (["--labels", "3", "--epsilon", "1", "--scale", "2"], "cannot all be given"),
        (["--labels", "2000000000", "--epsilon", "0.01", "--accounting", "published"], "any noise up to"),
        (["--agreement", "0.5"], "agreement=0.5"),
        (["--label-accuracy", "1"], "label_accuracy=1"),
        (["--plot", "plan.png"], "must be a file that ends in .svg; got"),
        (["--plot", "/nowhere/plan.svg"], "plot='/nowhere/plan.svg' must be a file in an existing folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(run, arguments, message):
    code, out, errors = run(*arguments)
    assert (code, out) == (2, "")
    assert errors.startswith("dpensemble: ")
    assert errors.count("\n") == 1
    assert message in errors


@pytest.mark.parametrize(
    ("arguments", "how"),
    [([], "usual"), (["--sigma", 40], "given"), (["--epsilon", 1, "--labels", 20], "found")],
)
def test_a_plan_names_its_law_and_how_the_noise_was_chosen(run, arguments, how):
    shown = " ".join(run("gnmax", *arguments)[1].replace("│", " ").split())
    assert "method pate with gnmax, 2 classes" in shown
    assert f" votes ({how})" in shown


BAGGING = ("--method", "bagging", "--records", 60_000)


@pytest.fixture
def run_bagging(capsys):
    def run_bagging(*arguments, command="plan"):
        code = main([command, *(str(a) for a in arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_bagging


@pytest.fixture
def plan_bagging(run_bagging):
    def plan_bagging(*arguments):
        code, out, errors = run_bagging(*BAGGING, *arguments, "--json")
        assert (code, errors) == (0, "")
        return json.loads(out)

    return plan_bagging


def test_what_a_subsample_promises(plan_bagging):
    found = plan_bagging("--subsample", 300)
    epsilon, delta = published_bagging(BootstrapScheme("with-replacement", 1, 300), 60_000)
    warning = found.pop("warning")
    assert found == {
        "method": "bagging",
        "basis": "worst-case",
        "epsilon": 0.0,
        "delta": delta,
        "published": {"epsilon": epsilon, "delta": delta},
        "records": 60_000,
        "subsample": 300,
        "models": 1,
        "scheme": "with-replacement",
    }
    assert warning.startswith("WARNING: delta is not below 1 / 60,000")
    assert "about 299 of the 60,000 records" in warning


def test_models_and_schemes(plan_bagging):
    distinct = plan_bagging("--subsample", 100, "--models", 3, "--scheme", "distinct")
    assert (distinct["delta"], distinct["published"]["delta"], distinct["models"]) == (0.005, 0.005, 3)
    subsets = plan_bagging("--subsample", 100, "--models", 3, "--scheme", "subsets")
    assert subsets["published"] is None
    assert 0.00499 < subsets["delta"] < 0.005


def test_the_largest_subsample_within_a_delta(plan_bagging):
    assert plan_bagging("--delta", 0.005)["subsample"] == 300
    found = plan_bagging("--delta", 0.01, "--models", 4, "--scheme", "distinct")
    assert (found["subsample"], found["delta"]) == (150, 0.01)


def test_for_people(run_bagging):
    code, out, errors = run_bagging(*BAGGING, "--subsample", 300)
    assert (code, errors) == (0, "")
    assert "Delta 0.004988 at epsilon 0: about 299 of 60,000 records may be exposed" in out
    assert "epsilon 0.005 and delta 0.004988" in out
    assert "300 of 60,000 records" in out
    assert "Delta by size of the subsamples" in out
    assert "WARNING: delta is not below 1 / 60,000" in out
    code, out, _ = run_bagging("--method", "bagging", "--records", 20, "--subsample", 3, "--scheme", "subsets")
    assert code == 0
    assert "the paper's pair" not in out
    # Thirty out of twenty cannot be drawn without repeats.
    row = next(line for line in out.splitlines() if line.startswith("│ 30 "))
    assert row.count(" - ") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--subsample", "3"], "requires --records, the number of private records"),
        (["--records", "10"], "requires either --subsample, to find delta, or --delta"),
        (
            ["--records", "10", "--subsample", "3", "--delta", "0.3"],
            "but each determines the other: give only one",
        ),
        (["--records", "0", "--subsample", "3"], "--records: n_units=0 is not an integer from 1"),
        (["--records", "10", "--subsample", "0"], "subsample=0 is not an integer from 1"),
        (
            ["--records", "10", "--subsample", "3", "--models", "0"],
            "--models: n_models=0 is not an integer from 1",
        ),
        (["--records", "10", "--subsample", "3", "--scheme", "poisson"], "--scheme"),
        (
            ["--records", "10", "--subsample", "11", "--scheme", "subsets"],
            "subsample=11 is more than the 10 private",
        ),
        (
            ["--records", "10", "--subsample", "4", "--models", "3", "--scheme", "distinct"],
            "makes 12 distinct draws",
        ),
        (["--records", "10", "--subsample", "10", "--scheme", "subsets"], "with certainty, so delta would be 1"),
        (["--records", "60000", "--delta", "1e-5"], "one record each need delta=1.667e-05 at any epsilon"),
        (["--records", "60000", "--delta", "1"], "delta=1.0 is not a number strictly between 0 and 1"),
        (["--records", "60000", "--delta", "nan"], "delta=nan"),
        (["--records", "10", "--subsample", "3", "--epsilon", "1"], "No such option: --epsilon"),
        (["--records", "10", "--subsample", "3", "--teachers", "250"], "subsample=3 for 250 models draws each"),
        (["--records", "10", "--subsample", "3", "--classes", "2"], "No such option: --classes"),
        (["--records", "10", "--subsample", "3", "--accounting", "exact"], "No such option: --accounting"),
        (["--records", "10", "--subsample", "3", "--vanish-at-end"], "No such option: --vanish-at-end"),
        (["--records", "10", "--subsample", "3", "--plot", "plan.svg"], "No such option: --plot"),
        (
            ["--method", "saa", "--records", "10"],
            "No such option: --records; it belongs to the methods bagged-pate, bagging, label-moments.",
        ),
        (
            ["--method", "gnmax", "--subsample", "0"],
            "No such option: --subsample; it belongs to the methods bagged-pate, bagging.",
        ),
        (
            ["--method", "weighting-pate", "--models", "3"],
            "No such option: --models; it belongs to the method bagging.",
        ),
        (["--method", "optimal", "--scheme", "subsets"], "No such option: --scheme"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_of_bagging_is_one_line_on_stderr_and_exit_code_2(run_bagging, arguments, message):
    code, out, errors = run_bagging(*(() if "--method" in arguments else ("--method", "bagging")), *arguments)
    assert (code, out) == (2, "")
    assert errors.startswith("dpensemble: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_other_methods_keep_their_delta(run_bagging):
    code, out, _ = run_bagging("--teachers", 50, "--accounting", "published", "--json")
    assert code == 0
    assert json.loads(out)["delta"] == 1e-5


def test_train_does_not_run_it(run_bagging, tmp_path):
    arguments = ("--dataset", "adult", "--method", "bagging", "--out", tmp_path / "run")
    code, out, errors = run_bagging(*arguments, command="train")
    assert (code, out) == (2, "")
    assert "BaggingPrivacyClassifier in Python" in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "run").exists()


PLAN = ("plan", "--method", "bagged-pate", "--records", "2000", "--teachers", "40")
TRAIN = ("train", "--dataset", "adult", "--method", "bagged-pate", "--out")


@pytest.fixture
def run_bagged(capsys):
    def run_bagged(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_bagged


def test_plan_tells_what_a_partition_would_buy(run_bagged):
    code, out, _ = run_bagged(*PLAN, "--sigma", 9, "--epsilon", 2, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["method"], found["law_name"], found["scheme"]) == ("bagged-pate", "gnmax", "distinct")
    assert found["subsample"] == 25
    assert found["held"] == 0.5
    assert found["labels"] > 1.5 * found["partition_labels"] > 0
    assert found["quality"][0]["wrong_label_rate"] == 0.5
    code, out, _ = run_bagged(*PLAN, "--sigma", 9, "--epsilon", 2)
    assert code == 0
    assert f"{found['labels']} labels at epsilon 2" in out
    assert "one partition, same noise" in out


def test_plan_finds_noise_and_epsilon(run_bagged):
    _, out, _ = run_bagged(*PLAN, "--epsilon", 2, "--labels", 30, "--law", "lnmax", "--scheme", "subsets", "--json")
    found = json.loads(out)
    assert found["labels"] == 30
    assert found["scale"] > 0
    given = ("--law", "lnmax", "--scheme", "subsets", "--scale", found["scale"], "--json")
    _, out, _ = run_bagged(*PLAN, "--labels", 30, *given)
    assert json.loads(out)["epsilon"] == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*PLAN[:3],), "requires --records"),
        ((*PLAN, "--subsample", 51), "distinct draws"),
        ((*PLAN, "--models", 3), "No such option: --models"),
        ((*PLAN, "--threshold", 3), "No such option: --threshold"),
        (
            (*PLAN, "--law", "confident-gnmax"),
            "law of bagged-pate must be one of gnmax, lnmax, optimal, randomized",
        ),
        ((*PLAN, "--agreement", 2), "agreement=2"),
        ((*PLAN, "--epsilon", 1, "--labels", 3, "--sigma", 2), "cannot all be given"),
        ((*TRAIN, "out", "--threshold", 3), "No such option: --threshold"),
        ((*TRAIN, "out", "--partitions", 3), "it belongs to the method dpbag"),
        ((*TRAIN, "out", "--analysis", "until-spent"), "No such option: --analysis; it belongs to"),
        ((*TRAIN, "out", "--sharing", "everyone"), "--sharing; it belongs to the method private-majority"),
        (
            (*TRAIN, "out", "--budgets", "0.5:50%,1:50%"),
            "No such option: --budgets; it belongs to the methods upsampling-pate",
        ),
        (
            ("train", "--dataset", "adult", "--method", "gnmax", "--subsample", 3, "--out", "out"),
            "it belongs to the method bagged-pate",
        ),
        ((*TRAIN, "out", "--relation", "add-or-remove-one"), "would be computed from the number of records"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run_bagged, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_bagged(*options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_train_writes_a_report(run_bagged, tmp_path):
    settings = ("--teachers", 50, "--max-labels", 40, "--scheme", "with-replacement", "--subsample", 8)
    code, out, _ = run_bagged(*TRAIN, tmp_path / "out", *settings, "--law", "lnmax", "--seed", 0, "--json")
    assert code == 0
    record = json.loads(out)
    assert record["method"] == "bagged-pate"
    assert record["labels"] == 40
    assert 0.97 < record["guarantee"]["epsilon"] <= 1
    assert record["worst_case_spend"][-1][0] == 40
    assert record["settings"]["votes_per_record"] == 50
    assert any("stays secret" in text for text in record["guarantee"]["assumptions"])
    assert (tmp_path / "out" / "report.html").exists()
