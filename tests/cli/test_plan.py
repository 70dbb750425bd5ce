"""``dpensemble plan`` as people and programs use it."""

import json
from xml.etree import ElementTree

import pytest

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
