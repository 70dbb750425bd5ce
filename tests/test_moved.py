"""Old import paths work, warn at the line that uses them, and lead to the same objects as the new paths."""

import importlib
import inspect
import pickle
import re
import subprocess
import sys
import threading
import typing
import warnings
from collections import defaultdict
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import dpensemble
from dpensemble import _moved
from dpensemble._moved import MODULES, NAMES, SAVED_CLASSES
from dpensemble.errors import DPEnsembleError

ROOT = Path(__file__).parents[1]
PACKAGE = Path(dpensemble.__file__).parent
LINES = (ROOT / "tests" / "released_paths.txt").read_text(encoding="utf-8").splitlines()
#: "module" or "module:name", as users of earlier versions import them.
RELEASED = [line for line in LINES if not line.startswith("#")]
#: Paths of what no longer exists -> the reason, which the changelog states.
WITHDRAWN = dict.fromkeys(
    (
        "dpensemble.datasets:load_cifar10",
        "dpensemble:load_cifar10",
        "dpensemble.datasets.images:load_cifar10",
    ),
    "CIFAR-10 from pictures of a package is in reproductions/cifar10.py.",
)
DOTTED = re.compile(r"(?<![\w./-])dpensemble(?:\.[A-Za-z_]\w*)+")
FROM = re.compile(r"from (dpensemble[\w.]*) import (?:\(([^)]*)\)|([^\n(]+))")
#: Of these, no line may use an old path. The changelog describes what was.
SOURCES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "mkdocs.yml", "pyproject.toml")),
    *(ROOT / "docs").glob("*.md"),
    *(path for name in ("src", "examples", "benchmarks", "scripts") for path in (ROOT / name).rglob("*.py")),
    *(path for path in (ROOT / "reproductions").rglob("*") if path.suffix in (".py", ".toml")),
]
SOURCES.remove(Path(_moved.__file__))


def by_package():
    groups = defaultdict(list)
    for path in RELEASED:
        groups[".".join(path.replace(":", ".").split(".")[:2])].append(path)
    return groups.items()


def there(path):
    """Return what a path leads to. Python shows no warning twice at a line unless it is asked to."""
    module, _, name = path.partition(":")
    value = importlib.import_module(module)
    return getattr(value, name) if name else value


def entries():
    return NAMES | SAVED_CLASSES


def has_moved(path):
    return path.partition(":")[0] in MODULES or path in entries()


@pytest.mark.parametrize("paths", [pytest.param(paths, id=package) for package, paths in by_package()])
def test_every_released_path_works_and_warns_if_it_has_moved(paths):
    for path in [path for path in paths if path not in WITHDRAWN]:
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            try:
                value = there(path)
            except DPEnsembleError as error:
                # The part needs an extra that this environment lacks.
                if "pip install" not in str(error):
                    raise
                continue
        categories = {one.category for one in shown if "has moved" in str(one.message)}
        assert categories == ({DeprecationWarning} if has_moved(path) else set()), path
        assert all(one.filename == __file__ for one in shown if one.category is DeprecationWarning), path
        assert inspect.ismodule(value) or ":" in path, path
    forget(MODULES)


@pytest.mark.filterwarnings("ignore:dpensemble:DeprecationWarning")
def test_what_was_withdrawn_is_gone_and_was_once_released():
    assert set(WITHDRAWN) <= set(RELEASED)
    for path in WITHDRAWN:
        with pytest.raises((ImportError, AttributeError)):
            there(path)


def test_the_released_paths_are_many_and_never_fewer():
    assert len(RELEASED) == len(set(RELEASED)) >= 647


def forget(modules):
    """Remove modules of old paths from where an import puts them."""
    for module in modules:
        package, _, name = module.rpartition(".")
        stub = sys.modules.pop(module, None)
        if stub is not None and vars(sys.modules.get(package, dpensemble)).get(name) is stub:
            delattr(sys.modules[package], name)


def exists(module):
    """Return whether a module has a file, and so have the packages around it."""
    path, beginning = dpensemble.__path__, "dpensemble"
    for name in module.split(".")[1:]:
        beginning = f"{beginning}.{name}"
        spec = PathFinder.find_spec(beginning, path)
        if spec is None or spec.loader is None:
            return False
        path = spec.submodule_search_locations or []
    return True


def test_the_tables_are_about_modules_that_are_gone_and_lead_to_what_is_there():
    problems = [f"{old} still has a file" for old in MODULES if exists(old)]
    problems += [f"{old}: {new} has no file" for old, new in MODULES.items() if not exists(new)]
    for old in MODULES:
        package = old.rpartition(".")[0]
        if not (package in MODULES or package == "dpensemble" or exists(package)):
            problems.append(f"{old}: {package} is neither there nor in MODULES")
        stub = PACKAGE / f"{old.rpartition('.')[2]}.pyi"
        if package == "dpensemble" and not (stub.exists() and MODULES[old] in stub.read_text(encoding="utf-8")):
            problems.append(f"{stub.name} is missing, or does not import from {MODULES[old]}, for type checkers")
    for old, new in entries().items():
        module, _, name = old.partition(":")
        if not (module in MODULES or exists(module)):
            problems.append(f"{old}: {module} is neither there nor in MODULES")
        elif module not in MODULES and name in vars(importlib.import_module(module)):
            problems.append(f"{old}: {module} has another {name}")
        if module == "dpensemble":
            problems.append(f"{old}: exports of the top package do not move")
        if not exists(new.partition(":")[0]) or not hasattr(there(new.partition(":")[0]), new.partition(":")[2]):
            problems.append(f"{old}: {new} is not there")
    rooms = {f"dpensemble.{stub.stem}" for stub in PACKAGE.glob("*.pyi")}
    problems += [f"{room} has a file for type checkers, but is not gone" for room in rooms - set(MODULES)]
    problems += [f"{key} stands in two tables" for key in NAMES.keys() & SAVED_CLASSES.keys()]
    assert problems == []


def is_old(dotted):
    parts = dotted.split(".")
    beginnings = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    return any(one in MODULES or ":".join(one.rsplit(".", 1)) in entries() for one in beginnings)


def paths_in(text):
    """Yield the paths that a text imports or names with all their dots."""
    yield from (found[0] for found in DOTTED.finditer(text))
    for module, inside, line in FROM.findall(text):
        names = (name.split() for name in re.sub(r"#.*", "", inside or line).split(","))
        # A package may export a function by the name of a module that is gone.
        exports = getattr(importlib.import_module(module), "__all__", ()) if exists(module) else ()
        yield from (f"{module}.{name[0]}" for name in names if name and name[0] not in exports)


def test_nothing_of_ours_uses_an_old_path():
    named = {path: [one for one in paths_in(path.read_text(encoding="utf-8")) if is_old(one)] for path in SOURCES}
    assert {str(path.relative_to(ROOT)): old for path, old in named.items() if old} == {}


@pytest.mark.usefixtures("moved")
def test_an_old_path_is_found_in_any_form():
    assert sorted(one for one in paths_in(USES) if is_old(one)) == [
        *(["dpensemble.former"] * 2),
        *(["dpensemble.former.Thing"] * 2),
        "dpensemble.former.spend",
        "dpensemble.plain.Thing",
    ]


FILES = {
    "place/__init__.py": '"""A new place."""\nfrom dpensemble.place.inner import Thing, spend\nlower = 1\n',
    "place/inner.py": "class Thing:\n    pass\n\ndef spend():\n    return 'spent'\n\ndef _helper():\n    return 1\n",
    "stays/__init__.py": "from dpensemble.place.inner import spend\n",
    "plain.py": "here = 1\n",
}


USES = """See `dpensemble.former.Thing` of dpensemble.place.
import dpensemble.former
from dpensemble.plain import here, Thing as Other
from dpensemble.former import (
    Thing,  # the first
    spend,
)
from dpensemble import guarantee
"""


@pytest.fixture
def moved(tmp_path, monkeypatch):
    """Add modules to the package, and old paths of them to the tables."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    before = {name for name in sys.modules if name.startswith("dpensemble.")}
    monkeypatch.setattr(dpensemble, "__path__", [*dpensemble.__path__, str(tmp_path)])
    modules = {
        "dpensemble.former": "dpensemble.place",
        "dpensemble.former.inside": "dpensemble.place.inner",
        "dpensemble.former.spend": "dpensemble.place.inner",
        "dpensemble.stays.spend": "dpensemble.place.inner",
        "dpensemble.plain.once_a_package": "dpensemble.place.inner",
    }
    names = {
        "dpensemble.former:helper": "dpensemble.place.inner:_helper",
        "dpensemble.plain:Thing": "dpensemble.place.inner:Thing",
    }
    classes = {"dpensemble.former.inside:Saved": "dpensemble.place.inner:Thing"}
    for table, entries in ((MODULES, modules), (NAMES, names), (SAVED_CLASSES, classes)):
        for old, new in entries.items():
            monkeypatch.setitem(table, old, new)
    monkeypatch.setattr(_moved, "_HOSTS", _moved._hosts())
    yield
    for name in {name for name in sys.modules if name.startswith("dpensemble.")} - before:
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if package == "dpensemble":
            vars(dpensemble).pop(last, None)


def run(code, action="always"):
    """Run a user's code, and return its names and the lines and texts of its warnings."""
    names = {"__name__": "user"}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)
        exec(compile(code, "user.py", "exec"), names)  # noqa: S102
    assert all((one.filename, one.category) == ("user.py", DeprecationWarning) for one in shown)
    return names, [(one.lineno, str(one.message)) for one in shown]


WORKING = [
    "import dpensemble.former as old; found = old.Thing",
    "from dpensemble import former; found = former.Thing",
    "import dpensemble; found = dpensemble.former.Thing",
    "from dpensemble.former import Thing as found",
    "from dpensemble.former.inside import Thing as found",
    "import dpensemble.former.inside; found = dpensemble.former.inside.Thing",
    "import dpensemble.former; found = dpensemble.former.inside.Thing",
    "from dpensemble.former import inside; found = inside.Saved",
    "from dpensemble.former.inside import Saved as found",
    "from dpensemble.former import *; found = Thing",
    "from dpensemble.plain import Thing as found",
    "import dpensemble.plain; found = dpensemble.plain.Thing",
    "from dpensemble.plain.once_a_package import Thing as found",
    "from dpensemble.stays.spend import Thing as found",
    "from importlib import import_module; found = import_module('dpensemble.former').Thing",
    "import pickle; found = pickle.loads(b'cdpensemble.former\\nThing\\n.')",
    "import pickle; found = pickle.loads(b'cdpensemble.former.inside\\nSaved\\n.')",
    "import pickle; found = pickle.loads(b'\\x80\\x04\\x8c\\x10dpensemble.plain\\x8c\\x05Thing\\x93.')",
]


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize("code", WORKING)
def test_a_class_is_the_same_through_every_path(code):
    names, shown = run(f"\n{code}")
    assert names["found"] is there("dpensemble.place.inner:Thing")
    assert pickle.loads(pickle.dumps(names["found"])) is names["found"]  # noqa: S301
    assert {line for line, _ in shown} == {2}


@pytest.mark.usefixtures("moved")
def test_a_warning_names_the_new_path():
    assert run("import dpensemble.former.inside")[1][-1][1] == (
        "dpensemble.former.inside has moved, and a later version removes this old path: use dpensemble.place.inner."
    )
    assert "dpensemble.former.helper" in run("from dpensemble.former import helper")[1][-1][1]
    assert run("from dpensemble.former import helper")[1][-1][1].endswith("use dpensemble.place.inner._helper.")


@pytest.mark.usefixtures("moved")
def test_each_place_is_shown_once():
    code = "for _ in range(3):\n    from dpensemble.former import Thing\nfrom dpensemble.former import Thing, spend\n"
    assert [line for line, _ in run(code, "default")[1]] == [2, 3]


def test_one_import_of_a_name_shows_one_warning_although_libraries_change_filters():
    code = "from dpensemble.ledger import Ledger"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr.count("DeprecationWarning: dpensemble.ledger has moved") == 1


@pytest.mark.usefixtures("moved")
def test_a_function_keeps_its_name_although_an_old_submodule_has_the_same():
    for package in ("dpensemble.stays", "dpensemble.former"):
        code = f"import {package}.spend\nfrom {package}.spend import Thing\nfrom {package} import spend\n"
        assert run(code)[0]["spend"]() == "spent"
        assert run(f"import {package}\nfound = {package}.spend()\n")[0]["found"] == "spent"


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("import dpensemble.former.nothing", ModuleNotFoundError, "dpensemble.former.nothing"),
        ("from dpensemble.former import nothing", ImportError, "nothing"),
        ("import dpensemble.former\ndpensemble.former.nothing", AttributeError, "'dpensemble.former' has no"),
        ("from dpensemble.plain import nothing", ImportError, "nothing"),
        ("import dpensemble.plain\ndpensemble.plain.nothing", AttributeError, "'dpensemble.plain' has no"),
        ("import dpensemble.plain.nothing", ModuleNotFoundError, "dpensemble.plain.nothing"),
        ("from dpensemble.former.inside import lower", ImportError, "lower"),
    ],
)
def test_what_was_never_there_is_not_found(code, error, words):
    with pytest.raises(error, match=words):
        run(code)


@pytest.mark.usefixtures("moved")
def test_tools_see_the_module_in_the_new_place():
    names, _ = run("import dpensemble.former as old\nimport dpensemble.plain as plain\n")
    old, plain = names["old"], names["plain"]
    assert "A new place" in inspect.getsource(old)
    assert "here = 1" in inspect.getsource(plain)
    assert old.__doc__ == "A new place."
    assert old.__name__ == "dpensemble.former"
    assert {"Thing", "helper", "lower"} <= set(dir(old))
    # Tools ask every module for such names, without a line of a user.
    assert not hasattr(old, "__wrapped__")
    for module in (old, plain):
        assert pickle.loads(pickle.dumps(module)) is module  # noqa: S301
        assert inspect.ismodule(module)
    assert importlib.util.find_spec("dpensemble.former").name == "dpensemble.former"


@pytest.mark.usefixtures("moved")
def test_annotations_of_an_old_path_are_evaluated():
    code = (
        "from __future__ import annotations\nimport typing\nif typing.TYPE_CHECKING:\n"
        "    from dpensemble.former import Thing\n\ndef f(x: Thing): ...\n\n"
        "def g(x: dpensemble.former.Thing): ...\n"
    )
    names, shown = run(code)
    assert shown == []
    thing = there("dpensemble.place.inner:Thing")
    with pytest.warns(DeprecationWarning, match="moved"):
        assert typing.get_type_hints(names["g"], {"dpensemble": dpensemble}) == {"x": thing}
    assert typing.get_type_hints(names["f"], {"Thing": thing}) == {"x": thing}


@pytest.mark.usefixtures("moved")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_threads_get_the_same_class():
    gate, found = threading.Barrier(8), []

    def work():
        gate.wait()
        found.append(there("dpensemble.former.inside:Thing"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [there("dpensemble.place.inner:Thing")] * 8


@pytest.mark.usefixtures("moved")
def test_a_warning_that_is_an_error_stops_the_import_and_leaves_nothing():
    for _ in range(2):
        with pytest.raises(DeprecationWarning, match="moved"):
            run("import dpensemble.former", "error")
    assert "dpensemble.former" not in sys.modules


def test_other_modules_are_left_to_other_finders():
    finder = _moved.Finder()
    assert finder.find_spec("numpy") is None
    assert finder.find_spec("dpensemble") is None
    assert finder.find_spec("dpensemble.nothing_of_this_name") is None


def test_the_package_prepares_old_paths_before_it_imports_its_parts():
    code = (
        "import sys, dpensemble\n"
        "print([type(one).__name__ for one in sys.meta_path].count('Finder'), 'dataclasses' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["1", "False"]
