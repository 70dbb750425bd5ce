"""The commands of runs with several sites."""

import json

import pytest

from dpensemble.cli import main
from tests.sites.hospitals import risky
from tests.sites.test_run import table


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "shared").mkdir()
    table(220, 99, target=False).to_csv(tmp_path / "public.csv", index=False)
    for place, name in enumerate("abc"):
        table(60, place).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def new(folders, *more):
    options = ["--public", str(folders / "public.csv"), "--sites", "a,b,c", "--classes", "no,yes", "--target", "sick"]
    return main(["sites", "new", str(folders / "shared"), str(folders / "own"), *options, *more])


def join(folders, name, *more):
    command = ["sites", "join", str(folders / "shared"), str(folders / f"own-{name}"), "--name", name]
    return main([*command, "--private", str(folders / f"{name}.csv"), *more])


def test_new_join_and_status(folders, capsys):
    assert new(folders, "--epsilon", "2", "--at-sites", "2") == 0
    said = capsys.readouterr().out
    assert "Epsilon 2 at delta 1e-06 for a person with records at one site" in said
    assert "Epsilon at most 4.32 for a person with records at 2 sites" in said
    assert join(folders, "a", "--json") == 0
    mark = json.loads(capsys.readouterr().out)["fingerprint"]
    assert main(["sites", "status", str(folders / "shared"), str(folders / "own-a"), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["joined"] == {"a": mark}
    assert seen["charges"] == []
    assert main(["sites", "status", str(folders / "shared"), str(folders / "own")]) == 0
    assert f"a joined with the fingerprint {mark}" in capsys.readouterr().out


def test_a_site_that_joins_learns_what_a_check_shows(folders, capsys):
    assert new(folders) == 0
    bad = table(60, 0).assign(sick="perhaps")
    bad.to_csv(folders / "a.csv", index=False)
    capsys.readouterr()
    assert join(folders, "a") == 0
    shown = capsys.readouterr().out
    assert "For you only: these counts are exact, so do not publish them." in shown
    assert "60 have no declared class: 100 % of all" in shown
    assert join(folders, "b", "--json") == 0
    assert json.loads(capsys.readouterr().out)["check"]["records"] == 60
    # Before it joins, a site can read the same counts, and others see nothing of it.
    before = sorted((folders / "shared").rglob("*"))
    assert join(folders, "c", "--check") == 0
    shown = capsys.readouterr().out
    assert "60 records" in shown
    assert "Nothing was sent, and no key was made" in shown
    assert "Fingerprint" not in shown
    assert join(folders, "c", "--check", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["fingerprint"], facts["check"]["records"]) == (None, 60)
    assert sorted((folders / "shared").rglob("*")) == before
    assert not (folders / "own-c" / "party.json").exists()
    assert join(folders, "c") == 0
    # Others see none of these counts.
    for path in (folders / "shared").rglob("*"):
        assert b'"records"' not in path.read_bytes()


def test_what_does_not_fit_is_refused_by_options_of_the_terms(folders, capsys):
    assert new(folders) == 0
    table(60, 0).assign(extra=1).to_csv(folders / "a.csv", index=False)
    assert join(folders, "a") == 2
    err = capsys.readouterr().err
    assert (
        "drop them (ask the coordinator for new terms: sites new --drop), or name the column that identifies whose "
        "record it is (sites new --unit)" in err
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--most-units", "5,x,7"], "most_units='x'"),
        (["--most-units", "5,7"], "one number for each site"),
        (["--colluding", "2"], "at least 4"),
        (["--statistics", "mean"], "unknown"),
        (["--target", "kind", "--drop", "age"], "column"),
        (["--epsilon", "nan"], "epsilon"),
    ],
)
def test_bad_terms_are_one_sentence_and_leave_no_terms(folders, capsys, more, words):
    code = new(folders, *more)
    err = capsys.readouterr().err
    if code == 0:
        pytest.fail("accepted")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert not list((folders / "shared").glob("terms.*"))
    # The same folders can be used by right terms.
    assert new(folders) == 0


def test_columns_are_declared_in_a_file_in_place_of_public_rows(folders, capsys):
    columns = folders / "columns.json"
    columns.write_text(json.dumps({"kind": ["north", "west"], "age": [25, 80]}))
    command = ["sites", "new", str(folders / "shared"), str(folders / "own"), "--sites", "a,b,c"]
    command += ["--classes", "no,yes", "--target", "sick"]
    for more in ([], ["--public", str(folders / "public.csv"), "--declared-columns", str(columns)]):
        assert main([*command, *more]) == 2
        assert "--public or --declared-columns must be given, and not both" in capsys.readouterr().err
    assert main([*command, "--declared-columns", str(columns)]) == 0
    assert "No rows are public. 2 columns are declared." in capsys.readouterr().out
    assert join(folders, "a") == 0
    assert main(["sites", "demo", "--sites", "2", "--without-public"]) == 2


def test_a_number_has_a_range_in_place_of_classes(folders, capsys):
    command = ["sites", "new", str(folders / "shared"), str(folders / "own"), "--sites", "a,b,c"]
    command += ["--public", str(folders / "public.csv"), "--target", "age"]
    for more, words in (
        ([], "--classes, --range or --time must be given"),
        (["--range", "0,100", "--classes", "a,b"], "and one of them only"),
        (["--range", "100"], "must be two numbers"),
        (["--range", "0,100", "--rounds", "2"], "rounds is not for a number in a range"),
        (["--range", "0,100", "--bins", "1,2"], "bins is for times until an event"),
    ):
        assert main([*command, *more]) == 2
        assert words in capsys.readouterr().err
    assert main([*command, "--range", "0,100"]) == 0
    assert "'age' is a number from 0 to 100" in capsys.readouterr().out
    rows = table(60, 0).drop(columns="sick")
    rows.to_csv(folders / "a.csv", index=False)
    assert join(folders, "a") == 0


def test_a_share_of_units_may_be_held_back(folders, capsys):
    assert new(folders, "--holdout-score", "0.7") == 2
    assert "holdout_score" in capsys.readouterr().err
    assert new(folders, "--holdout-score", "0.2", "--relation", "add-or-remove-one") == 2
    assert "requires relation='replace-one'" in capsys.readouterr().err
    assert new(folders, "--holdout-score", "0.2") == 0
    assert "About 20% of the units of each site are held back" in capsys.readouterr().out
    assert join(folders, "a") == 0


def test_a_life_table_needs_no_public_rows(folders, capsys):
    command = ["sites", "new", str(folders / "shared"), str(folders / "own"), "--sites", "a,b,c", "--time", "days"]
    bins = ["--event", "died=1", "--bins", "30,90"]
    for more, words in (
        ([], "--time goes with --event and --bins"),
        ([*bins, "--target", "died"], "and not with --target"),
        ([*bins, "--strata", "arm=drug"], "must declare two or more different values"),
        ([*bins, "--strata", "arm"], "must be COLUMN=VALUE,VALUE"),
        ([*bins, "--competing", "1"], "must not share a code"),
        (["--event", "died=1", "--bins", "30"], "bins"),
    ):
        assert main([*command, *more]) == 2
        assert words in capsys.readouterr().err
    assert main([*command, *bins, "--strata", "kind=north,west", "--censored", "0,2"]) == 0
    assert "A life table of 'days' until died is 1, by kind (north, west), at 30, 90." in capsys.readouterr().out
    rows = table(60, 0).rename(columns={"age": "days"}).assign(died=0)
    rows.to_csv(folders / "a.csv", index=False)
    assert join(folders, "a") == 0
    shown = capsys.readouterr().out
    assert f"{sum(rows['kind'] == 'south')} have no declared value of kind: " in shown
    assert "NO EVENT IS IN 2 OF 2 BINS" in shown
    rows.assign(died=9).to_csv(folders / "b.csv", index=False)
    assert join(folders, "b", "--json") == 0
    counts = json.loads(capsys.readouterr().out)["check"]
    assert (counts["records"], counts["bad"], counts["times"]["without_code"]) == (60, 60, 60)


def test_times_with_public_rows_are_risks_and_a_site_that_joins_learns_what_a_check_shows(folders, capsys):
    command = ["sites", "new", str(folders / "shared"), str(folders / "own"), "--sites", "a,b,c", "--time", "days"]
    command += ["--event", "status=1", "--bins", "30,90", "--public", str(folders / "public.csv")]
    # Public rows may have times, which teach nothing.
    risky(220, 99).to_csv(folders / "public.csv", index=False)
    for more, words in (
        (["--strata", "kind=north,west"], "strata is not for risks given a row"),
        (["--declared-columns", str(folders / "columns.json")], "cannot be read"),
        (["--at", "45"], "must be ends of bins"),
        (["--holdout-score", "0.2"], "holdout_score is not for risks given a row"),
        (["--drop", "days"], "is also the time"),
    ):
        assert main([*command, *more]) == 2
        assert words in capsys.readouterr().err
    assert main([*command, "--censored", "0", "--competing", "2", "--at", "90"]) == 0
    assert "Risks given a row, of 'days' until status is 1, at 30, 90." in capsys.readouterr().out
    risky(60, 0).assign(status=7).to_csv(folders / "a.csv", index=False)
    assert join(folders, "a") == 0
    shown = capsys.readouterr().out
    assert "60 have no declared code: 100 % of all" in shown
    assert "status (codes: event 1; censored 0; competing 2)" in shown
    risky(60, 1).to_csv(folders / "b.csv", index=False)
    assert join(folders, "b", "--json") == 0
    counts = json.loads(capsys.readouterr().out)["check"]
    assert (counts["records"], counts["bad"], counts["classes"]) == (60, 0, [])


def test_a_site_waits_no_longer_than_its_patience(folders, capsys):
    assert new(folders) == 0
    assert join(folders, "a") == 0
    capsys.readouterr()
    command = ["sites", "run", str(folders / "shared"), str(folders / "own-a"), "--private", str(folders / "a.csv")]
    assert main([*command, "--patience", "0", "--quiet"]) == 2
    assert "a is waiting for b, c to join." in capsys.readouterr().err
    assert main([*command, "--trust", "b"]) == 2
    assert "NAME=FINGERPRINT" in capsys.readouterr().err
    assert main([*command, "--ledger", "x.db"]) == 2
    assert "go together" in capsys.readouterr().err


def test_terms_are_written_once_and_secrets_stay_apart(folders, capsys):
    assert new(folders) == 0
    assert new(folders) == 2
    assert "already hold the terms" in capsys.readouterr().err
    options = ["--public", str(folders / "public.csv"), "--sites", "a,b,c", "--classes", "no,yes", "--target", "sick"]
    assert main(["sites", "new", str(folders / "shared"), str(folders / "shared" / "own"), *options]) == 2
    assert "apart from" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--sites", "2"], ["--dataset", "other"]])
def test_an_impossible_demonstration_is_refused(capsys, options):
    assert main(["sites", "demo", *options]) == 2
    assert capsys.readouterr().err.count("\n") == 1
