"""List the mutants of a file: each is one small change of the syntax tree that keeps lines and columns.

A comparison is inverted, a condition negated, a constant off by one, a statement removed, a result dropped.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.wire import ROOT

#: Mutants without an effect that a test could notice, one per line: `path: original line => mutated line: reason`.
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change.

    `lines` are the first and last of the lines that run when it does. `function` is the outermost enclosing function as
    "name:line", or "" for code that runs on import.
    """

    path: str
    lines: tuple[int, int]
    function: str
    before: str
    after: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]}\n    - {self.before}\n    + {self.after}"

    @property
    def known(self) -> str:
        """The entry in the list of equivalent mutants."""
        return f"{self.path}: {self.before} => {self.after}"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a node: the node by its index in ast.walk, and the operation on it."""

    node: int
    make: Callable[[ast.AST], None]


def changes(tree: ast.Module) -> list[Change]:
    """Return every possible change of a file, without those that no test could notice."""
    skipped = {id(part) for node in ast.walk(tree) for root in _declarative(node) for part in ast.walk(root)}
    return [
        Change(index, make)
        for index, node in enumerate(ast.walk(tree))
        if id(node) not in skipped and hasattr(node, "lineno")
        for make in _ways(node)
    ]


def mutant(path: Path, tree: ast.Module, change: Change) -> Mutant:
    """Build the mutant of a change."""
    changed = copy.deepcopy(tree)
    originals, nodes = list(ast.walk(tree)), list(ast.walk(changed))
    node = originals[change.node]
    statement, function = _around(tree, node)
    place = originals.index(statement)
    change.make(nodes[change.node])
    ast.fix_missing_locations(changed)
    before, after = (ast.unparse(part).splitlines() for part in (statement, nodes[place]))
    line = next((i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(before) - 1)
    shown = (before[line].strip(), after[min(line, len(after) - 1)].strip())
    return Mutant(str(path.relative_to(ROOT)), _lines(statement, node), function, *shown, changed)


def sample(package: str, number: int, seed: int, others: tuple[str, ...] = ()) -> list[Mutant]:
    """Choose random mutants of a package or file, weighted by file length, without equivalent ones.

    `others` are nested packages to leave out.
    """
    choice = random.Random(seed)
    place = ROOT / package
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    files = [file for file in files if not any(file.is_relative_to(ROOT / other) for other in others)]
    trees = {file: ast.parse(file.read_text()) for file in files}
    possible = {file: found for file in files if (found := changes(trees[file]))}
    weights = [len(file.read_text().splitlines()) for file in possible]
    equivalent = known()
    chosen: dict[tuple[Path, Change], Mutant] = {}
    for _ in range(number * 20):
        file = choice.choices(list(possible), weights)[0]
        change = choice.choice(possible[file])
        if (file, change) not in chosen:
            made = mutant(file, trees[file], change)
            if made.known not in equivalent:
                chosen[file, change] = made
        if len(chosen) == number:
            break
    return list(chosen.values())


def known() -> set[str]:
    """Return the mutants in the list of equivalent ones."""
    return {line.rsplit(": ", 1)[0] for line in EQUIVALENT.read_text().splitlines() if line}


def stale(entries: Iterable[str]) -> list[str]:
    """Return the entries of `known()` that name a missing file or line."""
    found: dict[str, set[str]] = {}
    return sorted(entry for entry in entries if _before(entry) not in _lines_of(entry.partition(": ")[0], found))


def _before(entry: str) -> str:
    return entry.partition(": ")[2].partition(" => ")[0]


def _lines_of(path: str, found: dict[str, set[str]]) -> set[str]:
    """Return the lines of a file as mutants show them; `found` caches the lines of earlier files."""
    if path not in found:
        file = ROOT / path
        text = ast.unparse(ast.parse(file.read_text())) if file.is_file() else ""
        lines = {line.strip() for line in text.splitlines()}
        found[path] = lines | {line.removeprefix("el") for line in lines if line.startswith("elif ")}
    return found[path]


def _lines(statement: ast.AST, node: ast.AST) -> tuple[int, int]:
    """Return the lines that show whether the change runs: the statement's, or its head's if it has a body."""
    match statement:
        case ast.Match():
            return _place(node)
        case ast.stmt() if isinstance(body := getattr(statement, "body", None), list):
            return statement.lineno, max(statement.lineno, body[0].lineno - 1)
        case _:
            return _place(statement)


def _place(node: ast.AST) -> tuple[int, int]:
    start = getattr(node, "lineno", 0)
    return start, getattr(node, "end_lineno", start)


def _declarative(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node with no effect that a test could notice.

    These are annotations, docstrings, imports, texts of errors and logs, optimizations of classes and functions, and
    redundant code (assertions, `strict` of zip).
    """
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Expr(value=ast.Constant()):
            yield node
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level))) if level != "close":
            yield node
        case ast.Raise():
            yield from ast.iter_child_nodes(node)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            yield node
        case ast.AnnAssign():
            yield node.annotation
        case ast.arg(annotation=annotation) if annotation is not None:
            yield annotation
        case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns) if returns is not None:
            yield returns
        case ast.Call(func=ast.Name(id="cast"), args=[kind, _]):
            yield kind
        case ast.Call(func=ast.Name(id="dataclass" | "lru_cache")) | ast.keyword(arg="strict"):
            yield node


def _ways(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    """Yield each way to break a node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            yield _set("ops", [_COMPARISONS[type(operator)]()])
        case ast.BoolOp(op=ast.And()):
            yield _set("op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield _set("op", ast.And())
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC and not isinstance(node.left, ast.Constant):
            yield _set("op", _ARITHMETIC[type(operator)]())
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare):
            yield _negate
        case ast.Constant(value=bool() as value):
            yield _set("value", not value)
        case ast.Constant(value=int() as value):
            yield _set("value", value + 1)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield _set("value", ast.Constant(None))
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise():
            yield _leave_out


def _set(field: str, value: object) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, field, value)


def _negate(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.While | ast.IfExp)
    node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)


def _leave_out(node: ast.AST) -> None:
    node.__class__ = ast.Pass


def _around(tree: ast.Module, node: ast.AST) -> tuple[ast.AST, str]:
    """Return the innermost statement that contains a node, and the outermost function that contains it in its body."""
    statement: ast.AST = node
    function = ""
    here: ast.AST = tree
    while here is not node:
        inside = next(child for child in ast.iter_child_nodes(here) if any(part is node for part in ast.walk(child)))
        body = here.body if isinstance(here, _FUNCTIONS) else ()
        if not function and isinstance(here, _FUNCTIONS) and inside in (body if isinstance(body, list) else [body]):
            function = f"{getattr(here, 'name', '<lambda>')}:{here.lineno}"
        here = inside
        if isinstance(here, ast.stmt):
            statement = here
    return statement, function
