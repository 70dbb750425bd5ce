"""How SQLite, PostgreSQL and DuckDB write names, texts, numbers and dates."""

from __future__ import annotations

from dataclasses import dataclass

from dpensemble._checks import shown
from dpensemble.errors import InvalidParameterError

# Bytes of a name in PostgreSQL, which cuts longer names without an error.
_LONGEST_NAME = 63
# Adding and subtracting this number rounds a double below 2**51 to a whole number, and halves to the even one.
# Whole numbers up to this one are written plainly.
_FEW = 1000
_ROUNDING = "6755399441055744.0"


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The rules of one database.

    Parameters
    ----------
    name : str
        Name for people.
    real, text : str
        Types of doubles and of texts.
    fence : str
        What ends a step, so that the steps after it do not compute its columns again.
    most_columns : int
        Columns of one step, at most.
    ignores_capitals : bool
        Whether names that differ only in capitals are the same.
    note : str
        What the database needs, one sentence.
    """

    name: str
    real: str
    text: str
    fence: str
    most_columns: int
    ignores_capitals: bool
    note: str

    def identifier(self, name: str) -> str:
        """Return a name in quotation marks. Raise for a name that the database cannot have."""
        self._require_writable("name", name)
        if not name:
            raise InvalidParameterError(f"{self.name} has no empty names: rename the column, and train again.")
        if self is POSTGRESQL and len(name.encode("utf-8")) > _LONGEST_NAME:
            raise InvalidParameterError(
                f"the name {shown(name)} has {len(name.encode('utf-8'))} bytes, and PostgreSQL cuts names after "
                f"{_LONGEST_NAME}: use another dialect, --format python or --format onnx."
            )
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        """Return a text in quotation marks. Raise for a text that the database cannot hold."""
        self._require_writable("text", text)
        quoted = text.replace("'", "''")
        if self is POSTGRESQL and "\\" in quoted:
            # Read alike by every setting of standard_conforming_strings.
            return "E'" + quoted.replace("\\", "\\\\") + "'"
        return f"'{quoted}'"

    def _require_writable(self, what: str, text: str) -> None:
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InvalidParameterError(
                f"the {what} {shown(text)} holds a NUL or half a character, which SQL cannot hold: rename it and "
                "train again, or use --format python."
            )

    def number(self, value: float) -> str:
        """Return a double that stands in an expression with other doubles."""
        if float(value).is_integer() and abs(value) < _FEW:
            return str(int(value))
        if self is SQLITE:
            return self.double(value)
        text = str(int(value)) if float(value).is_integer() and abs(value) < 2**31 else repr(float(value))
        return text if self is not DUCKDB or "e" in text else f"{text}e0"

    def double(self, value: float) -> str:
        """Return a double that keeps its type anywhere."""
        text = repr(float(value))
        if self is POSTGRESQL:
            return f"{int(value) if float(value).is_integer() and abs(value) < 2**53 else text}::float8"
        if self is SQLITE:
            # SQLite compares each constant with all others, unless a function is around it.
            return f"-abs({text[1:]})" if text.startswith("-") else f"abs({text})"
        return text if "e" in text else f"{text}e0"

    def as_number(self, column: str) -> str:
        """Return a column as doubles, NULL for NaN and for blank texts."""
        if self is SQLITE:
            # SQLite would read any other text as 0.
            return (
                f"CASE WHEN typeof({column}) IN ('integer', 'real') OR (trim({column}) GLOB '*[0-9]*' AND NOT "
                f"trim({column}) GLOB '*[^-+.0-9eE]*') THEN CAST({column} AS REAL) END"
            )
        return f"NULLIF(CAST({column} AS {self.real}), CAST('NaN' AS {self.real}))"

    def as_text(self, column: str) -> str:
        """Return a column as texts, compared letter by letter, NULL for empty texts."""
        collate = {SQLITE: "COLLATE BINARY", POSTGRESQL: 'COLLATE "C"', DUCKDB: "COLLATE C"}[self]
        return f"NULLIF(CAST({column} AS {self.text}), '') {collate}"

    def is_date(self, text: str) -> str:
        """Return whether a text begins with a date such as 2025-12-31, perhaps before a time."""
        digits = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
        if self is POSTGRESQL:
            return f"{text} ~ '^{digits}([ T]|$)'"
        if self is DUCKDB:
            return f"regexp_matches({text}, '^{digits}([ T]|$)')"
        return f"({text} GLOB '{digits}' OR {text} GLOB '{digits}[ T]*')"

    def part_of_date(self, text: str, first: int, length: int) -> str:
        """Return some digits of a text as a whole number."""
        return f"CAST(substr({text}, {first}, {length}) AS INTEGER)"

    def quotient(self, dividend: str, divisor: int) -> str:
        """Return the whole quotient of two whole numbers of at least 0."""
        return f"({dividend}) // {divisor}" if self is DUCKDB else f"({dividend}) / {divisor}"

    def extreme(self, expressions: list[str], *, largest: bool) -> str:
        """Return the largest or smallest of expressions that are not NULL."""
        function = ("max" if largest else "min") if self is SQLITE else "greatest" if largest else "least"
        while len(expressions) > 1:
            # SQLite takes up to 127 arguments.
            parts = [expressions[start : start + 100] for start in range(0, len(expressions), 100)]
            expressions = [f"{function}({', '.join(part)})" if len(part) > 1 else part[0] for part in parts]
        return expressions[0]

    def rounded(self, expression: str) -> str:
        """Return a double below 2**51 rounded to a whole number, and halves to the even one."""
        shift = _ROUNDING if self is not DUCKDB else f"{_ROUNDING}e0"
        return f"(({expression} + {shift}) - {shift})"


SQLITE = Dialect(
    name="SQLite",
    real="REAL",
    text="TEXT",
    fence=" LIMIT -1 OFFSET 0",
    most_columns=2000,
    ignores_capitals=True,
    note="SQLite needs its mathematical functions (exp and sqrt, since 3.35): if it answers 'no such function: exp', "
    "take a build with SQLITE_ENABLE_MATH_FUNCTIONS, or the Python file.",
)
POSTGRESQL = Dialect(
    name="PostgreSQL",
    real="double precision",
    text="text",
    fence=" OFFSET 0",
    most_columns=1600,
    ignores_capitals=False,
    note="Run SET jit = off; before, since PostgreSQL would compile a long statement for longer than it runs.",
)
DUCKDB = Dialect(
    name="DuckDB",
    real="DOUBLE",
    text="VARCHAR",
    fence="",
    most_columns=4000,
    ignores_capitals=True,
    note="DuckDB computes many rows at a time, so that large tables are fastest here.",
)
#: Dialects by the name on the command line.
DIALECTS = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "duckdb": DUCKDB}
