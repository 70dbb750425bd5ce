"""Entries as people write them: no number is read as another, and no entry changes another."""

import json
import shlex
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets import TableEncoder, TablePreparation
from dpensemble.datasets.formats import EntryRules, NumberFormat, as_options, entry_rules
from dpensemble.datasets.tables import read_table
from dpensemble.errors import DataError, InvalidParameterError, NotForReleaseWarning

N_ROWS = 40
#: Thousands mark and decimal mark of six locales.
LOCALES = {
    "en-US": (",", "."),
    "de-DE": (".", ","),
    "fr-FR": ("\u202f", ","),
    "de-CH": ("'", "."),
    "es-ES": (".", ","),
    "en-IN": (",", "."),
}
SIGNS = ["", "%", " %", " kg", " mmol/L", "$", "€", " EUR", "CHF "]


def written(value, decimals, thousands, decimal, *, lakhs=False):
    text = f"{abs(value):.{decimals}f}"
    whole, _, part = text.partition(".")
    groups = [whole[-3:]]
    rest, size = whole[:-3], 2 if lakhs else 3
    while rest:
        groups.append(rest[-size:])
        rest = rest[:-size]
    return thousands.join(reversed(groups)) + (decimal + part if part else "")


def dressed(text, sign, negative, how):
    """Return a number with its sign, in one of the ways in which a column is negative."""
    text = f"{sign}{text}" if sign.strip() in ("$", "CHF") else f"{text}{sign}"
    if not negative:
        return text
    return {"brackets": f"({text})", "minus": f"-{text}", "unicode": f"\u2212{text}", "behind": f"{text}-"}[how]


def ugly_column(draw):
    """Return the entries of a column, and what each is. NaN is for texts that stand for a blank."""
    name = draw.choice(list(LOCALES))
    thousands, decimal = LOCALES[name]
    thousands = "" if draw.random() < 0.3 else thousands
    decimals = int(draw.choice([0, 0, 1, 2, 3, 3, 4]))
    scale = 10.0 ** draw.integers(0, 8)
    values = np.round(draw.lognormal(size=N_ROWS) * scale, decimals)
    sign, how = str(draw.choice(SIGNS)), str(draw.choice(["brackets", "minus", "unicode", "behind"]))
    negative = draw.random(N_ROWS) < draw.choice([0, 0, 0.3])
    odd = str(draw.choice(["", "", ".", "n/a", "#DIV/0!", "-", "k.A."]))
    entries, truth = [], []
    for value, minus in zip(values.tolist(), negative.tolist(), strict=True):
        if odd and draw.random() < 0.2:
            entries.append(odd)
            truth.append(np.nan)
            continue
        text = written(value, decimals, thousands, decimal, lakhs=name == "en-IN")
        entries.append(dressed(text, sign, minus and value, how))
        truth.append(-value if minus else value)
    return entries, np.array(truth)


def as_csv(path, columns):
    pd.DataFrame(columns).to_csv(path, index=False, sep=";")
    return read_table(path, guess=True, sep=";", written=())


def require_no_wrong_reading(seed, path):
    """Return whether a column was refused, read as numbers, or left as texts. Numbers must be what was written."""
    draw = np.random.default_rng(seed)
    entries, truth = ugly_column(draw)
    public = as_csv(path, {"x": entries, "other": np.arange(N_ROWS) % 7})
    try:
        preparation = TablePreparation().fit(public)
    except DataError:
        return "refused"
    if preparation.kinds_[0] not in ("number", "written number"):
        return "texts"
    read = preparation.transform(public)["x"].to_numpy()
    present = ~np.isnan(read)
    np.testing.assert_allclose(
        read[present], truth[present], rtol=1e-12, err_msg=str((entries[:5], preparation.words()))
    )
    # Hardly any entry is lost, and none without need.
    assert np.isnan(read[np.isfinite(truth)]).mean() <= 0.05, entries[:5]
    return "numbers"


@pytest.mark.parametrize("part", range(10))
def test_no_ugly_column_is_read_as_other_numbers(part, tmp_path):
    """By day 40 columns, and 500 at night."""
    ways = [require_no_wrong_reading(1000 * part + number, tmp_path / "t.csv") for number in range(4)]
    assert set(ways) <= {"refused", "texts", "numbers"}


def test_five_hundred_ugly_columns_in_six_locales(tmp_path):
    ways = [require_no_wrong_reading(10_000 + number, tmp_path / "t.csv") for number in range(500)]
    counts = {way: ways.count(way) for way in set(ways)}
    assert counts["numbers"] > 300, counts
    assert counts["refused"] > 20, counts


_V = np.random.default_rng(0).integers(10, 80, N_ROWS).tolist()
#: Public columns, each read by another rule, with what an entry of the column is.
RULES = {
    "percent": ([f"{x}.5%" for x in _V], lambda x: x + 0.5),
    "dollars": ([f"${x * 1001:,.2f}" for x in _V], lambda x: x * 1001),
    "euros": ([f"1.{x}4,50 €" for x in _V], lambda x: 1004.5 + 10 * x),
    "francs": ([f"CHF {x}'001.20" for x in _V], lambda x: 1000 * x + 1.2),
    "brackets": ([f"({x}.00)" if x % 2 else f"{x}.00" for x in _V], lambda x: -x if x % 2 else x),
    "behind": ([f"{x},5-" if x % 2 else f"{x},5" for x in _V], lambda x: -x - 0.5 if x % 2 else x + 0.5),
    "unicode": (
        [f"\u2212{x}\u202f001" if x % 2 else f"{x}\u202f001" for x in _V],
        lambda x: (-1) ** x * (1000 * x + 1),
    ),
    "kg": ([f"{x} kg" for x in _V], float),
    "cells": ([f"{x}.1 10^9/L" for x in _V], lambda x: x + 0.1),
    "limits": ([f"<{x}" if x < 20 else f"{x}.5" for x in _V], lambda x: x if x < 20 else x + 0.5),
    "SAS": (["." if i % 8 == 0 else f"{x}.25" for i, x in enumerate(_V)], lambda x: x + 0.25),
    "SPSS": (["#NULL!" if i % 8 == 0 else f"{x}" for i, x in enumerate(_V)], float),
    "both": ([f"{x}.5%" if x % 2 else f"{x}.5" for x in _V], lambda x: x + 0.5),
    "lakhs": ([f"₹1,{x},500.00" for x in _V], lambda x: 100_500 + 1000 * x),
}
DATES = {
    "short years": [f"{x % 28 + 1:02}.03.{x}" for x in _V],
    "SAS dates": [f"{x % 28 + 1:02}MAR20{x}" for x in _V],
    "German": [f"{x % 28 + 1}. März 20{x}" for x in _V],
    "French": [f"{x % 28 + 1} févr. 20{x}" for x in _V],
    "American": [f"March {x % 28 + 1}, 20{x}" for x in _V],
}


def ugly_public():
    columns = {name: entries for name, (entries, _) in RULES.items()} | DATES
    return pd.DataFrame(columns | {"group": [f"g{x % 3}" for x in _V], "age": np.array(_V, dtype=float)})


@pytest.mark.parametrize("name", RULES)
def test_each_way_of_writing_is_read_as_what_it_is(name):
    entries, what = RULES[name]
    preparation = TablePreparation().fit(ugly_public())
    read = preparation.transform(ugly_public())[name]
    for entry, number, x in zip(entries, read, _V, strict=True):
        assert np.isnan(number) if entry in (".", "#NULL!") else number == pytest.approx(what(x), rel=1e-12), entry


def test_dates_of_several_languages_are_read():
    preparation = TablePreparation().fit(ugly_public())
    read = preparation.transform(ugly_public())
    years = [2000 + x if x < 30 else 1900 + x for x in _V]
    assert read["short years: year"].tolist() == years
    for name in ("SAS dates", "German", "French", "American"):
        assert read[f"{name}: year"].tolist() == [2000 + x for x in _V]
        assert preparation.dates_[name]["parts"] == ["year", "weekday"]
    assert "years 00 to 29 are 20.." in preparation.words()["short years"]


ENTRIES_OF_A_STRANGER = (
    *("", " ", ".", "-", "n/a", "nan", "inf", "1e400", "1j", "\x00", "now", "today", "1,234", "1.234", "1.234.567"),
    *(
        "1'234",
        "1 234",
        "12,5",
        "12.5",
        "12.5 %",
        "12 kg",
        "12 lb",
        "$5",
        "5 €",
        "(5)",
        "(5",
        "5-",
        "−5",
        "<5",
        ">5",
        "≤5",
    ),
    *("1e5", "0x10", "1_000", "1/2", "10-19", "5th", "12.03.24", "12/03/24", "3 mai 2024", "31.02.24", "٣", "½", "∞"),
    *("9" * 400, "1" * 5000 + "kg", "%", "$", "kg", "(", ")", "()", "10^9/L", "5 10^9/L", "TRUE", "None", "'5", '"5"'),
)
PIECES = [*"0123456789", *".,'()%$€<>-+ eE", "kg", "\u202f", "\u2212", "\x00", "Mar", "März", "\u0661"]


def read_private(preparation, public, table):
    """Return private rows as a run reads them from a CSV file."""
    from dpensemble.datasets.tables import take_kinds

    rows = take_kinds("private", preparation.as_declared(table), public, keep_bad=True, encoded=True)
    return preparation.encoded(rows)


def bits(prepared, rows):
    part = prepared.iloc[rows]
    return [
        part[name].to_numpy(dtype=np.float64).tobytes()
        if part[name].dtype == float
        else part[name].astype(object).tolist()
        for name in part
    ]


def with_people(table):
    """Return a table with columns that are left out because they name people."""
    numbers = pd.Series(range(len(table)))
    return table.assign(
        patient_id=numbers.to_numpy() + 7000, email=("p" + numbers.astype(str) + "@example.org").to_numpy()
    )


def require_same_others(seed, n_mutations):
    draw, public = np.random.default_rng(seed), with_people(ugly_public())
    preparation = TablePreparation("median" if seed % 2 else None, blank={"age": [99]}).fit(public)
    assert set(preparation.identifiers_) == {"patient_id", "email"}
    private = public.astype(object).astype(str).iloc[:12].reset_index(drop=True)
    place = int(draw.integers(len(private)))
    others = np.delete(np.arange(len(private)), place)
    before = bits(read_private(preparation, public, private), others)
    for _ in range(n_mutations):
        mutated = private.copy()
        for name in draw.choice(list(public.columns), size=draw.integers(1, len(public.columns)), replace=False):
            odd = draw.random() < 0.5
            text = draw.choice(ENTRIES_OF_A_STRANGER) if odd else "".join(draw.choice(PIECES, draw.integers(1, 9)))
            mutated.loc[place, name] = text if draw.random() < 0.9 else None
        after = read_private(preparation, public, mutated)
        assert bits(after, others) == before, mutated.iloc[place].to_dict()
        # In a table of its own, the odd record is what it was among the others.
        alone = read_private(preparation, public, mutated.iloc[[place]])
        assert bits(alone, [0]) == bits(after, [place]) or after.iloc[place].isna().any()


def test_one_odd_record_changes_how_no_other_is_read():
    require_same_others(0, 20)


@pytest.mark.parametrize("part", range(10))
def test_three_thousand_odd_records_change_how_no_other_is_read(part):
    require_same_others(part, 300)


def test_numbers_are_read_as_in_a_block_of_their_own():
    public = ugly_public()
    preparation = TablePreparation("median").fit(public)
    whole = preparation.transform(public)
    pieces = [preparation.transform(public.iloc[start : start + 7]) for start in range(0, N_ROWS, 7)]
    pd.testing.assert_frame_equal(whole, pd.concat(pieces), check_exact=True)


@pytest.mark.parametrize(
    ("entries", "first", "second"),
    [
        ([f"{x},234" for x in _V], "number:1,234.5", "number:1.234,5"),
        ([f"{x}.234" for x in _V], "number:1,234.5", "number:1.234,5"),
        ([f"${x},234" for x in _V], "number:1,234.5", "number:1.234,5"),
        ([f"{x}.234 %" for x in _V], "percent:1,234.5", "percent:1.234,5"),
        ([*(f"{x}.5" for x in _V[:20]), *(f"{x},5" for x in _V[20:])], "number:1,234.5", "number:1.234,5"),
        ([f"0{x % 9 + 1}/0{x % 7 + 1}/2024" for x in _V], "date:%d/%m/%Y", "date:%m/%d/%Y"),
        ([f"0{x % 9 + 1}/0{x % 7 + 1}/24" for x in _V], "date:%d/%m/%y", "date:%m/%d/%y"),
        ([f"{x % 9 + 10}-0{x % 7 + 1}-{x % 8 + 11}" for x in _V], "date:%d-%m-%y", "date:%y-%m-%d"),
    ],
)
def test_what_may_be_two_things_is_refused_with_both_to_paste(entries, first, second, tmp_path):
    public = as_csv(tmp_path / "t.csv", {"x": entries, "other": np.arange(N_ROWS) % 7})
    with pytest.raises(DataError) as raised:
        TablePreparation().fit(public)
    assert f"columns={{'x': '{first}'}}" in str(raised.value)
    assert f"columns={{'x': '{second}'}}" in str(raised.value)
    with pytest.raises(DataError, match="--column x=") as raised, as_options():
        TablePreparation().fit(public)
    assert f"--column x={second}" in str(raised.value)
    for one in (first, second):
        read = TablePreparation(columns={"x": one}).fit(public).transform(public)
        assert read.shape[1] > 1
        assert not read.isna().all().any()
    # The rules of earlier versions read such columns as texts.
    assert TablePreparation(rules=1).fit(public).words()["x"] in ("category", "left out")


def test_a_percentage_in_half_of_the_rows_is_refused_if_the_rest_are_shares():
    public = pd.DataFrame({"x": [f"{x}.5%" if x % 2 else f"0.{x}5" for x in _V]})
    with pytest.raises(DataError, match="percentages and also numbers"):
        TablePreparation().fit(public)
    read = TablePreparation(columns={"x": "percent"}).fit(public).transform(public)["x"]
    assert not read.isna().any()


def test_numbers_without_a_unit_are_blank_unless_public_rows_have_both():
    for name, blank in (("percent", True), ("both", False), ("kg", True)):
        preparation = TablePreparation().fit(ugly_public()[[name]])
        assert preparation.transform(pd.DataFrame({name: ["12.5"]})).isna().to_numpy().all() == blank
        # A stored number counts as one without a unit.
        if not blank:
            assert preparation.transform(pd.DataFrame({name: [1.234]}))[name].tolist() == [1.234]


def test_stored_numbers_beside_decimal_commas_stay_what_they_are():
    public = pd.DataFrame({"x": [f"{x}.001,5" if x % 2 else f"{x},25" for x in _V]})
    preparation = TablePreparation().fit(public)
    read = preparation.transform(
        pd.DataFrame({"x": pd.Series([1.234, 1234, "1.234", "1.234,5", 1e-7, True], dtype=object)})
    )
    assert read["x"].tolist()[:5] == [1.234, 1234.0, 1234.0, 1234.5, 1e-7]
    assert np.isnan(read["x"].iloc[5])


def test_stored_numbers_of_a_workbook_do_not_show_how_people_write():
    stored = [f"{x}.5" for x in _V[4:]]
    german = pd.DataFrame({"x": ["1,383", "1.234,5", "1.234", "12,25", *stored]})
    read = TablePreparation(decimal="stored").fit(german).transform(german)["x"].tolist()
    assert read[:4] == [1.383, 1234.5, 1234.0, 12.25]
    assert read[4:] == [x + 0.5 for x in _V[4:]]
    doubtful = pd.DataFrame({"x": ["1,383", "2,088", "9,677", "2,491", *stored]})
    with pytest.raises(DataError, match=r"which may be 1383 or 1[.]383"):
        TablePreparation(decimal="stored").fit(doubtful)
    # Without a workbook, points are people's own, and two hands are refused.
    two_hands = pd.DataFrame({"x": ["1,383", "12,25", *[f"{x}.5" for x in _V * 2]]})
    with pytest.raises(DataError, match="which may be 1383"):
        TablePreparation().fit(two_hands)
    # One mistyped number does not cost the others.
    mistyped = pd.DataFrame({"x": ["12,25", *[f"{x},234.5" for x in _V]]})
    assert TablePreparation().fit(mistyped).transform(mistyped)["x"].isna().sum() == 1


def test_a_number_with_a_fraction_or_a_power_is_not_the_number_in_front():
    form = NumberFormat(decimal=".", unit="m\u00b2", bare=True)
    assert form.number("7 m\u00b2") == 7
    for text in ("7\u00bd", "7\u00b2", "7 \u00bd", "3\u00be m\u00b2"):
        assert np.isnan(form.number(text))
    entries = [f"{x % 30}\u00bd" for x in _V]
    assert TablePreparation().fit(pd.DataFrame({"x": entries, "y": 1.0})).words()["x"] in ("category", "left out")


@pytest.mark.parametrize("name", ["BMI>=30", "p's", 'so "x"', "a b", 'it\'s "x"', "$x"])
def test_an_offered_option_works_for_any_name_when_it_is_pasted(name):
    public = pd.DataFrame({name: [f"{x},234" for x in _V], "y": 1.0})
    with pytest.raises(DataError) as raised, as_options():
        TablePreparation().fit(public)
    options = shlex.split(str(raised.value).split("give ")[1].split(" if ")[0])
    assert options[0] == "--column"
    rules = entry_rules(options[1:], None, None)
    assert TablePreparation(**rules.settings()).fit(public).transform(public)[name].min() > 9999


def test_codes_ranges_and_few_values_stay_categories():
    for entries in (
        [f"{x}{'ABCDEF'[x % 6]}" for x in _V],
        [f"E{x}.1" for x in _V],
        [f"0{x}99" if x % 2 else f"1{x}99" for x in _V],
        [f"{x // 10 * 10}-{x // 10 * 10 + 9}" for x in _V],
        [f"{x % 12 + 1}th" for x in _V],
        [f"{x % 3 * 10} mg" for x in _V],
        [f"{x}/80" for x in _V],
        [f"{x} kg" if x % 2 else f"{x} lb" for x in _V],
        [f"${x}" if x % 2 else f"€{x}" for x in _V],
        [str(x) for x in _V],
    ):
        assert TablePreparation().fit(pd.DataFrame({"x": entries, "y": 1.0})).words()["x"] in ("category", "left out")


def test_declared_blanks_are_blank_in_their_column_only():
    public = pd.DataFrame(
        {"age": [*map(float, _V[:-1]), 99.0], "size": [*map(float, _V[:-1]), 99.0], "g": ["a", "x"] * 20}
    )
    preparation = TablePreparation(blank={"age": ["99"], "": ["x"]}).fit(public)
    read = preparation.transform(public)
    assert (np.isnan(read["age"].iloc[-1]), read["size"].iloc[-1]) == (True, 99.0)
    assert read["g"].isna().sum() == 20
    assert TablePreparation(blank=["x"]).fit(public).transform(public)["g"].isna().sum() == 20
    assert not TablePreparation().fit(public).transform(public).isna().to_numpy().any()


def test_limits_of_detection_are_the_limit_or_half_of_it():
    public = ugly_public()[["limits"]]
    for below, number in (("limit", 5.0), ("half", 2.5)):
        preparation = TablePreparation(below_limit=below).fit(public)
        assert preparation.transform(pd.DataFrame({"limits": ["<5", "< 5", ">5"]}))["limits"].tolist() == [
            number,
            number,
            5.0,
        ]


def test_declarations_decide_kinds():
    public = pd.DataFrame(
        {"zip": np.arange(N_ROWS) + 10_000, "word": [f"w{x}" for x in range(N_ROWS)], "x": _V, "n": "7 kg"}
    )
    kinds = {"zip": "category", "word": "id", "x": "number", "n": "number"}
    preparation = TablePreparation(columns=kinds).fit(public)
    assert preparation.words() == {"zip": "category", "word": "left out", "x": "number", "n": "number in kg"}
    assert preparation.transform(public)["zip"].iloc[0] == "10000"


@pytest.mark.parametrize(
    "declared", ["numbers", "date", "date:%d", "date:%d.%m", "number:1,2", "category:x", "", 5, None]
)
def test_unknown_kinds_are_refused(declared):
    with pytest.raises(InvalidParameterError, match="is not a kind of column"):
        TablePreparation(columns={"x": declared}).fit(pd.DataFrame({"x": [1.0, 2.0]}))


def test_declarations_of_other_columns_are_refused():
    for given in ({"columns": {"y": "number"}}, {"blank": {"y": [1]}}):
        with pytest.raises(InvalidParameterError, match="not a column of the public table"):
            TablePreparation(**given).fit(pd.DataFrame({"x": [1.0, 2.0]}))
    with pytest.raises(InvalidParameterError, match="declares numbers, but no public entry"):
        TablePreparation(columns={"x": "number"}).fit(pd.DataFrame({"x": ["a", "b"]}))
    days = pd.DataFrame({"x": ["2024-03-05", "2024-04-06", ".", None]})
    for how in ("%d.%m.%Y", "%Y %B %d"):
        with pytest.raises(InvalidParameterError, match="declares dates, but no public entry"):
            TablePreparation(columns={"x": f"date:{how}"}).fit(days)
    assert TablePreparation(columns={"x": "date:%Y-%m-%d"}).fit(days).kinds_ == ["date"]
    with pytest.raises(InvalidParameterError, match="below_limit"):
        TablePreparation(below_limit="third").fit(pd.DataFrame({"x": [1.0, 2.0]}))


def test_options_become_rules():
    rules = entry_rules(["age=number", "seen=date:%d.%m.%y", "note=drop"], [".", "age=99", "age=98"], "half")
    assert rules.settings()["columns"] == {"age": "number", "seen": "date:%d.%m.%y"}
    assert (rules.dropped, rules.blanks_of("age"), rules.blanks_of("x")) == (["note"], [".", "99", "98"], ["."])
    for columns in (["age"], ["=number"], ["age=number", "age=id"]):
        with pytest.raises(InvalidParameterError, match="NAME=KIND"):
            entry_rules(columns, None, None)


def test_a_format_is_a_plain_value():
    form = NumberFormat(decimal=",", marks=".", unit="€", bare=False)
    assert NumberFormat(**json.loads(json.dumps(asdict(form)))) == form
    assert (form.number("1.234,50 €"), form.words()) == (1234.5, "number in €, as 1.234,5")
    assert EntryRules().settings()["rules"] == 3


def test_a_student_of_an_earlier_version_keeps_its_rules():
    preparation = TablePreparation(rules=1).fit(ugly_public())
    old = {name: value for name, value in vars(preparation).items() if name in ("fill", *_FITTED_BEFORE)}
    earlier = TablePreparation.__new__(TablePreparation)
    earlier.__dict__.update(old)
    pd.testing.assert_frame_equal(earlier.transform(ugly_public()), preparation.transform(ugly_public()))
    assert earlier.words()["percent"] == "left out" or earlier.words()["percent"] == "category"


_FITTED_BEFORE = ("n_features_in_", "feature_names_in_", "medians_", "kinds_", "dates_")


def test_an_encoder_of_arrays_reads_the_same():
    public = ugly_public()
    encoder = TableEncoder("median", below_limit="half").fit(public)
    assert encoder.preparation_.formats_["limits"]["below"] == 0.5
    assert np.isfinite(encoder.transform(public)).all()


def test_estimators_take_declarations_of_columns(tmp_path):
    """Memory, blocks, the method that is selected, and a saved student."""
    from dpensemble import AutoClassifier, LabelMomentsClassifier
    from dpensemble.persistence import load_classifier, save_classifier

    draw = np.random.default_rng(0)
    values = draw.integers(10, 80, 900)
    table = pd.DataFrame(
        {
            "pay": [f"${x},001" for x in values],
            "weight": [f"{x}.5 kg" for x in values],
            "age": values.astype(float),
            "born": [f"{x % 28 + 1:02}.03.{x}" for x in values],
        }
    )
    y, public, new = np.where(values > 45, "yes", "no"), table[:250], table[250:260]
    settings = {
        "classes": ["no", "yes"],
        "insecure_release_seed": 0,
        "delta": 1e-5,
        "columns": {"pay": "money:1,234.5"},
    }
    model = LabelMomentsClassifier(**settings).fit(table[250:], y[250:], X_public=public)
    assert model.score(table, y) > 0.9
    assert model.feature_names_in_.tolist() == list(table.columns)
    expected = model.predict_proba(new)

    def read():
        for start in range(250, 900, 100):
            yield table[start : start + 100], y[start : start + 100]

    blocks = LabelMomentsClassifier(**settings).fit_blocks(read, X_public=public)
    assert (blocks.predict_proba(new) == expected).all()
    assert (AutoClassifier(**settings).fit(table[250:], y[250:], X_public=public).predict_proba(new) == expected).all()
    save_classifier(model.student_, tmp_path / "s.skops")
    with pytest.warns(NotForReleaseWarning):
        student = load_classifier(tmp_path / "s.skops")
    assert (student.predict_proba(new) == expected).all()
    assert (student.predict_proba(new.iloc[::-1, ::-1]) == expected[::-1]).all()
    with pytest.raises(DataError, match="which may be"):
        LabelMomentsClassifier(**settings | {"columns": {}}).fit(table[250:], y[250:], X_public=public)
    with pytest.raises(InvalidParameterError, match="declared_columns replace public rows"):
        LabelMomentsClassifier(**settings, declared_columns={"age": [0, 90]}).fit(table, y)


@pytest.mark.parametrize("odd", ["\ud800", "5\udfff", "\ud800 %"])
def test_half_a_character_is_a_blank_and_changes_no_other_entry(odd):
    """Python's texts may hold half characters, and the texts of pandas may not."""
    public = pd.DataFrame({"share": [f"{x}.5 %" if x % 2 else f"{x}.5" for x in range(40)]})
    preparation = TablePreparation().fit(public)
    rows = pd.DataFrame({"share": pd.Series(["7.5 %", odd, "8.5"], dtype=object)})
    assert preparation.encoded(rows)["share"].tolist()[::2] == [7.5, 8.5]
    assert np.isnan(preparation.encoded(rows)["share"][1])
