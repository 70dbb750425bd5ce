"""Parameters of a class and what its docstring says of them, read from source files without importing any.

Importing scikit-learn takes over a second; a version, a help page or a mistyped option should not wait for it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

_REFERENCE = re.compile(r"As (?:for|in) `(?:\w+\.)*?([A-Z]\w*)")
_SCALARS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: as the constructor has it, and as its docstring (numpydoc) describes it."""

    name: str
    annotation: str
    required: bool
    default: Any = None
    kind: str = ""
    text: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The values allowed, if the docstring names them: ``{"a", "b"}``."""
        braces = re.match(r"\{(.*?)\}", self.kind)
        return () if braces is None else tuple(re.findall(r"[\"']([^\"']+)[\"']", braces[1]))

    @property
    def scalar(self) -> type | None:
        """The number, text or truth value that it may be, None if it is none of them."""
        return next((_SCALARS[part] for part in self.annotation.split(" | ") if part in _SCALARS), None)

    @property
    def summary(self) -> str:
        """The first sentence of its text."""
        return first_sentence(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A class: its parameters, its short name, what it is in one sentence, what its ``fit`` takes, and if in blocks."""

    name: str | None
    title: str | None
    summary: str
    parameters: dict[str, Parameter]
    fit: tuple[str, ...] = ()
    in_blocks: bool = False


class Sources:
    """The source files below a folder."""

    def __init__(self, root: Path, rooms: tuple[str, ...] = ("methods", "laws", "design")) -> None:
        self.root = root
        self.rooms = rooms
        self._described: dict[str, Described] = {}
        self._trees: dict[Path, ast.Module] = {}

    @cached_property
    def _homes(self) -> dict[str, Path]:
        """File of each public class in the rooms."""
        found: dict[str, Path] = {}
        for path in (path for room in self.rooms for path in sorted((self.root / room).glob("*.py"))):
            for name in re.findall(r"^class ([A-Z]\w*)", path.read_text("utf-8"), re.MULTILINE):
                found.setdefault(name, path)
        return found

    def classes(self, room: str) -> list[str]:
        """Return the names of the public classes in a room's files."""
        return [name for name, path in self._homes.items() if path.parent == self.root / room]

    def named(self, room: str) -> dict[str, str]:
        """Return the public classes of a room that give themselves a name, by that name."""
        found = {}
        for path in sorted((self.root / room).glob("*.py")):
            owner = ""
            for line in path.read_text("utf-8").splitlines():
                owner = match[1] if (match := re.match(r"class ([A-Z]\w*)", line)) else owner
                if named := re.match(r'    name: ClassVar\[str\] = "(.+)"', line):
                    found[named[1]] = owner
        return dict(sorted(found.items()))

    def keys(self, file: str, name: str) -> list[str]:
        """Return the keys of a dictionary, or the values of an enumeration, that a file defines."""
        for node in self._tree(self.root / file).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                values = [item.value for item in node.body if isinstance(item, ast.Assign)]
                return [value.value for value in values if isinstance(value, ast.Constant)]  # type: ignore[misc]
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", None) == name:
                keys = node.value.keys if isinstance(node.value, ast.Dict) else []
                return [key.value for key in keys if isinstance(key, ast.Constant)]  # type: ignore[misc]
        raise LookupError(f"{file} defines no {name}")

    def has(self, name: str) -> bool:
        """Return whether some file defines this class."""
        return name in self._homes

    def describe(self, name: str) -> Described:
        """Return what a class takes, with texts such as "As for `X`" looked up in ``X``."""
        if name not in self._described:
            self._described[name] = self._describe(name)
        return self._described[name]

    def _describe(self, name: str) -> Described:
        if not self.has(name):
            raise LookupError(f"no source file defines the class {name}")
        tree = self._tree(self._homes[name])
        node = next(item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == name)
        docstring = ast.get_docstring(node) or ""
        documented = _documented(docstring)
        bases = [base for base in map(_base_name, node.bases) if base is not None and self.has(base)]
        parameters = {}
        for parameter in _constructor(node, tree) or self._inherited(node, tree, bases):
            kind, text = documented.get(parameter.name, (parameter.kind, parameter.text))
            found = replace(parameter, kind=kind or parameter.kind, text=text or parameter.text)
            parameters[found.name] = self._resolved(found, name, bases)
        return Described(
            name=_class_text(node, "name"),
            title=_class_text(node, "title"),
            summary=first_sentence(" ".join(docstring.split("\n\n")[0].split())),
            parameters=parameters,
            fit=_fit(node) or next((self.describe(base).fit for base in bases), ()),
            in_blocks=any(isinstance(item, ast.FunctionDef) and item.name == "fit_blocks" for item in node.body)
            or any(self.describe(base).in_blocks for base in bases),
        )

    def _inherited(self, node: ast.ClassDef, tree: ast.Module, bases: list[str]) -> list[Parameter]:
        """Return what the bases take, and the fields of a dataclass."""
        found = {name: entry for base in bases for name, entry in self.describe(base).parameters.items()}
        found |= {field.name: field for field in _fields(node, tree)}
        return list(found.values())

    def _resolved(self, parameter: Parameter, owner: str, bases: list[str]) -> Parameter:
        """Return the parameter with the text of the class that its own text refers to."""
        reference = _REFERENCE.match(parameter.text)
        sources = [reference[1]] if reference is not None else ([] if parameter.text else bases)
        for source in sources:
            if source != owner and self.has(source):
                there = self.describe(source).parameters.get(parameter.name)
                if there is not None and there.text:
                    return replace(parameter, kind=parameter.kind or there.kind, text=there.text)
        default = re.search(r"default=(.+)$", parameter.kind)
        if parameter.default is Ellipsis:
            return replace(parameter, default=None if default is None else _literal(default[1]))
        return parameter

    def _tree(self, path: Path) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = ast.parse(path.read_text("utf-8"))
        return self._trees[path]


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop.

    Examples
    --------
    >>> first_sentence("Budget of one fit. `delta` must be below 1 / n_records.")
    'Budget of one fit'
    """
    return re.split(r"\.(?=\s+[\"`(A-Z]|$)", text, maxsplit=1)[0]


def _documented(docstring: str) -> dict[str, tuple[str, str]]:
    """Return type and text of each parameter in the section "Parameters"."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S[^\n]*\n-+\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    entries: dict[str, tuple[str, str]] = {}
    if section is None:
        return entries
    for entry in re.split(r"\n(?=\S)", section[1]):
        head, *body = entry.split("\n")
        names, _, kind = head.partition(" : ")
        text = " ".join(" ".join(body).split())
        entries |= {name.strip(): (kind.strip(), text) for name in names.split(",")}
    return entries


def _constructor(node: ast.ClassDef, tree: ast.Module) -> list[Parameter] | None:
    """Return what ``__init__`` takes, None if the class has none."""
    function = _function(node, "__init__")
    if function is None:
        return None
    arguments = function.args
    ordinary = arguments.args[1:]
    absent: list[ast.expr | None] = [None] * (len(ordinary) - len(arguments.defaults))
    pairs = [*zip(ordinary, [*absent, *arguments.defaults], strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [_parameter(argument.arg, argument.annotation, default, tree) for argument, default in pairs]


def _fields(node: ast.ClassDef, tree: ast.Module) -> list[Parameter]:
    """Return the fields of a dataclass."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return []
    fields = [
        _parameter(item.target.id, item.annotation, item.value, tree)
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    return [field for field in fields if "ClassVar" not in field.annotation]


def _parameter(name: str, annotation: ast.expr | None, default: ast.expr | None, tree: ast.Module) -> Parameter:
    written = "" if annotation is None else ast.unparse(annotation)
    value = None if default is None else _value(default, tree)
    return Parameter(name=name, annotation=written, required=default is None, default=value)


def _value(node: ast.expr, tree: ast.Module) -> Any:
    """Return a default; that of a constant of the same file is looked up, any other is an Ellipsis."""
    if isinstance(node, ast.Name):
        constants = {
            target.id: item.value
            for item in tree.body
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Name)
        }
        node = constants.get(node.id, node)
    return _literal(ast.unparse(node))


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ...


def _class_text(node: ast.ClassDef, name: str) -> str | None:
    """Return the text that a class assigns to a name."""
    for item in node.body:
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        value = getattr(item, "value", None)
        if getattr(target, "id", None) == name and isinstance(value, ast.Constant):
            return value.value if isinstance(value.value, str) else None
    return None


def _fit(node: ast.ClassDef) -> tuple[str, ...]:
    function = _function(node, "fit")
    return () if function is None else tuple(a.arg for a in (*function.args.args, *function.args.kwonlyargs))


def _function(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def _base_name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None
