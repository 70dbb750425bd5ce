"""What the command line reads off source files, without importing them."""

import inspect

import pytest

from dpensemble import methods
from dpensemble.cli.choice import METHODS, SOURCES, law_classes, law_of
from dpensemble.cli.help import one_line
from dpensemble.cli.signatures import Sources

BASE = '''
from somewhere import nothing

LIMIT = 0.25


class Base(Unknown):
    """Vote plainly.

    More of it.

    Parameters
    ----------
    teacher, student : classifier, optional
        Base learners. Two of them.
    kind : {"first", "second"}, default="first"
        Which. It matters.
    epsilon, delta : float
        Budget of one fit. `delta` is e.g. small.
    limit : float, default=0.25
        At most this.
    shape : Shape, default="round"
        Looks.

    Attributes
    ----------
    kind_ : str
        Not a parameter.
    """

    def __init__(self, teacher=None, student: Any = None, *, kind: str = "first", epsilon: float = 1.0,
                 delta: float = 1e-5, limit: float = LIMIT, shape: str = Shape.ROUND) -> None:
        pass

    def fit(self, X, y, *, budgets=None):
        pass
'''

CHILD = '''
class Child(Base):
    """Vote by turns.

    Parameters
    ----------
    kind, epsilon
        As for `Base`; by turns.
    more : int, optional
        Its own.
    """

    def __init__(self, *, kind: str = "second", epsilon: float | None = None, more: int | None = None) -> None:
        pass


class Same(Child):
    """Vote by the same turns."""
'''

LAW = '''
@dataclass(frozen=True)
class Law(ReleaseLaw):
    """Add noise.

    Parameters
    ----------
    noise : float
        How much. Really.
    """

    name: ClassVar[str] = "noisy"
    noise: float
    batch: int = 100
'''


@pytest.fixture
def sources(tmp_path):
    for name, text in (("methods/base", BASE), ("methods/child", CHILD), ("laws/law", LAW)):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return Sources(tmp_path)


def test_types_defaults_values_and_texts(sources):
    described = sources.describe("Base")
    assert (described.name, described.summary) == (None, "Vote plainly")
    assert described.fit == ("self", "X", "y", "budgets")
    found = described.parameters
    assert list(found) == ["teacher", "student", "kind", "epsilon", "delta", "limit", "shape"]
    assert found["student"].summary == "Base learners"
    assert found["teacher"].scalar is None
    assert (found["kind"].scalar, found["kind"].choices, found["kind"].default) == (
        str,
        ("first", "second"),
        "first",
    )
    assert found["delta"].summary == "Budget of one fit"
    assert (found["limit"].default, found["shape"].default) == (0.25, "round")


def test_texts_that_refer_to_another_class_and_constructors_that_are_inherited(sources):
    found = sources.describe("Same").parameters
    assert list(found) == ["kind", "epsilon", "more"]
    assert (found["kind"].summary, found["kind"].choices, found["kind"].default) == (
        "Which",
        ("first", "second"),
        "second",
    )
    assert found["epsilon"].summary == "Budget of one fit"
    assert found["epsilon"].scalar is float
    assert found["more"].summary == "Its own"
    assert sources.describe("Same").fit[-1] == "budgets"


def test_fields_of_a_dataclass(sources):
    law = sources.describe("Law")
    assert (law.name, list(law.parameters)) == ("noisy", ["noise", "batch"])
    assert (law.parameters["noise"].required, law.parameters["batch"].default) == (True, 100)


def test_an_unknown_class_is_no_class(sources):
    assert not sources.has("Nobody")
    with pytest.raises(LookupError, match="Nobody"):
        sources.describe("Nobody")


def test_lines_are_cut_where_a_clause_ends():
    assert one_line("Teachers, up to 2,001 where answers are noisy", 30) == "Teachers, up to 2,001 ..."
    assert one_line("short", 30) == "short"


@pytest.mark.parametrize("name", METHODS)
def test_what_is_read_is_what_python_has(name):
    read = SOURCES.describe(METHODS[name]).parameters
    real = inspect.signature(getattr(methods, METHODS[name])).parameters
    assert list(read) == list(real)
    assert {key: entry.default for key, entry in read.items()} == {key: p.default for key, p in real.items()}
    assert all(entry.text for entry in read.values())
    assert not any(entry.text.startswith("As for") for entry in read.values())


@pytest.mark.parametrize("name", law_classes())
def test_fields_of_laws_are_described(name):
    assert all(field.text and field.scalar for field in law_of(name).parameters.values())


def test_names_in_a_file():
    assert SOURCES.keys("workflow/learners.py", "LEARNERS")[0] == "logistic-regression"
    with pytest.raises(LookupError):
        SOURCES.keys("workflow/learners.py", "NOTHING")
