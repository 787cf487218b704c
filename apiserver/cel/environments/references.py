"""What an expression names literally: attributes and capacities of a device, fields of another variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apiserver.cel.language.ast import Call, Comprehension, Ident, Literal, Node, Select, children
from apiserver.cel.language.source import Issues, Reported
from apiserver.cel.syntax.lexer import tokenize
from apiserver.cel.syntax.macros import with_everything
from apiserver.cel.syntax.parser import NotCel, Parser

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """`kind` is attributes or capacity; `name` is empty where only the domain is named."""

    kind: str
    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.domain}/{self.name}" if self.name else self.domain


def mentions(expression: str) -> list[Mention]:
    """The names in an expression about a device, sorted; none if it is not in the language."""
    found = {
        Mention(path[1], path[2], path[3] if len(path) > 3 else "")
        for path in spelled(expression)
        if len(path) >= 3 and path[0] == "device" and path[1] in ("attributes", "capacity")
    }
    # A domain alone says nothing that one of its names does not say.
    named = {(mention.kind, mention.domain) for mention in found if mention.name}
    return sorted(mention for mention in found if mention.name or (mention.kind, mention.domain) not in named)


def spelled(expression: str) -> set[Path]:
    """All chains of selections from a variable that an expression spells, as a.b and a["b"]; none if it is not in the
    language.
    """
    root = parsed(expression)
    return set() if root is None else set(_paths(root, {}))


def parsed(expression: str) -> Node | None:
    """An expression in its parts; None if it is not in the language."""
    issues = Issues(expression)
    try:
        return Parser(tokenize(expression, issues), issues, with_everything(), optional_syntax=True).parse()
    except (NotCel, Reported):
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
    """What a chain of selections spells, empty for anything else. `local`: what variables of the expression stand
    for.
    """
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
