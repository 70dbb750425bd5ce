"""Columns that are declared in place of public rows: the terms contain them, and no row of a site decides anything."""

import json

import pandas as pd
import pytest

from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.moments.maps import grid as grid_module
from dpensemble.sites import RunTerms, SiteRun, exchange
from dpensemble.sites.messages import SitesError, digest
from dpensemble.sites.terms import COORDINATOR
from tests.sites.hospitals import DECLARED, Hospitals, a_folder, table
from tests.sites.test_bad_input import body_of, signer

TERMS = "terms.coordinator.0.0.json"
OTHER = {**DECLARED, "age": [25, 90]}


@pytest.fixture
def hospitals(tmp_path):
    return Hospitals(tmp_path, declared_columns=DECLARED)


def test_the_terms_contain_the_columns_in_their_order_and_there_is_no_public_file(hospitals):
    terms = hospitals.parties[COORDINATOR].terms
    assert list(terms.declared_columns) == list(DECLARED) != sorted(DECLARED)
    assert {path.name for path in hospitals.messages.iterdir()} == {TERMS}
    assert RunTerms.from_dict(json.loads(json.dumps(terms.to_dict()))) == terms
    assert "No rows are public. 2 columns are declared." in terms.words()


def test_a_file_of_columns_is_read_as_one_of_a_single_owner_is(tmp_path):
    path = tmp_path / "columns.json"
    path.write_text(json.dumps({**DECLARED, "id": [0, 1]}))
    hospitals = Hospitals(a_folder(tmp_path / "run"), declared_columns=path, drop=["id"])
    assert hospitals.parties[COORDINATOR].terms.declared_columns == DECLARED
    for name, rows in hospitals.tables.items():
        rows.assign(id=range(len(rows))).to_csv(hospitals.file(name), index=False)
    hospitals.all_join()


def test_every_signed_member_names_the_digest_of_the_terms_with_the_columns(hospitals):
    hospitals.join()
    body = body_of(hospitals, TERMS)
    assert dict(body["terms"]["declared_columns"]) == DECLARED
    for name in hospitals.names:
        assert body_of(hospitals, f"join.{name}.0.0.json")["terms"] == digest(body)
    changed = body | {"terms": body["terms"] | {"declared_columns": [[name, one] for name, one in OTHER.items()]}}
    assert digest(changed) != digest(body)


def test_a_site_to_which_the_coordinator_shows_other_columns_stops_everybody_before_a_draw(hospitals):
    """The coordinator signs two terms. Sites that saw different ones join different runs."""
    body = body_of(hospitals, TERMS)
    hospitals.join(["h0", "h1"])
    honest = (hospitals.messages / TERMS).read_bytes()
    other = body | {"terms": body["terms"] | {"declared_columns": [[name, one] for name, one in OTHER.items()]}}
    signer(hospitals, COORDINATOR).send("terms", other)
    hospitals.join(["h2"])
    assert hospitals.parties["h2"].terms.declared_columns == OTHER
    (hospitals.messages / TERMS).write_bytes(honest)
    hospitals.trust()
    with pytest.raises(SitesError, match="h2 joined other terms than h0"):
        hospitals.step("h0")
    with pytest.raises(SitesError, match="h0 joined other terms than h2"):
        hospitals.step("h2")
    assert not [path for path in hospitals.messages.iterdir() if path.name.startswith(("approve", "key", "sum"))]


def test_a_site_that_signs_the_digest_but_sums_other_columns_is_noticed_before_a_draw(hospitals, monkeypatch):
    # The site signs the right terms, and sums a category more.
    hospitals.all_join()
    liar = hospitals.parties["h1"]
    columns = {**DECLARED, "kind": ["north", "west", "south"]}
    object.__setattr__(liar._tables._terms, "declared_columns", columns)
    liar._tables.site = None
    monkeypatch.setattr(liar, "_require_same_records", lambda: None)
    with pytest.raises(SitesError, match="h1 computed another sum 2 from the same messages"):
        hospitals.play()
    assert not (hospitals.messages / "sum.h0.1.1.json").exists()
    # A liar that also signs the right numbers about the sum is left with a sum of another size.
    monkeypatch.setattr(exchange, "_alike", lambda *_: True)
    with pytest.raises(SitesError, match=r"sent a sum of another size|opened sum has another size"):
        hospitals.play()
    assert not (hospitals.messages / "opened.coordinator.1.1.json").exists()


def test_a_site_that_sums_behind_another_map_is_noticed_before_a_draw(hospitals, monkeypatch):
    """The opened shares give the order of cells. A processor that rounds otherwise may turn an eigenvector."""
    hospitals.all_join()
    ordinary, now = grid_module._main_effect, [""]

    def turned(effect, share):
        found = ordinary(effect, share)
        return -found if now[0] == "h1" and len(found) <= 4 else found

    monkeypatch.setattr(grid_module, "_main_effect", turned)

    def all_act():
        for _ in range(40):
            for now[0] in hospitals.parties:
                hospitals.step(now[0])

    with pytest.raises(SitesError, match=r"(h0|h1|h2) computed another sum [3-9] from the same messages"):
        all_act()
    number = max(int(path.name.split(".")[3]) for path in hospitals.messages.glob("agree.*"))
    assert not (hospitals.messages / f"sum.h0.1.{number}.json").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.drop(columns="kind"), "lacks the columns kind, which --declared-columns has"),
        (lambda rows: rows.rename(columns={"age": "years"}), "lacks the columns age"),
        (lambda rows: rows.assign(more=1), "more"),
        (lambda rows: rows.iloc[:0], "no rows"),
    ],
)
def test_a_table_with_other_columns_than_the_declared_ones_cannot_join(hospitals, change, words):
    before = sorted(hospitals.messages.iterdir())
    change(hospitals.tables["h0"]).to_csv(hospitals.file("h0"), index=False)
    with pytest.raises((DataError, FileError)) as caught:
        hospitals.join(["h0"])
    assert words in str(caught.value)
    assert sorted(hospitals.messages.iterdir()) == before


def cells_of(hospitals, name):
    """Return a site's exact sum of one-hot cells, which is what the first sum of a run adds up."""
    site = hospitals.parties[name]._tables.site
    grid = grid_module.declared_grid(hospitals.parties[name].terms.declared_columns)
    rows = pd.concat([pd.DataFrame(block.rows) for block in site.records.blocks])
    return grid.one_hot(rows).sum(axis=0)


@pytest.mark.parametrize(
    ("column", "outside", "inside"),
    [("age", 25 - 1000, 25), ("age", 1e9, 80), ("kind", "never heard of", "any other")],
)
def test_entries_outside_a_range_or_list_count_as_its_ends_and_refuse_nothing(tmp_path, column, outside, inside):
    sums = []
    for number, value in enumerate((outside, inside)):
        hospitals = Hospitals(a_folder(tmp_path / str(number)), declared_columns=DECLARED)
        rows = hospitals.tables["h0"]
        rows[column] = rows[column].astype(object)
        rows.loc[:20, column] = value
        rows.to_csv(hospitals.file("h0"), index=False)
        hospitals.join(["h0"])
        sums.append(cells_of(hospitals, "h0"))
    assert (sums[0] == sums[1]).all()


def test_no_row_of_a_site_changes_what_others_see_when_it_joins(tmp_path):
    # A column of numbers becomes one of texts, and labels are undeclared: a refusal would show what the records are.
    hospitals = Hospitals(tmp_path, declared_columns=DECLARED)
    hospitals.tables["h0"].assign(age="old", kind=3, sick="maybe").to_csv(hospitals.file("h0"), index=False)
    hospitals.all_join()
    assert hospitals.parties["h0"]._tables.site.n_units == 60


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs public rows or declared_columns"),
        ({"declared_columns": DECLARED, "public": table(20, 0)}, "give one of them"),
        ({"declared_columns": {}}, "number of declared_columns"),
        ({"declared_columns": {"age": "high"}}, "must be a range or a list"),
        ({"declared_columns": {"age": 5}}, "must be a range or a list"),
        ({"declared_columns": {"age": [80, 25]}}, "smaller one first"),
        ({"declared_columns": {"age": [1, 2], "sick": ["no", "yes"]}}, "'sick' is not a feature"),
        ({"declared_columns": {"who": [1, 2]}, "unit": "who"}, "'who' is not a feature"),
        ({"declared_columns": {str(n): [0, 1] for n in range(2001)}}, "number of declared_columns"),
        ({"declared_columns": {"age": [str(n) * 20 for n in range(10**5, 10**5 + 5000)]}}, "declare fewer categories"),
        ({"declared_columns": {3: [0, 1]}}, "name columns by texts"),
        ({"declared_columns": {"age": [0.0, float("nan")]}}, "finite"),
        ({"declared_columns": {"age": [0, 10**400]}}, "finite"),
        ({"declared_columns": {"age": [-1.7e308, 1.7e308]}}, "finite"),
    ],
)
def test_impossible_declarations_are_refused_before_there_are_terms(tmp_path, given, words):
    messages = a_folder(tmp_path / "messages")
    with pytest.raises(InvalidParameterError, match=words):
        SiteRun.new(messages, tmp_path / "own", sites=["a", "b", "c"], classes=["n", "y"], target="sick", **given)
    assert not list(messages.iterdir())


@pytest.mark.parametrize("odd", [[["age", [1, 2]], ["age", [1, 2]]], [["age"]], [[1, [1, 2]]], {"age": [1, 2]}, 5, []])
def test_signed_terms_with_odd_columns_are_refused(hospitals, odd):
    body = body_of(hospitals, TERMS)
    signer(hospitals, COORDINATOR).send("terms", body | {"terms": body["terms"] | {"declared_columns": odd}})
    with pytest.raises(InvalidParameterError, match="declared_columns"):
        hospitals.join(["h0"])
