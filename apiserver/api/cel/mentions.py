"""Which attributes and capacities an expression names, as far as it names them literally."""

from __future__ import annotations

from dataclasses import dataclass

from apiserver.api.cel.ast import Call, Comprehension, Ident, Literal, Node, Select
from apiserver.api.cel.checker import children
from apiserver.api.cel.lexer import tokenize
from apiserver.api.cel.macros import with_everything
from apiserver.api.cel.parser import NotCel, Parser
from apiserver.api.cel.source import Issues, Reported

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
    """The names in an expression, sorted; none if it is not in the language."""
    issues = Issues(expression)
    try:
        root = Parser(tokenize(expression, issues), issues, with_everything(), optional_syntax=True).parse()
    except (NotCel, Reported):
        return []
    found: set[Mention] = set()
    _collect(root, {}, found)
    # A domain alone says nothing that one of its names does not say.
    named = {(mention.kind, mention.domain) for mention in found if mention.name}
    return sorted(mention for mention in found if mention.name or (mention.kind, mention.domain) not in named)


def _collect(node: Node, local: dict[str, Path], found: set[Mention]) -> None:
    if isinstance(node, Comprehension) and node.is_binding:
        _collect(node.accu_init, local, found)
        _collect(node.result, local | {node.accu_var: _path(node.accu_init, local)}, found)
        return
    path = _path(node, local)
    if len(path) >= 3 and path[0] == "device" and path[1] in ("attributes", "capacity"):
        found.add(Mention(path[1], path[2], path[3] if len(path) > 3 else ""))
    for child in children(node):
        _collect(child, local, found)


def _path(node: Node, local: dict[str, Path]) -> Path:
    """What a chain of selections spells, empty for anything else."""
    match node:
        case Ident(name=name):
            return local.get(name, (name.removeprefix("."),))
        case Select(operand=operand, name=name):
            before = _path(operand, local)
            return (*before, name) if before else ()
        case Call(function="_[_]" | "_[?_]" | "_?._", args=[operand, Literal(value=str() as name)]):
            before = _path(operand, local)
            return (*before, name) if before else ()
    return ()
