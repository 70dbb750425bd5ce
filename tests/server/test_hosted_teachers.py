"""Teachers in the house: fitted at the start, asked about rows."""

import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

from dpensemble.cli import main
from dpensemble.errors import BudgetError, DataError, InvalidParameterError, LedgerError
from dpensemble.server import Ledger, read_settings, service
from dpensemble.server.hosted_teachers import HostedEnsemble
from dpensemble.server.sign_in import KeyFile

from .conftest import CONFIG, Served
from .test_api import fields, problem

ENSEMBLE = """
[grants.ensemble]
private = "patients.csv"
public = "volunteers.csv"
target = "back"
unit = "who"
"""
ROW = {"age": 80, "ward": "b"}


def people(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n)
    return pd.DataFrame(
        {"age": age, "ward": rng.choice(["a", "b"], n), "back": np.where(age > 55, "yes", "no"), "who": range(n)}
    )


@pytest.fixture
def hospital(home):
    people(2000, 0).to_csv(home / "patients.csv", index=False)
    people(200, 1).drop(columns=["back", "who"]).to_csv(home / "volunteers.csv", index=False)
    (home / "service.toml").write_text(
        CONFIG.replace("200.0", "12.0").replace("answers = 60", "answers = 8") + ENSEMBLE
    )
    return home


def test_rows_are_answered_and_told_again_after_a_restart(hospital):
    served = Served(hospital)
    about = served.get("/v1/grants/october").json()
    assert about["takes"] == ["rows"]
    assert about["columns"] == {"age": "number", "ward": "text"}
    rows = [ROW, {"age": 25, "ward": "a"}, {"age": None, "ward": "unheard of"}]
    told = served.ask(rows=rows)
    assert told.json()["labels"][:2] == ["yes", "no"]
    # Other teachers, but the same request: nothing is drawn again.
    people(2000, 7).to_csv(hospital / "patients.csv", index=False)
    again = Served(hospital).ask(rows=rows)
    assert (again.content, again.headers["idempotent-replayed"]) == (told.content, "true")
    problem(served.ask(rows=[ROW] * 3), 422)
    assert served.get("/v1/grants/october").json()["answered"] == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('unit = "who"', 'unit = "age"'),
        ('unit = "who"', 'unit = "who"\nseed = 1'),
        ('unit = "who"', 'unit = "who"\nteacher = "decision-tree"'),
        ('unit = "who"', 'unit = "who"\ndrop = ["ward"]'),
        ('"volunteers.csv"', '"others.csv"'),
        (ENSEMBLE, ""),
    ],
)
def test_a_grant_stands_for_its_ensemble(hospital, monkeypatch, old, new):
    monkeypatch.setattr(service, "_house", lambda *given: None)
    assert Served(hospital).ask().status_code == 200
    assert Served(hospital).ask().headers["idempotent-replayed"] == "true"
    text = (hospital / "service.toml").read_text()
    assert text.count(old) == 1
    (hospital / "service.toml").write_text(text.replace(old, new))
    with pytest.raises(LedgerError, match="other settings"):
        Served(hospital)


def test_rows_that_cannot_be_used_are_refused_unquoted(hospital):
    served = Served(hospital)
    for row in ({"age": 80}, {**ROW, "more": 1}, {"age": "SECRET", "ward": "b"}, {"age": True, "ward": "b"},
                {"age": 1e301, "ward": "b"}, {"age": 10**400, "ward": "b"}, {"age": 3, "ward": 3},
                {"age": 3, "ward": "x" * 1001}, {}):  # fmt: skip
        found = served.ask(rows=[row])
        assert "SECRET" not in str(problem(found, 422))
    problem(served.ask(), 422)
    assert served.ledger.verify().requests == 0


def test_rows_typed_as_json_are_checked_like_those_of_programs(hospital, monkeypatch):
    monkeypatch.setattr("dpensemble.server.api._MOST_FIELDS", 1)
    served = Served(hospital)
    served.login()
    form = fields(served.client.get("/grants/october"))
    for rows in ("[1]", "[null]", '["SECRET"]', '[["age", "ward"]]', '[{"age": [3], "ward": "b"}]', '[{"age": 3}]'):
        page = served.client.post("/grants/october", data={**form, "json": rows})
        assert page.status_code == 422, rows
        assert 'id="wrong"' in page.text
        assert "SECRET" not in page.text.replace(escape(rows), "")
    assert served.ledger.verify().requests == 0
    assert served.client.post("/grants/october", data={**form, "json": json.dumps([ROW])}).status_code == 200
    settings = read_settings(hospital / "service.toml")
    for row in (1, None, ["age", "ward"]):
        with pytest.raises(DataError, match="exactly the columns"):
            HostedEnsemble(settings, settings.grants[0]).rows([row])


def test_one_unit_changes_one_ballot_only(hospital):
    settings = read_settings(hospital / "service.toml")
    before = HostedEnsemble(settings, settings.grants[0])
    X = before.rows([{"age": age, "ward": "a"} for age in range(50, 62)])
    table = people(2000, 0)
    table.loc[table["who"] == 5, ["age", "back"]] = [20, "yes"]
    table.to_csv(hospital / "patients.csv", index=False)
    after = HostedEnsemble(settings, settings.grants[0])
    changed = (before.vote(X) != after.vote(X)).any(axis=0)
    assert changed.shape == (100,)
    assert changed.sum() <= 1


def test_records_need_no_column_of_units(hospital):
    text = (hospital / "service.toml").read_text().replace('unit = "patient"\n', "")
    (hospital / "service.toml").write_text(text.replace('unit = "who"', 'drop = ["who"]'))
    assert "any one record" in Served(hospital).get("/v1/grants/october").json()["guarantee"]


BAD_PEOPLE = {
    "an undeclared label": {"back": "SECRET"},
    "infinity": {"age": "inf"},
}


@pytest.mark.parametrize("change", BAD_PEOPLE.values(), ids=BAD_PEOPLE)
def test_a_bad_record_stops_no_service_and_changes_one_ballot_at_most(hospital, change):
    settings = read_settings(hospital / "service.toml")
    before = HostedEnsemble(settings, settings.grants[0])
    X = before.rows([{"age": age, "ward": "a"} for age in range(50, 62)])
    table = people(2000, 0).astype(object)
    table.loc[5, list(change)] = list(change.values())
    table.to_csv(hospital / "patients.csv", index=False)
    after = HostedEnsemble(settings, settings.grants[0])
    assert (before.vote(X) != after.vote(X)).any(axis=0).sum() <= 1
    text = (hospital / "service.toml").read_text()
    (hospital / "service.toml").write_text(text + 'on_bad_record = "raise"\n')
    settings = read_settings(hospital / "service.toml")
    with pytest.raises(DataError) as caught:
        HostedEnsemble(settings, settings.grants[0])
    assert "SECRET" not in str(caught.value)


def test_a_record_without_a_unit_changes_no_ballot(hospital):
    settings = read_settings(hospital / "service.toml")
    before = HostedEnsemble(settings, settings.grants[0])
    X = before.rows([{"age": age, "ward": "a"} for age in range(50, 62)])
    table = people(2000, 0).astype(object)
    lost = table.iloc[[5]].assign(who="")
    pd.concat([table.iloc[:300], lost, table.iloc[300:]]).to_csv(hospital / "patients.csv", index=False)
    assert np.array_equal(before.vote(X), HostedEnsemble(settings, settings.grants[0]).vote(X))


def test_the_setting_of_bad_records_changes_no_grant_of_an_earlier_release(hospital):
    ensemble = read_settings(hospital / "service.toml").grants[0].ensemble
    assert "on_bad_record" not in {name for name, value in asdict(ensemble).items() if value is not None}
    assert replace(ensemble, on_bad_record="raise").digest != ensemble.digest


def test_columns_to_drop_are_a_list_or_a_text_with_commas(hospital):
    text = (hospital / "service.toml").read_text()
    for written in ('drop = ["who", "ward"]', 'drop = "who, ward"'):
        (hospital / "service.toml").write_text(text.replace('target = "back"', f'target = "back"\n{written}'))
        assert read_settings(hospital / "service.toml").grants[0].ensemble.drop == ("who", "ward")
    for written in ("drop = 3", "drop = true", 'drop = ["who", 3]', 'drop = "who,"'):
        (hospital / "service.toml").write_text(text.replace('target = "back"', f'target = "back"\n{written}'))
        with pytest.raises(InvalidParameterError, match=r"ensemble\.drop=.* must be a list of columns"):
            read_settings(hospital / "service.toml")


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ('unit = "patient"', 'unit = "patient"\nvotes_per_unit = 2', InvalidParameterError, "every unit teaches one"),
        ('classes = ["no", "yes"]', "classes = 2", InvalidParameterError, "classes as a list"),
        (
            'target = "back"',
            'target = "back"\non_bad_record = "ignore"',
            InvalidParameterError,
            "on_bad_record='ignore'",
        ),
        ("delta = 1e-6", "delta = 1e-2", BudgetError, "not below 1/N"),
        ("voters = 100", "voters = 3000", InvalidParameterError, "more than the 2000"),
        ('unit = "who"', "", InvalidParameterError, "unit='patient' and ensemble.unit=None do not match"),
        ('unit = "patient"', "", InvalidParameterError, "unit='record' and ensemble.unit='who' do not match"),
        ('target = "back"', 'target = "back"\nteacher = "magic"', InvalidParameterError, "is unknown: use one of"),
    ],
)
def test_an_ensemble_that_is_described_wrongly_is_refused(hospital, old, new, error, message):
    text = (hospital / "service.toml").read_text()
    assert old in text
    (hospital / "service.toml").write_text(text.replace(old, new))
    settings = read_settings(hospital / "service.toml")
    with pytest.raises(error, match=message):
        HostedEnsemble(settings, settings.grants[0])


@pytest.mark.parametrize(
    "line", ['keys = "\\u0000"', 'ledger = "a\\u0000b"', f'ledger = "{"x" * 5_000}"', f'keys = "{"x" * 5_000}"']
)
def test_names_that_no_file_can_have_are_one_sentence(tmp_path, capsys, line):
    other = 'ledger = "ledger.db"' if line.startswith("keys") else 'keys = "keys.json"'
    Ledger.create(tmp_path / "ledger.db")
    KeyFile(tmp_path / "keys.json").create("alice", ["read"])
    grant = (
        'name = "g"\ndata_set = "p"\nclasses = ["no", "yes"]\nvoters = 9\nepsilon = 1.0\ndelta = 1e-6\nlaw = "gnmax"\n'
    )
    (tmp_path / "service.toml").write_text(f'{line}\n{other}\n[[grants]]\n{grant}unit = "patient"\nabout = "x"\n')
    assert main(["serve", str(tmp_path / "service.toml"), "--check"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "null character" in errors or "File name too long" in errors


def test_entries_are_read_as_they_are_declared(hospital):
    for name, rows in (("patients", people(2000, 0)), ("volunteers", people(200, 1))):
        rows["pay"] = [f"{age},200" for age in rows["age"]]
        rows["email"] = [f"p{place}@example.org" for place in range(len(rows))]
        kept = rows if name == "patients" else rows.drop(columns=["back", "who"])
        kept.to_csv(hospital / f"{name}.csv", index=False)
    text = (hospital / "service.toml").read_text()
    with pytest.raises(DataError, match="which may be"):
        HostedEnsemble(read_settings(hospital / "service.toml"), read_settings(hospital / "service.toml").grants[0])
    lines = 'unit = "who"\ncolumns = {pay = "number:1,234.5"}\nblank = {age = [99]}\nbelow_limit = "half"'
    (hospital / "service.toml").write_text(text.replace('unit = "who"', lines))
    settings = read_settings(hospital / "service.toml")
    house = HostedEnsemble(settings, settings.grants[0])
    assert house.columns == {"age": "number", "ward": "text", "pay": "text"}
    row = {"age": 99, "ward": "b", "pay": "80,200"}
    # A column that is left out may be there.
    encoded = house.rows([row, row | {"age": None}, row | {"email": "p@example.org"}])
    assert (encoded == encoded[0]).all()
    with pytest.raises(DataError, match="exactly the columns age, ward, pay"):
        house.rows([row | {"street": "x"}])
    assert settings.grants[0].ensemble.digest != replace(settings.grants[0].ensemble, below_limit=None).digest


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("columns = 3", "must be a table of kinds"),
        ('columns = {age = "euros"}', "ensemble: columns=.*'euros'.* is not a kind of column"),
        ("columns = {age = 3}", "is not a kind of column"),
        ('blank = "."', "must be a list of entries"),
        ("blank = {age = 99}", "must be a list of entries"),
        ("blank = [[1]]", "must be a list of entries"),
        ('below_limit = "third"', "use 'limit' or 'half'"),
    ],
)
def test_wrong_declarations_of_entries_are_refused(hospital, line, message):
    text = (hospital / "service.toml").read_text()
    (hospital / "service.toml").write_text(text.replace('target = "back"', f'target = "back"\n{line}'))
    with pytest.raises(InvalidParameterError, match=message):
        read_settings(hospital / "service.toml")
