"""Mutation runs: does a test fail when the code is wrong?

    python -m tests.mutation PACKAGE… [--sample N] [--seed S] [--survivors FILE]

Each mutant is one small change of a package's code (a comparison turned round, a condition negated, a constant off by one, a
statement left out). It is applied in a copy of the tree, and the tests that are about the package run there until one
fails. What survives is printed with its place and both lines: either a rule lacks a test, or the mutant is equivalent,
which `tests/mutation_equivalent.txt` says with the reason, a line each: `path: original line => mutated line: reason`.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.txt")
#: The tests that are about a package, cheapest first.
TESTS: dict[str, tuple[str, ...]] = {
    "apiserver/api": (
        "tests/codec",
        "tests/patch",
        "tests/selectors",
        "tests/cel",
        "tests/types",
        "tests/protobuf",
        "tests/resources",
    ),
    "apiserver/registry": (
        "tests/registry",
        "tests/resources",
        "tests/conformance/test_conversations.py",
        "tests/http",
    ),
    "apiserver/resources/devices": ("tests/resources", "tests/conformance/test_conversations.py", "tests/http"),
    "apiserver/storage": ("tests/storage", "tests/registry"),
    "apiserver/admission": ("tests/registry/test_admission.py", "tests/authorization", "tests/http"),
    "apiserver/authorization": ("tests/authorization",),
    "controllers/allocator": ("tests/allocator",),
    "controllers/scheduler": ("tests/scheduler",),
    "controllers": ("tests/claims", "tests/runtime", "tests/controllers", "tests/node"),
}
#: Seconds of silence after which a mutant counts as killed: it made something wait for ever.
SILENCE = 300
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: in a file, at a line, from one text of a statement to another."""

    path: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {self.before}\n    + {self.after}"

    @property
    def known(self) -> str:
        """How the list of equivalent mutants names it."""
        return f"{self.path}: {self.before} => {self.after}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    tree = ast.parse(path.read_text())
    skipped = {id(part) for node in ast.walk(tree) for root in _declarative(node) for part in ast.walk(root)}
    for node in ast.walk(tree):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        for change in _changes(node):
            yield _made(path, tree, node, change)


def _declarative(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node in which no test could tell a change: annotations, docstrings, imports, texts of errors."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Expr(value=ast.Constant()):
            yield node
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            yield node
        case ast.AnnAssign():
            yield node.annotation
        case ast.arg(annotation=annotation) if annotation is not None:
            yield annotation
        case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns) if returns is not None:
            yield returns


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """(field, new value) for each way to get a node wrong."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            yield "ops", [_COMPARISONS[type(operator)]()]
        case ast.BoolOp(op=ast.And()):
            yield "op", ast.Or()
        case ast.BoolOp(op=ast.Or()):
            yield "op", ast.And()
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC and not isinstance(node.left, ast.Constant):
            yield "op", _ARITHMETIC[type(operator)]()
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare):
            yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.Constant(value=bool() as value):
            yield "value", not value
        case ast.Constant(value=int() as value):
            yield "value", value + 1
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "value", ast.Constant(None)
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body) | ast.If(body=body) | ast.For(body=body):
            for index, statement in enumerate(body):
                if isinstance(statement, ast.Expr | ast.AugAssign | ast.Continue | ast.Break | ast.Raise) and not (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                ):
                    yield "body", [*body[:index], ast.Pass(), *body[index + 1 :]]


def _made(path: Path, tree: ast.Module, node: ast.AST, change: tuple[str, object]) -> Mutant:
    field, value = change
    kept = getattr(node, field)
    before = ast.unparse(tree).splitlines()
    setattr(node, field, value)
    ast.fix_missing_locations(tree)
    source = ast.unparse(tree)
    setattr(node, field, kept)
    after = source.splitlines()
    place = next(
        (index for index, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(before) - 1
    )
    return Mutant(
        str(path.relative_to(ROOT)), getattr(node, "lineno", 0), before[place].strip(), after[place].strip(), source
    )


def tests_of(package: str) -> tuple[str, ...]:
    """The tests about a package: those of the longest name that it begins with."""
    names = [name for name in TESTS if package == name or package.startswith(name + "/")]
    if not names:
        raise SystemExit(f"mutation: no tests are named for {package}; there are: {', '.join(TESTS)}")
    return tuple(test for test in TESTS[max(names, key=len)] if (ROOT / test).exists())


def survives(mutant: Mutant, tree: Path, tests: Sequence[str]) -> bool:
    """Runs the tests with a mutant in a copy of the tree. One that is silent for too long counts as killed."""
    file = tree / mutant.path
    original = file.read_text()
    file.write_text(mutant.source)
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=tree, capture_output=True, timeout=SILENCE, check=False)
    except subprocess.TimeoutExpired:
        return False
    else:
        return done.returncode == 0
    finally:
        file.write_text(original)


def sample(package: str, number: int, seed: int, known: set[str]) -> list[Mutant]:
    """Mutants of a package, chosen by chance, those that are known to be equivalent left out."""
    choice = random.Random(seed)
    files = sorted((ROOT / package).rglob("*.py")) if (ROOT / package).is_dir() else [ROOT / package]
    weights = [len(file.read_text().splitlines()) for file in files]
    chosen: dict[str, Mutant] = {}
    for _ in range(number * 20):
        of_file = list(mutants(choice.choices(files, weights)[0]))
        if of_file and (mutant := choice.choice(of_file)).known not in known:
            chosen.setdefault(str(mutant), mutant)
        if len(chosen) == number:
            break
    return list(chosen.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="a directory or file, as apiserver/registry")
    parser.add_argument("--sample", type=int, default=30, metavar="N", help="mutants of each package (default 30)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="write the survivors there, too")
    options = parser.parse_args(arguments)
    known = (
        {line.rsplit(": ", 1)[0] for line in EQUIVALENT.read_text().splitlines() if line}
        if EQUIVALENT.exists()
        else set()
    )
    survived: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="kubedra-mutation-") as place:
        tree = Path(place) / "tree"
        shutil.copytree(
            ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
        )
        for package in options.packages:
            chosen = sample(package.rstrip("/"), options.sample, options.seed, known)
            here = []
            for mutant in chosen:
                if survives(mutant, tree, tests_of(package.rstrip("/"))):
                    here.append(mutant)
                    print(mutant, flush=True)
            killed = len(chosen) - len(here)
            print(f"{package}: {killed} of {len(chosen)} killed ({100 * killed // max(len(chosen), 1)} %)", flush=True)
            survived += here
    if options.survivors:
        options.survivors.write_text("".join(f"{mutant}\n" for mutant in survived))
    return 0


if __name__ == "__main__":
    sys.exit(main())
