"""The summary of a run in the terminal, ``plan --certificate`` and ``verify``, and runs that are finished.

A run that fails after its charge is finished from what it has drawn. What can fail is tried before the charge.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpensemble.cli.train
import dpensemble.moments.learning  # noqa: F401 - patched by name
from dpensemble.certificates import confirmed
from dpensemble.certificates.certificate import _verifier_path
from dpensemble.cli import main
from dpensemble.cli.runs import print_run
from dpensemble.errors import LedgerError, VerifierError
from dpensemble.moments.learning import STATISTICS
from dpensemble.report import RunRecord
from dpensemble.report.page import render
from dpensemble.server import Ledger
from dpensemble.workflow.disk import DrawnFile

GUARANTEE = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "basis": "worst-case",
    "relation": "replace-one",
    "unit": "record",
    "accounting": "exact",
    "assumptions": [],
    "for_release": True,
    "fixed_number": True,
}
SOFT = RunRecord(
    method="label-moments",
    guarantee=GUARANTEE,
    budget={"epsilon": 1.0, "delta": 1e-5},
    labels=16281,
    asked=16281,
    label_accuracy=0.8574,
    student={"accuracy": 0.8552, "auroc": 0.9082, "auprc": 0.7809, "brier": 0.09963},
    baseline=None,
    worst_case_spend=[],
    data={
        "private_units": 16281,
        "public_rows": 16281,
        "most_common_label": 0.76,
        "kinds_of_columns": "age (number)",
        "test_is_public": True,
    },
    settings={
        "title": "Label moments",
        "law": "GaussianSum(sigma=6.8)",
        "gated": False,
        "n_teachers": None,
        "noise_chosen": "from the budget",
        "noise_in_words": "Gaussian noise of 6.8 sensitivities on a sum of vectors",
        "rounds": 3,
    },
    versions={},
    seconds={},
    releases=[{"description": "noisy sum", "table": None, "noise": None}] * 3,
)
VOTED = replace(
    SOFT,
    method="pate",
    labels=90,
    asked=100,
    student={"accuracy": 0.8, "auroc": 0.9, "auprc": 0.7},
    settings={name: value for name, value in SOFT.settings.items() if name != "rounds"} | {"n_teachers": 100},
    releases=[{"description": "labels", "table": None, "noise": None}],
)


@pytest.fixture
def shown(capsys):
    def show(record):
        print_run(record, Path("report.html"), Path("student.skops"))
        return capsys.readouterr().out

    return show


def test_a_run_without_votes_says_what_was_released(shown):
    text = shown(SOFT)
    assert (
        "Released: 3 noisy sums; every record adds one vector of bounded length to each, and only the noisy sums leave."
        in text
    )
    assert "Public rows that the model labelled: 16,281, 85.7% of them right\n" in text
    assert "Noise: Gaussian noise of 6.8 sensitivities on a sum of vectors (from the budget)" in text
    assert "got a label" not in text
    assert "teacher" not in text
    assert "Hint" not in text


def test_bad_records_are_stated_whether_or_not_there_are_any(capsys):
    sentence = (
        "A record with a blank or undeclared label, or an entry that cannot be read, adds nothing but counts as a"
    )
    known = replace(SOFT, data=SOFT.data | {"readable_share": 0.9812, "readable_share_error": 0.005})
    unknown = replace(SOFT, data=SOFT.data | {"readable_share": 0.9812, "readable_share_error": 0.03})
    public = replace(SOFT, data=SOFT.data | {"data_is_public": True})
    for record, zeroes, start in (
        (SOFT, True, ""),
        (known, True, "About 98.1% (95% interval by noise: 97.1% to 99.1%) of the records could be read. "),
        # The interval holds 100 %, so that nothing shows an unreadable record.
        (unknown, True, "A record with a blank"),
        (known, False, None),
        (public, True, None),
    ):
        print_run(record, Path("report.html"), Path("student.skops"), zeroes=zeroes)
        text = capsys.readouterr().out
        assert (f"Bad records: {start}" in text, sentence in text) == ((start is not None,) * 2)


def test_results_come_before_the_guarantee_and_the_files(shown):
    lines = shown(SOFT).splitlines()
    places = [
        next(place for place, line in enumerate(lines) if start in line)
        for start in ("student (protected)", "Differential privacy with", "Released: ", "Report: ")
    ]
    assert places == sorted(places)
    assert shown(replace(SOFT, student=None, baseline=None)).startswith("Differential privacy with")


_WORSE = "is no better than always giving the most common label"


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"most_common_label": 0.86}, True),
        ({"most_common_label": 0.97}, False),
        (
            {
                "most_common_label": 0.86,
                "decision": {"positive_class": "yes", "threshold": 0.1, "why": "", "per_1000": []},
            },
            False,
        ),
        # A student that answers the same for most rows does not show that cases are rare.
        ({"most_common_label": 0.86, "answers": {"no": 0.95, "yes": 0.05}}, True),
        ({"public_truth": {"student": 0.5, "most_common": 0.6}}, True),
        ({"public_truth": {"student": 0.9, "most_common": 0.95}}, False),
    ],
)
def test_no_verdict_rests_on_accuracy_where_cases_are_rare_or_costs_were_given(shown, more, verdict):
    record = replace(SOFT, data=SOFT.data | more)
    assert (_WORSE in shown(record)) == verdict
    if "decision" not in more:
        assert ("Accuracy shows little here" in render(record)) == record.accuracy_misleads


def test_a_released_share_of_a_rare_class_ends_verdicts(shown):
    rows = [["alive", 0.96, 0.01], ["dead", 0.04, 0.01]]
    release = {"description": "shares", "table": {"title": "Share of each class", "rows": rows}, "noise": 9.0}
    record = replace(SOFT, releases=[release, *SOFT.releases])
    assert record.accuracy_misleads
    query = STATISTICS["class-shares"](("alive", "dead"))
    assert query.table((np.array([0.96, 0.04]), 0.01)).title == release["table"]["title"]
    assert not replace(SOFT, releases=[release | {"table": release["table"] | {"title": "Wards"}}]).accuracy_misleads


def test_private_test_rows_decide_nothing_that_is_published():
    data = SOFT.data | {"public_truth": {"student": 0.5, "most_common": 0.6}, "test_is_public": False}
    texts = [
        {one.text for one in replace(SOFT, data=data | {"most_common_label": share}).remarks() if one.is_public}
        for share in (0.6, 0.99)
    ]
    assert texts[0] == texts[1] != set()


def test_one_round_of_units_without_known_truth(shown):
    record = replace(
        SOFT,
        guarantee=GUARANTEE | {"unit": "unit"},
        settings=SOFT.settings | {"rounds": 1},
        label_accuracy=None,
        releases=SOFT.releases[:1],
    )
    text = shown(record)
    assert "1 noisy sum; every person adds one vector of bounded length to it, and only the noisy sum leaves." in text
    assert "the model labelled: 16,281\n" in text


def test_a_sum_that_compares_public_rows_is_named(shown):
    assert "compares public rows" not in shown(SOFT)
    text = shown(replace(SOFT, settings=SOFT.settings | {"compares_rows": True}))
    assert "only the noisy sums leave. One more sum compares public rows with the private records." in text


def test_a_vote_says_how_many_rows_got_a_label(shown):
    text = shown(VOTED)
    assert "Public rows that got a label: 90 of 16,281 public rows after asking about 100, 85.7% of them right" in text
    assert "Released" not in text


def test_the_brier_score_has_a_column_where_there_is_one(shown):
    text = shown(SOFT)
    assert "Brier score" in text
    assert "0.100" in text
    assert "0 is best" in text
    assert "Brier" not in shown(VOTED)
    mixed = shown(replace(VOTED, baseline=SOFT.student))
    assert "Brier score" in mixed
    assert next(line for line in mixed.splitlines() if "student (" in line).split()[-2] == "-"


def test_whatever_was_released_is_shown_in_order(shown):
    table = {"title": "How common wards are", "rows": [["north", 0.25, 0.01]]}
    releases = [
        {"description": "the number of wards", "table": table, "noise": 26.4},
        {"description": "a new sum", "table": None, "noise": 6.9},
    ]
    record = replace(SOFT, releases=releases, settings=SOFT.settings | {"rounds": 2})
    text = shown(record)
    assert "only the noisy sums leave. The report lists them and their noise.\n" in text
    assert "Noise: Gaussian, 6.9 to 26.4 times as large as one record can change a sum" in text
    assert "How common wards are: north 0.250 ± 0.010" in text
    assert "lists them" not in shown(SOFT)
    page = render(record)
    assert '<th scope="row">the number of wards</th><td>26.4</td>' in page
    assert "later rounds have no more" not in page
    assert "later rounds have no more" in render(SOFT)
    assert "<h3>How common wards are</h3>" in page
    assert "<td>0.250</td><td>0.010</td>" in page


def test_files_lie_beside_the_student_wherever_the_page_is_written(capsys):
    decision = {"positive_class": "yes", "threshold": 1 / 21, "why": "Why.", "per_1000": []}
    for more, option in (({}, ""), ({"decision": decision}, " --threshold 0.04762")):
        record = replace(SOFT, data=SOFT.data | {"certificate": "certificate.json"} | more)
        print_run(record, Path("page.html"), Path("run") / "student.skops")
        lines = capsys.readouterr().out.splitlines()
        assert (
            f"Student: run/student.skops; 'dpensemble predict run FILE{option}' classifies the rows of a file" in lines
        )
        assert any(line.startswith("Certificate: run/certificate.json;") for line in lines)


def test_a_terminal_shows_no_control_characters_of_names(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    name = '"\x1b[2Ja"'
    rows = [f"{value:.3f},{int(value > 0)}" for value in rng.normal(size=300)]
    (tmp_path / "private.csv").write_text("\n".join([f"{name},y", *rows]))
    (tmp_path / "public.csv").write_text("\n".join([name, *(row.split(",")[0] for row in rows[::-1])]))
    line = "train label-moments --private private.csv --public public.csv --target y --classes 0,1 --epsilon 9"
    assert main([*line.split(), "--delta", "1e-3", "--quiet", "--out", "run"]) == 0
    shown = capsys.readouterr()
    assert "Columns: ?[2Ja" in shown.out
    assert "\x1b" not in shown.out + shown.err


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


def test_without_python_flint_nothing_is_checked(certificate, tmp_path, capsys, monkeypatch):
    """Neither yes nor no: a colleague without the library must not take a certificate for refuted."""
    hidden = tmp_path / "verify.py"
    hidden.write_text(f"import sys\nsys.modules['flint'] = None\n{_verifier_path().read_text()}")
    monkeypatch.setattr("dpensemble.certificates.certificate._verifier_path", lambda: hidden)
    for options in ([], ["--json"]):
        assert main(["verify", str(certificate), *options]) == 3
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "is not checked: this needs python-flint; run pip install python-flint." in printed.err
    with pytest.raises(VerifierError):
        confirmed(certificate)


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


pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

TEACHERS = ["--teachers", "12"]
METHODS = {
    "label-moments": [],
    "discriminant": ["--fill"],
    "soft-votes": [*TEACHERS, "--fill"],
    "pate": [*TEACHERS, "--fill"],
    "private-majority": [*TEACHERS, "--fill"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=500), "c": rng.choice(["a", "b", "any other"], size=500)})
    table["y"] = (table["x"] > 0).astype(int)
    table[:300].to_csv(tmp_path / "private.csv", index=False)
    table[300:].drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    return tmp_path


def command(method, *more):
    line = f"train {method} --private private.csv --public public.csv --target y --classes 0,1 --epsilon 3 --delta 1e-3"
    return [*line.split(), *METHODS[method], "--quiet", "--out", "run", *more]


def drawn(folder):
    lines = (folder / ".dpensemble-run" / "drawn.jsonl").read_text().splitlines()
    groups = [one if isinstance(one, list) else [one] for one in map(json.loads, lines)]
    return [(one["name"], one["value"]) for group in groups for one in group]


def fail(*_, **__):
    raise ZeroDivisionError("Zaphod, 1942")


def break_step(put, step):
    """Let a function fail, or a method. Here `dpensemble.workflow.train` is a module, not the function.

    `put` is the fixture `plant`, or `setattr` of monkeypatch.
    """
    where, name = step.rsplit(".", 1)
    if where not in sys.modules:
        module, kind = where.rsplit(".", 1)
        put(getattr(sys.modules[module], kind), name, fail)
    else:
        put(sys.modules[where], name, fail)


@pytest.mark.parametrize(
    ("method", "more", "step"),
    [
        ("label-moments", [], "dpensemble.cli.train.write_outcome"),
        ("label-moments", ["--holdout-score", "0.2"], "dpensemble.workflow.train.scored"),
        ("label-moments", [], "dpensemble.moments.learning._Rounds.fit"),
        ("soft-votes", ["--holdout-score", "0.2"], "dpensemble.workflow.train._certified"),
        ("pate", ["--holdout-score", "0.2"], "dpensemble.workflow.outputs.render"),
        ("pate", [], "dpensemble.student.Learner.fit"),
        ("private-majority", [], "dpensemble.workflow.train.label_shares"),
    ],
)
def test_a_run_is_finished_without_a_second_charge(folder, capsys, monkeypatch, method, more, step):
    ledger = Ledger.create(folder / "ledger.db")
    account = ledger.open_account("people", epsilon=9.0, delta=1e-2)
    more = [*more, "--ledger", "ledger.db", "--data-set", "people"]
    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.rehearse", lambda *_, **__: None)
        break_step(patched.setattr, step)
        assert main(command(method, *more)) == 1
    errors = capsys.readouterr().err
    assert "finishes the run from what it has drawn" in errors
    assert "Zaphod" not in errors
    spent, before = account.state().spent, drawn(folder)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    with monkeypatch.context() as patched:
        values = []
        once = DrawnFile.once

        def watched(self, name, draw):
            values.append((name, once(self, name, draw)))
            return values[-1][1]

        patched.setattr(DrawnFile, "once", watched)
        assert main(["recover", "../run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["account"]) == (True, None)
    assert [name for name, _ in values[: len(before)]] == [name for name, _ in before]
    for (_, kept), (_, used) in zip(before, values, strict=False):
        assert (used.ravel().tolist() if isinstance(used, np.ndarray) else used) == (
            kept["array"] if isinstance(kept, dict) else kept
        )
    assert account.state().spent == spent
    assert json.loads((folder / "run" / "run.json").read_text())["guarantee"]["epsilon"] <= 3.0
    assert (folder / "run" / "student.skops").exists()
    assert not (folder / ".dpensemble-run").exists()


@pytest.mark.parametrize("method", ["label-moments", "pate"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_run_is_finished_with_the_delta_with_which_it_began(folder, capsys, monkeypatch, method, earlier):
    """Another version chooses another delta, but what is drawn was drawn for that of the journal."""
    line = [one for one in command(method) if one not in ("--delta", "1e-3")]
    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.rehearse", lambda *_, **__: None)
        patched.setattr("dpensemble.guarantee._USUAL_DELTA", 0.003)
        if earlier:
            patched.setattr(
                "dpensemble._spending.Spending.to_dict",
                lambda self: {"name": self.name, "epsilon": self.epsilon, "delta": self.delta},
            )
        break_step(patched.setattr, "dpensemble.cli.train.write_outcome")
        assert main(line) == 1
    (budget,) = json.loads((folder / ".dpensemble-run" / "journal.json").read_text())["budgets"]
    assert budget["delta"] == 6e-4
    capsys.readouterr()
    assert main(["recover", "run"]) == 0
    stated = json.loads((folder / "run" / "run.json").read_text())
    assert stated["guarantee"]["delta"] == stated["budget"]["delta"] == 6e-4
    rule = "as the version that began the run chose it" if earlier else budget["delta_rule"]
    assert stated["guarantee"]["delta_rule"] == rule
    assert ("n = 300 is the number of records" in rule) is not earlier
    card = json.loads((folder / "run" / "card.json").read_text())
    assert card["privacy"]["delta_rule"] == rule
    assert rule in (folder / "run" / "report.html").read_text()
    assert rule in (folder / "run" / "card.md").read_text()


def test_the_record_states_that_delta_was_given(folder):
    assert main(command("label-moments")) == 0
    stated = json.loads((folder / "run" / "run.json").read_text())["guarantee"]
    assert (stated["delta"], stated["delta_rule"]) == (1e-3, "given")


# Of 300 records, 240 are in the fit if a fifth is held back.
@pytest.mark.parametrize(
    ("more", "delta"),
    [([], 6e-4), (["--holdout-score", "0.2"], 8e-4), (["--relation", "add-or-remove-one"], 0.003)],
)
def test_no_delta_is_given_on_the_command_line(folder, monkeypatch, more, delta):
    monkeypatch.setattr("dpensemble.guarantee._USUAL_DELTA", 0.003)
    line = [one for one in command("label-moments", *more) if one not in ("--delta", "1e-3")]
    assert main(line) == 0
    stated = json.loads((folder / "run" / "run.json").read_text())
    assert stated["guarantee"]["delta"] == delta
    if "--holdout-score" in more:
        assert stated["data"]["released_score"]["delta"] == delta


def unreachable(*_):
    raise LedgerError("the ledger cannot be read.")


def fail_at(patched, name):
    """Let the ledger's first transaction fail at a step."""
    failed = []

    def step(reached):
        if reached == name and not failed:
            failed.append(name)
            raise ZeroDivisionError

    patched.setattr("dpensemble.server.store.step", step)


@pytest.mark.parametrize(("step", "charged"), [("begun", False), ("added", False), ("committed", True)])
@pytest.mark.parametrize("can_look", [True, False])
def test_the_journal_tells_of_a_charge_before_the_ledger_is_charged(
    folder, capsys, monkeypatch, step, charged, can_look
):
    ledger = Ledger.create(folder / "ledger.db")
    account = ledger.open_account("people", epsilon=9.0, delta=1e-2)
    more = ["--ledger", "ledger.db", "--data-set", "people"]
    with monkeypatch.context() as patched:
        fail_at(patched, step)
        if not can_look:
            patched.setattr("dpensemble.server.account.LedgerAccount.has_release", unreachable)
        code = main(command("label-moments", *more))
    errors = capsys.readouterr().err
    # Where no user could look, recover does.
    assert code == 1
    assert ("nothing was written" in errors) != (charged or not can_look)
    assert ("may be charged to the ledger" in errors) == (charged or not can_look)
    assert (folder / ".dpensemble-run").exists() == (charged or not can_look)
    assert len(account.history()) == charged
    if not (charged or not can_look):
        return
    assert main(command("label-moments", *more)) == 2
    assert "checks the ledger" in capsys.readouterr().err
    assert main(["recover", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["account"]) == (charged, None)
    assert len(account.history()) == charged
    assert (folder / "run" / "run.json").exists() == charged
    assert not (folder / ".dpensemble-run").exists()


def test_a_ledger_that_refuses_leaves_no_journal(folder, capsys):
    account = Ledger.create(folder / "ledger.db").open_account("people", epsilon=1.0, delta=1e-2)
    assert main(command("label-moments", "--ledger", "ledger.db", "--data-set", "people")) == 2
    assert "nothing was charged" in capsys.readouterr().err
    assert account.history() == []
    assert not (folder / ".dpensemble-run").exists()


def test_the_charge_that_nobody_can_look_up_is_filed_as_one_that_may_be_spent(folder, capsys, monkeypatch):
    Ledger.create(folder / "ledger.db").open_account("people", epsilon=9.0, delta=1e-2)
    with monkeypatch.context() as patched:
        fail_at(patched, "committed")
        assert main(command("label-moments", "--ledger", "ledger.db", "--data-set", "people")) == 1
    capsys.readouterr()
    (folder / "ledger.db").rename(folder / "elsewhere.db")
    assert main(["recover", "run"]) == 2
    assert "there is no ledger" in capsys.readouterr().err
    assert main(["recover", "run", "--give-up", "--json"]) == 0
    assert "may be spent without a release" in json.loads(capsys.readouterr().out)["what"]
    assert not (folder / ".dpensemble-run").exists()


BAD_STEPS = [
    ("pate", ["--baseline"]),
    ("soft-votes", ["--baseline", "--holdout-score", "0.2"]),
    ("label-moments", ["--holdout-score", "0.2"]),
]


@pytest.mark.parametrize(("method", "more"), BAD_STEPS)
def test_blanks_of_private_records_stop_no_step_after_the_charge(folder, method, more):
    """Neither a baseline nor a score meets what the student does not take."""
    table = pd.read_csv("private.csv", dtype={"x": object})
    table[:50].to_csv("test.csv", index=False)
    table.loc[::9, "x"] = ""
    table.loc[4::9, "x"] = "much"
    table.to_csv("private.csv", index=False)
    without_fill = [
        one for one in command(method, "--student", "naive-bayes", "--test", "test.csv", *more) if one != "--fill"
    ]
    assert main(without_fill) == 0
    assert (folder / "run" / "run.json").exists()


@pytest.mark.parametrize("step", ["dpensemble.workflow.train.scored", "dpensemble.workflow.train._baseline_scores"])
def test_what_fails_for_a_bad_record_fails_in_the_rehearsal(folder, capsys, plant, step):
    """Stand-in records are as bad as private ones may be, so that a step that cannot take them costs nothing."""
    where, name = step.rsplit(".", 1)
    real = getattr(sys.modules[where], name)

    def takes_no_blanks(*given):
        private = next(one for one in given if hasattr(one, "X") or hasattr(one, "X_private"))
        rows = getattr(private, "X", None) if hasattr(private, "X") else private.X_private
        if rows.isna().to_numpy().any():
            raise ZeroDivisionError
        return real(*given)

    plant(sys.modules[where], name, takes_no_blanks)
    assert main(command("pate", "--baseline", "--holdout-score", "0.2")) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert not (folder / ".dpensemble-run").exists()


def test_changed_inputs_are_refused_and_the_account_can_be_filed(folder, capsys, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.write_outcome", fail)
        assert main(command("label-moments")) == 1
    with (folder / "private.csv").open("a") as file:
        file.write("1.0,a,1\n")
    capsys.readouterr()
    assert main(["recover", "run"]) == 2
    assert "private.csv has changed since the run" in capsys.readouterr().err
    # Nor does another content of the same size and time pass.
    data, times = (folder / "private.csv").read_bytes(), (folder / "private.csv").stat()
    (folder / "private.csv").write_bytes(data.replace(b"1.0,a,1\n", b""))
    (folder / "private.csv").write_bytes((folder / "private.csv").read_bytes().replace(b",a,", b",b,", 1))
    os.utime(folder / "private.csv", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert main(["recover", "run"]) == 2
    assert "private.csv has changed since the run" in capsys.readouterr().err
    assert main(["recover", "run", "--give-up", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["budgets"][0]["epsilon"]) == (False, 3.0)
    assert not (folder / ".dpensemble-run").exists()
    # Digests of private tables do not outlive the run, and nothing is left to finish.
    account = json.loads(Path(found["account"]).read_text())
    assert not {"command", "inputs", "working_folder"} & set(account["about"])
    assert "finishes the run" not in account["what"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "step",
    [
        "dpensemble.report.page._quality_view",
        "dpensemble.workflow.rehearsal.save_classifier",
        "dpensemble.workflow.run_record.RunRecord",
    ],
)
def test_steps_after_the_charge_are_rehearsed_before_it(folder, capsys, plant, method, step):
    """A page or a file that cannot be made costs nothing."""
    ledger = Ledger.create(folder / "ledger.db")
    account = ledger.open_account("people", epsilon=9.0, delta=1e-2)
    break_step(plant, step)
    assert main(command(method, "--ledger", "ledger.db", "--data-set", "people")) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert account.state().spent.loss == 0
    assert not (folder / ".dpensemble-run").exists()
