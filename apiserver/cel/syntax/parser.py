"""Recursive descent parser of CEL.

It accepts exactly the language and builds the tree in one pass. On a syntax error it only raises `ParseFailure`;
`diagnosis` then builds the messages for users. Other problems (reserved words, numbers out of range, wrong macro
arguments) are reported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.cel.language.ast import Call, Entry, Ident, ListNode, Literal, MapNode, Node, Select, StructNode
from apiserver.cel.language.source import MAX_DEPTH, NOWHERE, TOO_DEEP, IssueReported, Issues
from apiserver.cel.language.stack import OFTEN, has_room, run_on_new_stack
from apiserver.cel.syntax.lexer import RESERVED, Token
from apiserver.cel.syntax.literals import bytes_value, double_value, int_value, string_value, uint_value
from apiserver.cel.syntax.macros import MacroProblem, Macros

TOO_HIGH: Final = "max recursion depth exceeded"
_RELATIONS: Final = {
    "<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in",
}  # fmt: skip
_SUMS: Final = {"+": "_+_", "-": "_-_"}
_PRODUCTS: Final = {"*": "_*_", "/": "_/_", "%": "_%_"}


class ParseFailure(Exception):
    """The source does not parse."""


class Parser:
    """One parse of one source.

    Two limits keep trees shallow: the nesting of grammar rules (`depth` and its companions, counted on the way down)
    and the height of operators, selections and calls in the tree (`height` of the last node read).
    """

    __slots__ = (
        "at", "calcs", "depth", "height", "issues", "kind", "macros", "optional_syntax", "relations", "tokens",
    )  # fmt: skip

    def __init__(self, tokens: list[Token], issues: Issues, macros: Macros, *, optional_syntax: bool) -> None:
        self.tokens, self.issues, self.macros = tokens, issues, macros
        self.optional_syntax = optional_syntax
        self.at = 0
        self.depth = self.relations = self.calcs = 0
        self.height = 0
        self.kind = tokens[0].kind

    def parse(self) -> Node:
        """Parse the whole source as one expression."""
        node = self._expression()
        if self.kind != "EOF":
            raise ParseFailure
        return node

    def _advance(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        self.kind = self.tokens[self.at].kind
        return token

    def _expect(self, kind: str) -> Token:
        if self.kind != kind:
            raise ParseFailure
        return self._advance()

    def _accept(self, kind: str) -> Token | None:
        return self._advance() if self.kind == kind else None

    def _check_depth(self, levels: int, message: str = TOO_DEEP) -> int:
        if levels > MAX_DEPTH:
            self.issues.report(NOWHERE, message)
            raise IssueReported
        return levels

    def _add_layer(self, *heights: int) -> None:
        """Count another layer above the nodes read."""
        self.height = self._check_depth(max(heights) + 1, TOO_HIGH)

    def _expression(self) -> Node:
        depth = self.depth = self._check_depth(self.depth + 1)
        node = self._conditional() if depth & OFTEN or has_room() else run_on_new_stack(self._conditional)
        self.depth -= 1
        return node

    def _conditional(self) -> Node:
        node = self._logical("||", "_||_")
        if self.kind == "?":
            height = self.height
            pos = self._advance().start
            then = self._logical("||", "_||_")
            height = max(height, self.height)
            self._expect(":")
            node = self._call(pos, "_?_:_", [node, then, self._expression()])
            self._add_layer(height, self.height)
        return node

    def _logical(self, symbol: str, function: str) -> Node:
        """Parse a chain of `||` (of chains of `&&`) as a balanced tree."""
        inner = symbol == "||"
        first = self._logical("&&", "_&&_") if inner else self._relation()
        if self.kind != symbol:
            return first
        height = self.height
        terms, positions = [first], []
        while self.kind == symbol:
            positions.append(self._advance().start)
            terms.append(self._logical("&&", "_&&_") if inner else self._relation())
            height = max(height, self.height)
        self.height = height
        return _balance(function, terms, positions, 0, len(positions) - 1)

    def _relation(self) -> Node:
        self.relations = self._check_depth(self.relations + 1)
        node = self._calc(self._product)
        while self.kind in _RELATIONS:
            height = self.height
            token = self._advance()
            self.relations = self._check_depth(self.relations + 1)
            node = self._call(token.start, _RELATIONS[token.kind], [node, self._calc(self._product)])
            self.relations -= 1
            self._add_layer(height, self.height)
        self.relations -= 1
        return node

    def _calc(self, operand: Callable[[], Node]) -> Node:
        self.calcs = self._check_depth(self.calcs + 1)
        node = operand()
        while self.kind in _SUMS:
            height = self.height
            token = self._advance()
            self.calcs = self._check_depth(self.calcs + 1)
            node = self._call(token.start, _SUMS[token.kind], [node, operand()])
            self.calcs -= 1
            self._add_layer(height, self.height)
        self.calcs -= 1
        return node

    def _product(self) -> Node:
        node = self._unary()
        while self.kind in _PRODUCTS:
            height = self.height
            token = self._advance()
            self.calcs = self._check_depth(self.calcs + 1)
            node = self._call(token.start, _PRODUCTS[token.kind], [node, self._unary()])
            self.calcs -= 1
            self._add_layer(height, self.height)
        return node

    def _unary(self) -> Node:
        if self.kind == "!":
            return self._parse_repeated("!", "!_")
        if self.kind == "-" and self.tokens[self.at + 1].kind not in ("INT", "FLOAT"):
            return self._parse_repeated("-", "-_")
        return self._member()

    def _parse_repeated(self, symbol: str, function: str) -> Node:
        first = self.tokens[self.at].start
        count = 0
        while self.kind == symbol:
            self._advance()
            count += 1
        operand = self._member()
        return self._call(first, function, [operand]) if count % 2 else operand

    def _member(self) -> Node:
        node = self._primary()
        while True:
            height = self.height
            if self.kind == ".":
                node = self._select(node)
            elif self.kind == "[":
                node = self._index(node)
            else:
                return node
            self._add_layer(height, self.height)

    def _select(self, operand: Node) -> Node:
        self.height = 0
        dot = self._advance()
        optional = self._accept("?") is not None
        name = self._field_name()
        if not optional and self.kind == "(" and self.tokens[self.at - 1].kind == "IDENT":
            opening = self._advance()
            return self._call(opening.start, name.text, self._arguments(), operand)
        text = self._plain_name(name)
        if not optional:
            return Select(dot.start, operand, text)
        if not self.optional_syntax:
            return self._problem(dot.start, "unsupported syntax '.?'")
        return Call(dot.start, "_?._", None, [operand, Literal(name.start, text)])

    def _field_name(self) -> Token:
        if self.kind not in ("IDENT", "ESC"):
            raise ParseFailure
        return self._advance()

    def _plain_name(self, token: Token) -> str:
        if token.kind == "ESC":
            self.issues.report(token.start, "unsupported syntax: '`'")
        return token.text

    def _index(self, operand: Node) -> Node:
        bracket = self._advance()
        optional = self._accept("?") is not None
        index = self._expression()
        self._expect("]")
        if optional and not self.optional_syntax:
            return self._problem(bracket.start, "unsupported syntax '[?'")
        return self._call(bracket.start, "_[?_]" if optional else "_[_]", [operand, index])

    def _arguments(self) -> list[Node]:
        args: list[Node] = []
        height = 0
        if self.kind != ")":
            args.append(self._expression())
            height = self.height
            while self._accept(","):
                args.append(self._expression())
                height = max(height, self.height)
        self._expect(")")
        self.height = height
        return args

    def _primary(self) -> Node:
        self.height = 0
        kind = self.kind
        if kind == "IDENT" or kind == ".":
            return self._name()
        if kind == "(":
            self._advance()
            node = self._expression()
            self._expect(")")
            return node
        if kind == "[":
            return self._list()
        if kind == "{":
            bracket = self._advance()
            return MapNode(bracket.start, self._entries(fields=False))
        return self._literal()

    def _name(self) -> Node:
        first = self.tokens[self.at]
        dot = "." if self._accept(".") else ""
        name = self._expect("IDENT")
        message = self._message_name()
        if message is not None:
            opening = self._expect("{")
            return StructNode(opening.start, dot + name.text + message, self._entries(fields=True))
        opening_paren = self._accept("(")
        args = self._arguments() if opening_paren else []
        if name.text in RESERVED:
            return self._problem(first.start, f"reserved identifier: {name.text}")
        if opening_paren:
            return self._call(opening_paren.start, dot + name.text, args)
        return Ident(name.start, dot + name.text)

    def _message_name(self) -> str | None:
        """Return the rest of a dotted name if `{` follows it, else None without consuming anything."""
        tokens, at = self.tokens, self.at
        while tokens[at].kind == "." and tokens[at + 1].kind == "IDENT":
            at += 2
        if tokens[at].kind != "{":
            return None
        rest = "".join(token.text for token in tokens[self.at : at])
        self.at = at
        self.kind = "{"
        return rest

    def _list(self) -> Node:
        bracket = self._advance()
        elements: list[Node] = []
        optional: list[int] = []
        height = 0
        while self.kind not in ("]", ","):
            mark = self._accept("?")
            if mark and not self.optional_syntax:
                self.issues.report(mark.start, "unsupported syntax '?'")
            elif mark:
                optional.append(len(elements))
            elements.append(self._expression())
            height = max(height, self.height)
            if self.kind != ",":
                break
            self._advance()
            if self.kind == ",":
                raise ParseFailure
        if not elements:
            self._accept(",")
        self._expect("]")
        self.height = height
        return ListNode(bracket.start, elements, frozenset(optional))

    def _entries(self, *, fields: bool) -> list[Entry]:
        entries: list[Entry] = []
        height = 0
        while self.kind not in ("}", ","):
            mark = self._accept("?")
            key = self._plain_name(self._field_name()) if fields else self._expression()
            height = max(height, self.height)
            colon = self._expect(":")
            value = self._expression()
            height = max(height, self.height)
            if mark and not self.optional_syntax:
                self.issues.report(mark.start, "unsupported syntax '?'")
            entries.append(Entry(colon.start, key, value, mark is not None))
            if self.kind != ",":
                break
            self._advance()
            if self.kind == ",":
                raise ParseFailure
        if not entries:
            self._accept(",")
        self._expect("}")
        self.height = height
        return entries

    def _literal(self) -> Node:
        start = self.tokens[self.at].start
        sign = "-" if self._accept("-") else ""
        token = self._advance() if self.kind != "EOF" else None
        if token is None or (sign and token.kind not in ("INT", "FLOAT")):
            raise ParseFailure
        match token.kind:
            case "INT":
                value: object = int_value(sign + token.text)
            case "FLOAT":
                value = double_value(sign + token.text)
            case "UINT":
                value = uint_value(token.text)
            case "STRING":
                value = string_value(token.text)
            case "BYTES":
                value = bytes_value(token.text)
            case "true" | "false":
                value = token.kind == "true"
            case "null":
                value = None
            case _:
                raise ParseFailure
        if isinstance(value, ValueError):
            return self._problem(start, str(value))
        return Literal(start, value)

    def _call(self, pos: int, function: str, args: list[Node], target: Node | None = None) -> Node:
        try:
            expanded = self.macros.expand(pos, function, target, args)
        except MacroProblem as problem:
            return self._problem(problem.pos, str(problem))
        return Call(pos, function, target, args) if expanded is None else expanded

    def _problem(self, pos: int, message: str) -> Node:
        self.issues.report(pos, message)
        return Literal(pos, None)


def _balance(function: str, terms: list[Node], positions: list[int], low: int, high: int) -> Node:
    """Join the terms low … high + 1 by the operators low … high."""
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balance(function, terms, positions, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balance(function, terms, positions, middle + 1, high)
    return Call(positions[middle], function, None, [left, right])
