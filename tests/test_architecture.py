"""Imports point downwards and never in a circle, libraries stay behind their fences, and bad habits become fewer."""

import ast
import functools
import re
import runpy
import types
from pathlib import Path

import pytest

import dpensemble

PACKAGE = Path(dpensemble.__file__).parent

LAYERS = [
    {"_moved"},
    {"_early_interrupts", "errors", "relations"},
    {"_checks", "_files", "_hide_private_rows"},
    {"_entries", "_spending", "_same_code"},
    {"_work", "_random", "clusters", "guarantee"},
    {"cost", "_units"},
    {"allocation", "votes", "laws"},
    {"accounting", "darrm"},
    {"releases"},
    {"datasets"},
    {"teachers", "student", "report", "quality"},
    {"design"},
    {"moments"},
    {"rows"},
    {"neural"},
    {"persistence"},
    {"engine"},
    {"methods"},
    {"aggregation", "audit", "certificates"},
    {"workflow"},
    {"exports"},
    {"server", "mlflow"},
    {"sites"},
    {"cli"},
    {"__init__", "__main__"},
]
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}

# Outside library -> rooms that may import it.
FENCES = {
    "typer": {"cli"},
    "rich": {"cli", "_work"},
    "jinja2": {"report", "server"},
    "skops": {"persistence"},
    "threadpoolctl": {"_work"},
    "joblib": {"_work", "teachers", "neural", "datasets"},
    "narwhals": {"datasets"},
    "pandas": {"datasets", "moments", "rows", "workflow", "server", "sites", "cli"},
    "sklearn": {
        *("teachers", "student", "engine", "methods", "datasets", "moments", "rows", "workflow", "persistence"),
        "neural",
    },
    "lightgbm": set(),
    "statsmodels": set(),
    "reproductions": set(),
    # Designs compare aggregators by binomial votes, and import SciPy when they do.
    "scipy": {"teachers", "laws", "cost", "accounting", "darrm", "audit", "moments", "rows", "design", "workflow"},
    "highspy": {"darrm"},
    "dp_accounting": {"cost"},
    "torch": {"neural"},
    "dask": {"clusters"},
    "pyspark": {"datasets"},
    "duckdb": {"datasets"},
    "adbc_driver_manager": {"datasets"},
    "adbc_driver_sqlite": {"datasets"},
    "adbc_driver_postgresql": {"datasets"},
    "distributed": {"clusters"},
    "opacus": {"neural"},
    "sqlalchemy": {"server"},
    "cryptography": {"server", "sites"},
    "filelock": {"server"},
    "fastapi": {"server"},
    "starlette": {"server"},
    "pydantic": {"server"},
    "uvicorn": {"server"},
    "jwt": {"server"},
    "prometheus_client": {"server"},
    "httpx": set(),
    "mlflow": {"mlflow"},
    "onnx": {"exports"},
}

# Room -> rooms that may import it, or name one of its modules in a string. Estimators take any object with
# `one_release`, so none of them needs a ledger. `_moved` holds old paths and new ones. Sites use the service's client.
ROOM_FENCES = {"server": {"cli", "__init__", "_moved", "sites"}}


# Counts that may only fall. Lower the number here when a count has fallen.
RATCHETS = {
    "isinstance on own types": 15,
    "type(x) is": 15,
    "class patterns on own types": 0,
    # Seven are in `_units`, which reads types of numpy, pandas, Arrow and Polars, and may import none but numpy. One
    # is in `_moved`, which passes on names that a table holds.
    # And one finds the estimator that a command names, because a package loads its classes lazily.
    # Two more: whether a step reads tables, and the first number of a table's rows, which only some indices have.
    # And one finds out whether a ledger of a site is an account.
    "getattr and hasattr outside engine and rows": 87,
    # Commands pass values to functions now, where they passed texts. The server has more of its JSON in each module.
    # A rehearsal takes the decisions of a run, which are of any type. Nodes of ONNX have no types, and neither have
    # facts that an export writes as JSON.
    # Facts that an export writes as JSON, tags of a regressor and plain values of a life table are of any type, too.
    # Certificates and charges of sites are plain values, too, and options and facts of the command of life tables.
    # One more is of settings of the design of risks given a row.
    "lines with Any": 1157,
    # With `StatedRelease`, which `Ledger.restored` takes, and three of estimates for sizes of tables.
    # And `LabelMomentsRegressor`.
    # And with `LifeTable`.
    # Runs of several sites: `SiteRun`, `RunTerms` and their certificate.
    # And `LabelMomentsSurvival`.
    # And `HTTPMessages`, which takes the place of a folder.
    "exported names": 236,
    "circles of modules": 0,
}
# Counts of `scripts/size.py`, which state what a reader must know. They only fall as well. `_moved` is one module with
# one name for another, so that all others can move. A new subject that users asked for adds its module and few names.
STRUCTURE = {
    # With `cli.doctor`, `moments.softmax` (several classes) beside `moments.fits` (two), `datasets.excel`, and with
    # `datasets.dates` and `datasets.formats`: dates and numbers as people write them. And with `datasets.identifiers`.
    # Eight are exports, one for each format. Three are estimates for sizes of tables. Two are their commands.
    # Three are of numbers: sums of residuals, the run with its model, and the estimator.
    # Two are life tables: the sum and what follows from it, and the class whose `fit` checks rows.
    # Three are runs whose target is a number: kinds of targets, columns and figures of a number, and its page.
    # Eleven are of several sites: parts of noise, terms, masks, messages, the exchange, charges, sums that all sites
    # open, the run, a demonstration, the room itself, and its commands. Three are the command of life tables: its run,
    # its page and its options. Two are risks given a row: sums, fit and model, and the class whose `fit` checks rows.
    # Three more of several sites: what a party reads, messages over HTTPS at a site, and the service of their folder.
    # One is the quality of risks on held-back units.
    "modules": 247,
    # With `VerifierError`, `ShownAsSentences`, which spares each result a form for notebooks, and with
    # `progress_on_stderr` and `passes_counted`: what a command shows, and what a fit allows it to show. Also with what
    # a rehearsal repeats less often, and estimates of memory by the method whose arrays they count. And with
    # `in_blocks`, `blocks_of` and `settled`, by which every student reads rows in blocks. Four are of texts
    # that are encoded once. Seven are what both fits use. Seven are of workbooks and of pipes. Six are of maps
    # of wide and of mixed tables. Sixteen are what a command, a student and an estimator know about how entries are
    # written. One suggests the nearest name. Six are of columns that name people, and of tables that stay as given.
    # Exports share one description of a student, whose parts are 24 names. Others are of estimates for sizes of tables.
    # Thirty are of numbers: queries, law and fit of residuals, the run, and what both estimators share.
    # Nine are what a life table needs of its sum. Three are of the search for rare cases.
    # Twenty-two are runs whose target is a number: two kinds of targets, columns of predictions, and its page.
    # Forty-four are what eleven modules of several sites need of each other and of a run.
    # Eighteen are of the command of life tables: what its run takes of `train`, and its page of a run.
    # Fourteen are of risks given a row: counts and bins of a life table, a step of a fit, steps of a run without
    # classes, the design, and the model. Seventeen are runs about times: their target, columns of risks, and the page.
    # Fourteen are what a party reads of the terms, and what a client and a service of messages share with those of
    # answers. One is the link of a record to a fit, and three are what explains numbers, and weighs
    # them, as it does classes. One counts entries for a site that joins. Seven are times in blocks and in parts:
    # targets of several columns, how records of a unit count, and how both estimators read them. Four are the cells of
    # risks on held-back units, and the one charge of all such cells.
    # Two are numbers over several sites: the steps of a number, and its range in the terms.
    # Four are life tables over several sites: the steps of a life table, its rows, its page, and its curves in words.
    # Four are held-back units of several sites: their part, probabilities, cells, and the cost of both parts.
    # Three are of risks over several sites: how cells are read, the steps, and the estimator.
    # One is the counts of times that the owner is shown before a life table is paid for.
    "names used across modules": 1114,
    # `_early_interrupts` loads before all else, and `server.service_commands` only with the extra of the service.
    "modules below 100 lines with one user": 2,
    # Exports read students and run folders, and their commands call them.
    # Proven intervals follow from the cost of a run, so moments read costs.
    # A site runs the steps of a method on its own rows, so eleven packages meet in the room of sites. And its messages
    # go through the client of the service. They hold units back, whose cells are those of released quality.
    "pairs of packages": 118,
}
SIZE = types.SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "size.py"), run_name="size"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def nodes_of(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


@pytest.fixture(scope="module", autouse=True)
def forget_nodes():
    """Millions of objects would slow down every test that comes later in this process."""
    yield
    nodes_of.cache_clear()


def imports(source: str) -> list[str]:
    names = []
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            names += (
                [f"dpensemble.{alias.name}" for alias in node.names] if node.module == "dpensemble" else [node.module]
            )
    return names


def offences(here: str, source: str) -> list[str]:
    wrong = []
    for name in imports(source):
        top, *rest = name.split(".")
        if top == "dpensemble":
            there = rest[0] if rest else "__init__"
            fenced = here not in ROOM_FENCES.get(there, {here})
            if there != here and (fenced or LAYER_OF.get(there, 99) >= LAYER_OF[here]):
                wrong.append(f"{here} imports {there}")
        elif here not in FENCES.get(top, {here}):
            wrong.append(f"{here} imports {top}")
    named = {room for room in ROOM_FENCES if here not in {room, *ROOM_FENCES[room]} and names_module_of(room, source)}
    return wrong + [f"{here} names a module of {room}" for room in sorted(named)]


def names_module_of(room: str, source: str) -> bool:
    """Return whether a string is a module of a room, or a place in the module, as `import_module` takes them."""
    module = re.compile(rf"(dpensemble)?\.{room}(\.\w+)*(:\w+)?")
    strings = (node.value for node in nodes_of(source) if isinstance(node, ast.Constant))
    return any(isinstance(text, str) and module.fullmatch(text) for text in strings)


def test_every_room_has_a_layer():
    rooms = {room(path) for path in PACKAGE.rglob("*.py")}
    assert rooms == set(LAYER_OF)


def test_imports_point_downwards():
    wrong = [
        f"{path.relative_to(PACKAGE)}: {offence}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for offence in offences(room(path), path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("laws", "from dpensemble.accounting import Meter"),
        ("allocation", "import dpensemble.votes"),
        ("guarantee", "from dpensemble import cost"),
        ("methods", "import typer"),
        ("accounting", "from sklearn.base import clone"),
        ("workflow", "from dpensemble.server import Ledger"),
        ("workflow", "def charge():\n    import dpensemble.server.ledger"),
        ("engine", "import_module('dpensemble.server')"),
        ("methods", "import_module('.server.ledger', 'dpensemble')"),
        ("__main__", "from dpensemble.server import ledger"),
        ("cli", "import sqlalchemy"),
        ("report", "from fastapi import FastAPI"),
        ("workflow", "import mlflow"),
        ("cli", "import onnx"),
        ("cli", "from mlflow import MlflowClient"),
    ],
)
def test_the_gate_catches_an_upward_import(here, source):
    assert offences(here, source)


def test_the_command_line_sites_and_the_package_itself_use_the_server():
    files = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    users = {room(path) for path, source in files.items() if "dpensemble.server" in " ".join(imports(source))}
    # Otherwise the fence would guard a room that nobody uses.
    assert users - {"server"} == {"cli", "sites", "__init__"}


def lines_of(where, source):
    """Return lines that import discrete noise, and lines that charge a meter for a sum, outside their one place."""
    found = []
    for node in nodes_of(source):
        noise = isinstance(node, ast.ImportFrom) and "DiscreteNoise" in {alias.name for alias in node.names}
        if noise and where.split("/")[0] not in {"releases", "teachers"}:
            found.append(f"{where}:{node.lineno} imports DiscreteNoise")
        call = node.func if isinstance(node, ast.Call) else None
        charged = isinstance(call, ast.Attribute) and call.attr == "charge"
        if charged and "variance" in {keyword.arg for keyword in node.keywords} and where != "releases/sums.py":
            found.append(f"{where}:{node.lineno} charges for a sum")
    return found


def noise_made(source):
    """Return how often a module makes discrete noise."""
    calls = [node.func for node in nodes_of(source) if isinstance(node, ast.Call)]
    return sum("DiscreteNoise" in {getattr(call, "id", None), getattr(call, "attr", None)} for call in calls)


def test_sums_are_charged_and_get_their_noise_in_one_place():
    files = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    # Teachers have noise of their own. In the room of releases only sums draw.
    assert [line for where, source in files.items() for line in lines_of(where, source)] == []
    makers = {where: noise_made(source) for where, source in files.items() if where.startswith("releases/")}
    assert {where: count for where, count in makers.items() if count} == {"releases/sums.py": 1}
    sums = ast.parse(files["releases/sums.py"])
    charges = [
        node for node in ast.walk(sums) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "charge"
    ]
    draws = [
        node for node in ast.walk(sums) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "gaussian"
    ]
    assert [len(charges), len(draws)] == [1, 1]
    assert charges[0].lineno < draws[0].lineno


@pytest.mark.parametrize(
    "source",
    ["from dpensemble.releases import DiscreteNoise", "meter.charge(2.0, variance=2**60, entries=3)"],
)
def test_a_second_place_that_charges_or_draws_is_caught(source):
    assert lines_of("moments/averages.py", source)


def test_noise_that_a_release_makes_is_counted():
    source = "class DiscreteNoise(Original): ...\ndraws = DiscreteNoise(noise)\nsums.DiscreteNoise(noise).gaussian(2)"
    assert noise_made(source) == 2


def test_importing_the_package_leaves_heavy_extras_alone():
    import subprocess
    import sys

    # skops imports dask where it finds it, so dask is not among them.
    heavy = ("torch", "opacus", "ray", "typer", "sqlalchemy", "cryptography", "fastapi", "uvicorn", "mlflow", "onnx")
    code = f"import sys, dpensemble; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def module_name(path: Path) -> str:
    parts = ("dpensemble", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(tree: ast.AST, names: set[str]) -> set[str]:
    """Return the modules among `names` that a module imports anywhere: at its top, in functions, for type checkers."""
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= inner & names
            # A name that is not a module of its own comes from the package.
            imported |= {node.module} if inner - names else set()
    return imported & names


def circles(imported: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that reach each other by imports."""
    reached: dict[str, set[str]] = {}
    for module, direct in imported.items():
        reached[module], waiting = set(), [*direct]
        while waiting:
            other = waiting.pop()
            if other not in reached[module]:
                reached[module].add(other)
                waiting += imported[other]
    alike = {module: {other for other in reached[module] if module in reached[other]} for module in imported}
    return [set(one) for one in dict.fromkeys(frozenset(members) for members in alike.values() if members)]


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    # The first node of a walk is the module.
    return {module_name(path): nodes_of(path.read_text(encoding="utf-8"))[0] for path in PACKAGE.rglob("*.py")}


def circles_of(trees: dict[str, ast.Module]) -> list[set[str]]:
    return circles({name: imported_modules(tree, set(trees)) - {name} for name, tree in trees.items()})


def test_no_modules_import_each_other_in_a_circle(trees):
    assert circles_of(trees) == []


def test_circles_are_found_in_late_imports_and_in_those_for_type_checkers():
    sources = {
        "dpensemble.a": "def late():\n    from dpensemble import b",
        "dpensemble.b": "if TYPE_CHECKING:\n    from dpensemble.c import Thing",
        "dpensemble.c": "import dpensemble.a",
        "dpensemble.d": "from dpensemble.c import Thing",
    }
    trees = {name: ast.parse(source) for name, source in sources.items()}
    assert circles_of(trees) == [{"dpensemble.a", "dpensemble.b", "dpensemble.c"}]


def last_names(node: ast.expr) -> set[str]:
    """Return the names of the types in ``isinstance(x, node)``."""
    match node:
        case ast.Name():
            return {node.id}
        case ast.Attribute():
            return {node.attr}
        case ast.Tuple():
            return set().union(*map(last_names, node.elts))
        case ast.BinOp():
            return last_names(node.left) | last_names(node.right)
    return set()


def is_call(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def counts(trees: dict[str, ast.Module]) -> dict[str, int]:
    """Count the habits of `RATCHETS` in parsed modules. Own types are the classes that the modules define."""
    own = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    count = dict.fromkeys(RATCHETS, 0)
    for name, tree in trees.items():
        lines_with_any = set()
        for node in ast.walk(tree):
            if is_call(node, "isinstance") and last_names(node.args[1]) & own:
                count["isinstance on own types"] += 1
            if isinstance(node, ast.Compare) and any(is_call(side, "type") for side in (node.left, *node.comparators)):
                count["type(x) is"] += 1
            if isinstance(node, ast.MatchClass) and last_names(node.cls) & own:
                count["class patterns on own types"] += 1
            if is_call(node, "getattr", "hasattr") and not name.startswith(("dpensemble.engine", "dpensemble.rows")):
                count["getattr and hasattr outside engine and rows"] += 1
            if isinstance(node, ast.Name) and node.id == "Any":
                lines_with_any.add(node.lineno)
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
            ):
                count["exported names"] += len(node.value.elts)
        count["lines with Any"] += len(lines_with_any)
    count["circles of modules"] = len(circles_of(trees))
    return count


def hold(counted, limits, table):
    worse = {name: (counted[name], limit) for name, limit in limits.items() if counted[name] > limit}
    assert not worse, f"counts that have risen above {table} (count, limit): {worse}"
    better = {name: counted[name] for name, limit in limits.items() if counted[name] < limit}
    assert not better, f"counts that have fallen: lower {table} to {better}"


def test_bad_habits_never_grow(trees):
    hold(counts(trees), RATCHETS, "RATCHETS")


def test_the_structure_never_becomes_shallower():
    hold(SIZE.structure(SIZE.sources_of()), STRUCTURE, "STRUCTURE")


def test_what_crosses_modules_is_counted():
    sources = {
        "dpensemble": "from dpensemble.a import Exported",
        "dpensemble.a": "from dpensemble.a.inner import Exported\nfrom dpensemble.a.inner import _hidden",
        "dpensemble.a.inner": "class Exported: ...\ndef _hidden(): ...\ndef only_here(): ...\nonly_here()",
        "dpensemble.a.lines": "\n" * 200,
        "dpensemble.b": "",
        "dpensemble.b.one": "from dpensemble.a import Exported, inner\ninner._hidden()",
        "dpensemble.b.two": "from dpensemble.a.inner import Exported\nimport dpensemble.a.lines\ndpensemble.a.lines.x",
        "dpensemble.c": "from dpensemble.b import one",
    }
    counted = SIZE.structure(sources)
    assert counted["modules"] == len(sources)
    assert counted["lines of the largest module"] == 200
    # Exported by two ways, _hidden as an attribute, and x.
    assert counted["names used across modules"] == 3
    # `one`, since only `c` uses that module. `lines` is large, and `inner` has two users.
    assert counted["modules below 100 lines with one user"] == 1
    # A module at the top is not a package.
    assert counted["pairs of packages"] == 1


def test_a_walk_counts_modules_whose_functions_are_called():
    def work():
        SIZE.LabelMomentsClassifier(epsilon=1, delta=1e-5).get_params()

    assert SIZE.called(lambda: None) == 0
    assert 0 < SIZE.called(work) < 10


def test_every_bad_habit_is_counted():
    source = """
__all__ = ["Own"]
class Own: ...
def ask(x: Any):
    if isinstance(x, (int, Own)) or isinstance(x, int) or type(x) is Own:
        return getattr(x, "a"), hasattr(x, "b")
    match x:
        case Own() | int():
            return None
"""
    counted = counts({"dpensemble.a": ast.parse(source), "dpensemble.engine.a": ast.parse("getattr(x, 'a')")})
    assert counted == dict(zip(RATCHETS, (1, 1, 1, 2, 1, 1, 0), strict=True))


# Calls in which a name of a column would become a keyword, an attribute or a part of an expression.
BY_KEYWORD = {"assign", "DataFrame", "agg", "rename", "format", "Struct"}
NEVER = {"itertuples", "query"}


def names_as_keywords(tree: ast.AST) -> list[int]:
    """Return lines that pass names of columns as keywords, or read them in an expression."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            splat = any(keyword.arg is None for keyword in node.keywords)
            on_a_table = called == "eval" and node.args
            if (called in BY_KEYWORD and splat) or called in NEVER or on_a_table:
                lines.append(node.lineno)
    return lines


def test_no_call_passes_names_of_columns_as_keywords(trees):
    # These two format pieces of a drawing, whose keywords are names of the program.
    allowed = {"dpensemble.report.sections": 2}
    lines = {name: names_as_keywords(tree) for name, tree in trees.items()}
    assert {name: len(found) for name, found in lines.items() if found} == allowed, lines


def test_names_as_keywords_are_found():
    source = "t.assign(**{name: 1})\nDataFrame(**columns)\nt.query('a > 1')\nt.itertuples()\nt.eval('a')\nm.eval()"
    assert names_as_keywords(ast.parse(source)) == [1, 2, 3, 4, 5]


ROOMS = types.SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "rooms.py"), run_name="rooms")
)
DOCS = Path(__file__).parents[1] / "docs"


def test_every_package_has_one_room_of_the_picture_which_is_current():
    packages = [package for packages, _ in ROOMS.ROOMS.values() for package in packages]
    # Four modules of the top level belong to a room. The others are values, or help every room.
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"mlflow", "persistence", "student", "votes"}
    assert sorted(packages) == sorted(there - {"cost"})
    assert (DOCS / "images" / "rooms.svg").read_text(encoding="utf-8") == ROOMS.picture(), "run scripts/rooms.py"


def test_the_page_of_the_architecture_names_files_and_rooms_that_exist():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py|/))`", page)
    assert len(named) > 20
    places = (PACKAGE, PACKAGE.parents[1])
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
    assert sorted(re.findall(r"^\| ([A-Z][a-z ]+) \| `", page, re.MULTILINE)) == sorted(ROOMS.ROOMS)
