"""Exports of spreadsheets and offices: read as the plain file, or refused alike for all neighbours."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpensemble.datasets.csv import CSVFormat, csv_layout, read_csv
from dpensemble.datasets.csv_layout import Expected
from dpensemble.errors import DataError, DPEnsembleError, FileError
from dpensemble.workflow import ReadOptions, TableFiles, file_tables

AGES = np.random.default_rng(0).integers(18, 90, 12)
PRIVATE = [["age", "ward", "ill"], *([str(a), "n" if a % 2 else "s, w", "yes" if a > 50 else "no"] for a in AGES)]
PUBLIC = [row[:2] for row in PRIVATE]


@dataclass(frozen=True)
class Written:
    """How a table is written to a file."""

    sep: str = ","
    quoted: bool = False
    sep_line: bool = False
    titles: tuple[str, ...] = ()
    ends: tuple[int, int] = (0, 0)
    around: tuple[str, str] = ("", "")
    encoding: str = "utf-8"
    line_end: str = "\n"

    def text(self, rows):
        def line(row, quoted):
            quote = [entry if not quoted and self.sep not in entry else f'"{entry}"' for entry in row]
            return self.sep.join(quote)

        names = [f"{self.around[0]}{name}{self.around[1]}" for name in rows[0]]
        header = line(names, self.quoted) + self.sep * self.ends[0]
        records = [line(row, self.quoted) + self.sep * self.ends[1] for row in rows[1:]]
        lines = [*([f"sep={self.sep}"] if self.sep_line else []), *self.titles, header, *records]
        return self.line_end.join(lines) + self.line_end

    def write(self, path, rows):
        path.write_bytes(self.text(rows).encode(self.encoding))


TITLES = st.sampled_from(
    ["Extract of 2025", "", "# made by R", "Ward; all", "Ward, all, of 2025, more", "Extract,,", "sep"]
)
LAYOUTS = st.builds(
    Written,
    sep=st.sampled_from([",", ";", "\t", "|"]),
    quoted=st.booleans(),
    sep_line=st.booleans(),
    titles=st.lists(TITLES, max_size=3).map(tuple),
    ends=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    around=st.sampled_from([("", ""), (" ", ""), ("", " "), ("\u00a0", "\t "), ("\ufeff", "")]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
)


def files_of(folder, form=None):
    return TableFiles(
        private=folder / "private.csv",
        public=folder / "public.csv",
        target="ill",
        classes=["no", "yes"],
        form=CSVFormat() if form is None else form,
    )


def read_or_message(files):
    try:
        tables = file_tables(files, ReadOptions(blanks=True, on_bad_record="zero"))
    except DPEnsembleError as error:
        return str(error)
    return tables


def plain(folder):
    for name, rows in (("private", PRIVATE), ("public", PUBLIC)):
        Written().write(folder / f"{name}.csv", rows)
    return read_or_message(files_of(folder))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return plain(tmp_path_factory.mktemp("plain"))


def assert_same(tables, expected):
    pd.testing.assert_frame_equal(tables.X_private, expected.X_private)
    pd.testing.assert_frame_equal(tables.X_public, expected.X_public)
    assert tables.y_private.tolist() == expected.y_private.tolist()


ODD_LINES = st.one_of(
    st.sampled_from(
        ["sep=;", "age,ward,ill", "age;ward;ill;", '"', ",,,,", "Extract of 2025", "\ufeff", "\0", "a\tb|c"]
    ),
    st.text(alphabet="ab1,;\"\t|\ufeff\0 '=é", max_size=12),
)


@given(public=LAYOUTS, private=LAYOUTS, alike=st.booleans(), stated=st.booleans(), odd=ODD_LINES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_layouts_are_read_as_the_plain_file_or_refused_alike(tmp_path, expected, public, private, alike, stated, odd):
    """Also with one record replaced by any line: the same refusal, and the other records as before."""
    private = public if alike else private
    public.write(tmp_path / "public.csv", PUBLIC)
    private.write(tmp_path / "private.csv", PRIVATE)
    form = CSVFormat(sep=private.sep) if stated else CSVFormat()
    found = read_or_message(files_of(tmp_path, form))
    if not isinstance(found, str):
        assert_same(found, expected)
    lines = private.text(PRIVATE).split(private.line_end)
    place = len(lines) - 6
    (tmp_path / "private.csv").write_bytes(
        private.line_end.join([*lines[:place], odd + ",x", *lines[place + 1 :]]).encode(private.encoding)
    )
    after = read_or_message(files_of(tmp_path, form))
    if isinstance(found, str):
        assert after == found
        assert not any(entry in found for row in PRIVATE[1:] for entry in row if len(entry) > 2)
        return
    row = len(AGES) - 5
    assert after.X_private.drop(index=row).equals(found.X_private.drop(index=row))
    assert after.y_private.drop(index=row).equals(found.y_private.drop(index=row))


READ = [
    Written(sep=";", sep_line=True),
    Written(titles=("Extract of 2025",)),
    Written(titles=("Extract of 2025", "", "# by R")),
    Written(titles=("Extract, of, all, wards",)),
    Written(titles=("Extract,",)),
    Written(sep=";", sep_line=True, titles=("Extract of 2025",), ends=(2, 2)),
    Written(ends=(1, 0)),
    Written(ends=(0, 1)),
    Written(ends=(3, 1), quoted=True),
    Written(around=("\u00a0 ", "\t")),
    Written(around=("\ufeff", " "), encoding="utf-8-sig", quoted=True),
    Written(encoding="utf-16", line_end="\r"),
]


@pytest.mark.parametrize("which", ["both", "public", "private"])
@pytest.mark.parametrize("layout", READ, ids=range(len(READ)))
def test_exports_are_read(tmp_path, expected, layout, which):
    other = Written()
    (layout if which != "private" else other).write(tmp_path / "public.csv", PUBLIC)
    (layout if which != "public" else other).write(tmp_path / "private.csv", PRIVATE)
    found = read_or_message(files_of(tmp_path))
    if layout.titles and which == "private":
        assert "--skip-lines" in found
        n_titles = len(layout.titles)
        found = read_or_message(files_of(tmp_path, CSVFormat(skip_lines=n_titles)))
    assert_same(found, expected)


def test_an_option_wins_over_a_title_that_looks_like_a_header(tmp_path, expected):
    layout = Written(titles=("Extract,all",))
    layout.write(tmp_path / "public.csv", PUBLIC)
    layout.write(tmp_path / "private.csv", PRIVATE)
    assert "target='ill' is not a column" in read_or_message(files_of(tmp_path))
    assert_same(read_or_message(files_of(tmp_path, CSVFormat(skip_lines=1))), expected)


def test_a_record_that_is_a_header_is_not_looked_for(tmp_path):
    """The header lacks a name, and one record holds all names: the run is refused as without this record."""
    Written().write(tmp_path / "public.csv", PUBLIC)
    messages = []
    for record in (["50", "n", "yes"], ["age", "ward", "ill"]):
        Written().write(tmp_path / "private.csv", [["Age", "Ward", "ill"], record, *PRIVATE[1:]])
        messages.append(read_or_message(files_of(tmp_path)))
    assert messages[0] == messages[1]
    assert "none of the columns of the public table" in messages[0]


def test_surplus_entries_are_the_fault_of_their_record(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,\n1,2,\n3,4\n5,6,7\n8,9,,,\n")
    assert read_csv(path, CSVFormat(), keep_broken=True)["b"].fillna("?").tolist() == ["2", "4", "?", "9"]
    with pytest.raises(FileError, match="line 4 has 3 entries, but the header has 2"):
        read_csv(path, CSVFormat())
    # A public column without a name keeps its place.
    assert list(read_csv(path, CSVFormat(), public=True).dropna().columns) == ["a", "b", "Unnamed: 2"]
    known = Expected(names=frozenset({"Unnamed: 2"}))
    assert read_csv(path, CSVFormat(), like=known, keep_broken=True)["Unnamed: 2"].tolist()[2] == "7"


def test_a_half_character_in_utf_16_changes_no_other_record(tmp_path):
    path = tmp_path / "t.csv"
    start = "a,b\n1,x\n".encode("utf-16")
    path.write_bytes(start + b"\x00\xdc,\x00y\x00\n\x00" + "3,z\n".encode("utf-16-le"))
    table = read_csv(path, CSVFormat(), keep_broken=True)
    assert table["b"].tolist()[::2] == ["x", "z"]


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("sep=;\na;b\n1;2\n", CSVFormat(sep="|"), "another separator in its first line"),
        ("sep=,\na,b\n1,2\n", CSVFormat(decimal=","), "leave out --decimal"),
        ("a, a\n1,2\n", CSVFormat(), "names a column twice"),
        ('"a,b\n1,2\n', CSVFormat(), "quotation mark in its header"),
        ("\n\n", CSVFormat(), "it is empty"),
    ],
)
def test_layouts_that_cannot_be_are_refused(tmp_path, text, form, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    for public in (True, False):
        with pytest.raises((DataError, FileError), match=message):
            csv_layout(path, form, public=public)


def test_the_layout_is_stated_in_words(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("sep=;\nTitle\n a;b;\n1;2;\n3;4;\n")
    words = csv_layout(path, CSVFormat(), public=True).words(None)
    for part in ("';' separates columns (sep= in its first line)", "the header is line 3", "skipped: 1", "left out"):
        assert part in words
