"""Check the English of Markdown pages and of Python docstrings, comments and messages.

``python scripts/prose.py FILE...`` checks files and folders. ``--changed`` compares with the merge base of ``main``, or
of another revision, and reports only findings that are new. A sentence that moved, or whose figures changed, is not
new. Code blocks, doctests, types in docstrings and inline code are skipped.

A sentence that reads well may keep a finding: write ``<!-- prose: allow -->`` in the Markdown block, or
``# prose: allow`` on a line of the Python comment or string. Add the names of rules to allow those only.

Exit code 0: no finding. 1: findings. 2: bad input.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: A sentence has at most 25 words as a rule, and never more than this.
MOST_WORDS = 30
#: A cell of a table holds a figure or a label.
MOST_WORDS_IN_A_CELL = 12

# Each rule: its name, what it finds, and what to write instead.
_WORDS = (
    ("tell", r"\b(?:tells?|told|telling|retold)\b", "code returns, reports, prints or stores"),
    ("say", r"\b(?:says?|said|saying)\b", "code returns, reports, raises or prints, and a page states"),
    ("old-word", r"\b(?:anew|lest|thereby|hence|whence|thereof|henceforth|whilst|at\shand|kin)\b", "use a plain word"),
    ("whoever", r"\b(?:whoever|whomever|whatever|whichever|wherever)\b", "name the person, thing or place"),
    ("so-many", r"\bso\s(?:many|much)\b", "give the number, or 'that many'"),
    ("is-no", r"\b(?<!there\s)(?:is|are|was|were)\sno\s(?!longer\b|more\b)\w+", "write what it is, or what to do"),
    ("of-which", r",\s(?:of|for|to|from|with)\s(?:which|whom)\b", "begin a new sentence, or use 'when' or 'if'"),
    # "Bagging alone" is the name of a method.
    ("by-itself", r"\b(?:by\s(?:itself|themselves|oneself)|(?<!bagging\s)alone)\b", "drop it, or name what is absent"),
    ("speaks", r"\b(?:speaks?\s(?:for|of)|word\sof|in\sthe\shouse)\b", "use a plain verb"),
    ("semicolon", r";(?=\s|$)", "begin a new sentence"),
)
RULES = {name: (re.compile(pattern, re.IGNORECASE), advice) for name, pattern, advice in _WORDS}
_ADVICE = {name: advice for name, (_, advice) in RULES.items()} | {
    "long-sentence": f"at most {MOST_WORDS} words, 25 as a rule: divide the sentence",
    "long-cell": f"at most {MOST_WORDS_IN_A_CELL} words in a table cell: move the prose below the table",
}
_ALLOW = re.compile(r"prose: allow((?: [a-z][a-z-]*)*)")
_MARKUP = (
    (re.compile(r"<!--.*?-->", re.DOTALL), " "),
    (re.compile(r"``.+?``|`[^`]*`", re.DOTALL), "X"),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"https?://\S+"), "X"),
    (re.compile(r"\$[^$]+\$"), "X"),
    (re.compile(r"&\w+;"), " "),
    (re.compile(r"[*_]{2,}|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)"), ""),
)
# X stands for code, and may end a sentence.
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|al|etc|vs|cf|[Ff]igs?|[Ss]ec|[Ee]qs?|[Tt]h|approx|resp|[A-WYZ])\.(?=\s)")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_WORD = re.compile(r"[A-Za-z][\w'’-]*|\d[\d.,]*")
_LISTED = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")


class InputError(Exception):
    """A file or option that cannot be used."""


@dataclass(frozen=True)
class Block:
    """A piece of prose: the number of its first line, its text, and whether it is a cell or a message."""

    line: int
    text: str
    cell: bool = False
    message: bool = False


@dataclass(frozen=True)
class Finding:
    """A sentence that breaks a rule."""

    file: str
    line: int
    rule: str
    sentence: str
    advice: str


def markdown(text: str) -> Iterator[Block]:
    """Yield the paragraphs, list items, headings and cells of a page."""
    fence, first, block = "", 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        mark = re.match(r"(`{3,}|~{3,})", bare)
        opens = bool(mark) and not fence
        breaks = opens or not bare or bare[0] in "|#>" or _LISTED.match(line)
        if not fence and breaks and block:
            yield Block(first, "\n".join(block))
            block = []
        if mark and (opens or bare.startswith(fence)):
            fence = mark[1] if opens else ""
        elif fence or not bare:
            continue
        elif bare[0] == "|":
            yield from (Block(number, cell, cell=True) for cell in _cells(bare))
        else:
            first = first if block else number
            block.append(re.sub(r"^(?:#+|>|[-*+]|\d+\.)\s+", "", bare))
            if bare[0] == "#":
                yield Block(first, block.pop())


def _cells(row: str) -> list[str]:
    """Return the cells of a row, but not those of the line below a heading."""
    cells = re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "X", row.strip("|")))
    return [] if all(re.fullmatch(r"\s*:?-+:?\s*", cell) for cell in cells) else [cell.strip() for cell in cells]


def python(text: str, *, messages: bool = True) -> Iterator[Block]:
    """Yield the comments, docstrings and, if wanted, the messages of a module."""
    comments = _comments(text)
    tree = ast.parse(text)
    docstrings = {id(node.value): node.value for node in map(_first_text, ast.walk(tree)) if node}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in docstrings:
            yield from _allowed(_docstring(node.lineno, node.value), node, comments)
        elif messages and id(node) not in inner and (message := _message(node)):
            yield from _allowed([Block(node.lineno, message, message=True)], node, comments)
    yield from _paragraphs(comments, text.splitlines())


def _comments(text: str) -> dict[int, str]:
    """Return the text of each comment by its line, without those that steer tools."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {token.start[0]: token.string.lstrip("#: ") for token in tokens if token.type == tokenize.COMMENT}
    return {line: words for line, words in comments.items() if not re.match(r"noqa|type:|pragma|fmt:|!|mypy:", words)}


def _paragraphs(comments: dict[int, str], lines: list[str]) -> Iterator[Block]:
    """Join comments on consecutive lines, but not one that stands behind code."""
    first, block = 0, []
    for number in sorted(comments):
        whole = lines[number - 1].lstrip().startswith("#")
        if block and (number != first + len(block) or not whole):
            yield Block(first, "\n".join(block))
            block = []
        first = first if block else number
        block.append(comments[number])
        if not whole:
            yield Block(first, block.pop())
    if block:
        yield Block(first, "\n".join(block))


def _allowed(blocks, node: ast.AST, comments: dict[int, str]) -> Iterator[Block]:
    """Hand the marker in a comment beside a string over to the string's blocks."""
    beside = [comments[line] for line in range(node.lineno, node.end_lineno + 1) if line in comments]
    marks = "".join(f"<!-- {mark[0]} -->" for mark in map(_ALLOW.search, beside) if mark)
    return (replace(block, text=block.text + marks) for block in blocks)


def _first_text(node: ast.AST) -> ast.Expr | None:
    """Return the statement that holds the docstring of a node, or None."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = node.body[0] if isinstance(node, owners) and node.body else None
    return first if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str) else None


def _docstring(line: int, text: str) -> Iterator[Block]:
    """Yield the paragraphs of a docstring, without doctests, underlines and lines of types."""
    lines, skipping = text.splitlines(), False
    kept = []
    for place, raw in enumerate(lines):
        bare = raw.strip()
        below = lines[place + 1].strip() if place + 1 < len(lines) else ""
        skipping = bool(bare) and (skipping or bare.startswith(">>>"))
        shape = re.fullmatch(r"[-=]{3,}", bare) or re.fullmatch(r"[-=]{3,}", below) or re.match(r"[\w*, ]+ : ", bare)
        kept.append("" if skipping or shape else re.sub(r"^\.\. ", "", bare))
    for block in markdown("\n".join(kept)):
        yield replace(block, line=line + block.line - 1)


def _message(node: ast.AST) -> str:
    """Return the text of a string that reads like prose, and nothing of others."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
    else:
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    plain = sum(sign.isalpha() or sign in " ,.'\n" for sign in text)
    return text if text.count(" ") >= 3 and plain >= 0.85 * len(text) else ""


def sentences(block: Block) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a block, each with the number of its first line."""
    text = block.text
    for pattern, instead in _MARKUP:
        # Line breaks stay, because they count the lines.
        text = pattern.sub(lambda hit, instead=instead: hit.expand(instead) + "\n" * hit[0].count("\n"), text)
    text = _ABBREVIATION.sub(r"\1", text)
    place = 0
    for end in [*(hit.end() for hit in _END.finditer(text)), len(text)]:
        sentence = text[place:end]
        blank = len(sentence) - len(sentence.lstrip())
        if sentence.strip():
            yield block.line + text.count("\n", 0, place + blank), " ".join(sentence.split())
        place = end


def findings(name: str, text: str) -> list[Finding]:
    """Return what is wrong with a file's prose, in the order of its lines."""
    if name.endswith(".md"):
        blocks = markdown(text)
    elif name.endswith(".py"):
        blocks = python(text, messages="tests" not in Path(name).parts)
    else:
        raise InputError(f"{name} must be a .md or .py file or a folder of them")
    try:
        hits = [finding for block in blocks for finding in _of_block(name, block)]
    except (SyntaxError, tokenize.TokenError) as error:
        raise InputError(f"{name} must be valid Python: {error}") from error
    return sorted(hits, key=lambda hit: hit.line)


def _of_block(name: str, block: Block) -> Iterator[Finding]:
    mark = _ALLOW.search(block.text)
    allowed = set(mark[1].split()) or set(_ADVICE) if mark else set()
    # An error may have one semicolon, as before what was given.
    allowed |= {"semicolon"} if block.message and block.text.count(";") == 1 else set()
    for line, sentence in sentences(block):
        # The remedy of an error follows a colon, and may be as long as what comes before it.
        parts = sentence.split(": ") if block.message else [sentence]
        words = max(len(_WORD.findall(part)) for part in parts)
        rules = [rule for rule, (pattern, _) in RULES.items() if pattern.search(sentence)]
        rules += ["long-sentence"] * (words > MOST_WORDS)
        rules += ["long-cell"] * (block.cell and words > MOST_WORDS_IN_A_CELL)
        yield from (Finding(name, line, rule, sentence, _ADVICE[rule]) for rule in rules if rule not in allowed)


def _git(*arguments: str) -> str:
    """Return what git prints. An error of git is a `subprocess.CalledProcessError`."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def base_of(revision: str) -> str | None:
    """Return the merge base of HEAD with a revision, here or on origin, or None when git has none."""
    for name in (revision, f"origin/{revision}"):
        try:
            return _git("merge-base", "HEAD", name).strip()
        except (subprocess.CalledProcessError, FileNotFoundError):
            continue
    return None


def changed_names(base: str) -> list[str]:
    """Return the pages and modules that are untracked, or differ from the base."""
    names = _git("diff", "--name-only", base).split("\n") + _git("ls-files", "-o", "--exclude-standard").split("\n")
    return sorted({name for name in names if name.endswith((".md", ".py"))})


def new_findings(base: str, names: list[str]) -> list[Finding]:
    """Return the findings of changed files, without those that such files had at the base."""
    known = {_key(hit) for name in names for hit in _findings_at(base, name)}
    there = [name for name in names if (ROOT / name).is_file()]
    return [hit for name in there for hit in findings(name, _read(ROOT / name)) if _key(hit) not in known]


def _findings_at(base: str, name: str) -> list[Finding]:
    try:
        return findings(name, _git("show", f"{base}:{name}"))
    except (subprocess.CalledProcessError, InputError):
        return []


def _key(hit: Finding) -> tuple[str, str]:
    return hit.rule, re.sub(r"\d[\d.,]*", "0", hit.sentence)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a readable text file in UTF-8: {error}") from error


def files_of(given: list[Path]) -> list[Path]:
    """Return files, and the Markdown and Python files of folders."""
    files = []
    for path in given:
        files += sorted(one for one in path.rglob("*") if one.suffix in (".md", ".py")) if path.is_dir() else [path]
    return files


def checked(options: argparse.Namespace) -> tuple[list[Finding], str]:
    """Return the findings, and the reason when nothing could be checked."""
    if options.changed is None:
        return [hit for path in files_of(options.paths) for hit in findings(str(path), _read(path))], ""
    base = base_of(options.changed)
    if base is None:
        return [], f"git finds no merge base with {options.changed}, as in a shallow clone, so nothing was checked"
    names = changed_names(base)
    return new_findings(base, names), "" if names else f"no page or module differs from {options.changed}"


def main(given: list[str] | None = None) -> int:
    """Check what the command line names, print the findings, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--changed", nargs="?", const="main", metavar="REVISION", help="report new findings only")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(given)
    if (options.changed is None) == (not options.paths):
        parser.error("give either files or --changed")
    try:
        hits, note = checked(options)
    except InputError as error:
        print(f"prose: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"findings": [asdict(hit) for hit in hits], "note": note}, indent=2))
    else:
        for hit in hits:
            print(f"{hit.file}:{hit.line}: {hit.rule}: {hit.sentence} ({hit.advice})")
        print(f"prose: {note or f'{len(hits)} findings'}")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
