"""Any text is the name of a column: keywords, parameters of the library, markup, and characters of all kinds."""

import inspect
import json
import keyword
import random
import unicodedata
import xml.dom.minidom

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import dpensemble
from dpensemble.cli import main

MARKUP = [
    *("{x}", "{{", "%s", "{0}", "<b>", "</script><script>", "<!--", "]]>", "&amp;", '"', "'", "`", "|", "\\", "---"),
    *("# a", "a: b", "- x", "[a](b)", "${HOME}", "\n", "\r\n", "\t", "\x00", "\x1b[31m", "\u2028", "\u202e", "\ufeff"),
    *("é", "e\u0301", "É", "ß", "a" * 12_000, "", " ", "Unnamed: 3", "None", "nan", "true", "0", "-1", "1.0", "index"),
    *("date: year", "(date: year)", "date: weekday", "row", "label", "probability of yes", "constant", "(blank)"),
    *("any other", "a, b", "--drop", "=1+1", "a = b", "a is missing", "x0", "self", "cls", "rows", "y"),
]


def parameters():
    """Return the names of all parameters of what the library exports."""
    names = set()
    for exported in map(vars(dpensemble).get, dpensemble.__all__):
        members = vars(exported).values() if inspect.isclass(exported) else [exported]
        for member in filter(inspect.isfunction, members):
            names |= set(inspect.signature(member).parameters)
    return sorted(names)


def random_texts(n):
    generator = random.Random(0)
    signs = [chr(code) for code in (*range(0x600), *range(0x2000, 0x2070), *range(0x1F600, 0x1F640))]
    signs = [sign for sign in signs if unicodedata.category(sign) != "Cs"] + MARKUP[:20]
    return ["".join(generator.choices(signs, k=generator.randint(1, 25))) for _ in range(n)]


def table(names, n_rows, seed):
    rng = np.random.default_rng(seed)
    columns = {
        name: rng.choice(["p", "q"], n_rows) if i % 3 else rng.normal(size=n_rows) for i, name in enumerate(names)
    }
    days = pd.date_range("2020-01-01", periods=n_rows, freq="37D").strftime("%Y-%m-%d")
    return pa.table({**columns, "date": rng.permutation(days.to_numpy()), "size": rng.normal(size=n_rows)})


def labelled(rows):
    return rows.append_column("the target", pa.array(np.where(rows["size"].to_numpy() > 0, "yes", "no")))


@pytest.mark.parametrize(
    "names",
    [MARKUP, list(dict.fromkeys([*keyword.kwlist, *keyword.softkwlist, *parameters(), *MARKUP, *random_texts(200)]))],
    ids=["markup", "all"],
)
@pytest.mark.filterwarnings("ignore")
def test_any_text_names_a_column(tmp_path, monkeypatch, names, capsys):
    monkeypatch.chdir(tmp_path)
    names = [name for name in names if name not in ("date", "size")]
    private, public, new = (table(names, n, n) for n in (300, 250, 5))
    for file, rows in (("private", labelled(private)), ("public", public), ("new", new)):
        pq.write_table(rows, f"{file}.parquet")
    tables = [
        "--private",
        "private.parquet",
        "--public",
        "public.parquet",
        "--target",
        "the target",
        "--classes",
        "no,yes",
    ]
    assert main(["check", *tables]) == 0
    settings = ["--epsilon", "4", "--delta", "1e-4", "--insecure-release-seed", "0"]
    assert main(["train", "label-moments", *tables, *settings, "--out", "run"]) == 0, capsys.readouterr().err[-500:]
    assert main(["report", "run"]) == 0
    assert main(["predict", "run", "new.parquet", "--explain", "--explain-plot", "row.svg", "--out", "new.csv"]) == 0
    xml.dom.minidom.parse("row.svg")  # noqa: S318  the library wrote it
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert not [sign for sign in page if sign < " " and sign not in "\t\n\r"]
    card = (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["library_name"] == "dpensemble"
    json.loads((tmp_path / "run" / "card.json").read_text(encoding="utf-8"))
    student = dpensemble.load_classifier(tmp_path / "run" / "student.skops")
    chances = student.predict_proba(new)
    assert np.array_equal(
        student.predict_proba(new.select(new.schema.names[::-1]).append_column("more", new["size"])), chances
    )
    parts = student.explain(new).parts(0)
    assert {part.column for part in parts} <= set(new.schema.names)
    frame = public.to_pandas()
    model = dpensemble.LabelMomentsClassifier(classes=["no", "yes"], epsilon=4, delta=1e-4, insecure_release_seed=0)
    model.fit(private, labelled(private)["the target"], X_public=frame)
    assert np.array_equal(model.predict(new), model.predict(new.to_pandas()))
