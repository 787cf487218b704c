"""Find literal names in expressions: attributes and capacities of a device, fields of another variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apiserver.cel.language.ast import Call, Comprehension, Ident, Literal, Node, Select, children
from apiserver.cel.language.source import IssueReported, Issues
from apiserver.cel.syntax.lexer import tokenize
from apiserver.cel.syntax.macros import all_macros
from apiserver.cel.syntax.parser import ParseFailure, Parser

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """A named attribute or capacity (`kind`). `name` is empty if only the domain is named."""

    kind: str
    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.domain}/{self.name}" if self.name else self.domain


def mentions(expression: str) -> list[Mention]:
    """Return the names in an expression about a device, sorted; none if it does not parse."""
    found = {
        Mention(path[1], path[2], path[3] if len(path) > 3 else "")
        for path in selection_paths(expression)
        if len(path) >= 3 and path[0] == "device" and path[1] in ("attributes", "capacity")
    }
    # A domain without a name is redundant if one of its names is mentioned.
    named = {(mention.kind, mention.domain) for mention in found if mention.name}
    return sorted(mention for mention in found if mention.name or (mention.kind, mention.domain) not in named)


def selection_paths(expression: str) -> set[Path]:
    """Return all chains of selections from a variable, as a.b and a["b"]; none if the expression does not parse."""
    root = parse(expression)
    return set() if root is None else set(_paths(root, {}))


def parse(expression: str) -> Node | None:
    """Parse an expression; return None if it does not parse."""
    issues = Issues(expression)
    try:
        return Parser(tokenize(expression, issues), issues, all_macros(), optional_syntax=True).parse()
    except (ParseFailure, IssueReported):
        return None


def _paths(node: Node, local: Mapping[str, Path]) -> Iterator[Path]:
    if isinstance(node, Comprehension) and node.is_binding:
        yield from _paths(node.accu_init, local)
        yield from _paths(node.result, {**local, node.accu_var: path_of(node.accu_init, local)})
        return
    if path := path_of(node, local):
        yield path
    for child in children(node):
        yield from _paths(child, local)


def path_of(node: Node, local: Mapping[str, Path]) -> Path:
    """Return the path of a chain of selections, else (). `local` maps bound variables to their paths."""
    match node:
        case Ident(name=name):
            return local.get(name, (name.removeprefix("."),))
        case Select(operand=operand, name=name):
            before = path_of(operand, local)
            return (*before, name) if before else ()
        case Call(function="_[_]" | "_[?_]" | "_?._", args=[operand, Literal(value=str() as name)]):
            before = path_of(operand, local)
            return (*before, name) if before else ()
    return ()
