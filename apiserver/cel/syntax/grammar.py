"""CEL's grammar as a transition network, for messages about invalid sources.

Users know these messages from an LL parser generated from the published grammar. Its words depend on the network's
states, so the network is built here from the same grammar. The parser itself does not use it.

Source of facts: the grammar in the CEL language definition. The construction of such networks is textbook matter
(Parr, Harwell, Fisher: Adaptive LL(*) Parsing).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

EOF: Final = "EOF"
# Token kinds in the order of messages, with their names there.
NAMES: Final[dict[str, str]] = {
    EOF: "<EOF>",
    **{
        symbol: f"'{symbol}'"
        for symbol in (
            "==",
            "!=",
            "in",
            "<",
            "<=",
            ">=",
            ">",
            "&&",
            "||",
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
            ".",
            ",",
            "-",
            "!",
            "?",
            ":",
            "+",
            "*",
            "/",
            "%",
            "true",
            "false",
            "null",
        )
    },
    "FLOAT": "NUM_FLOAT",
    "INT": "NUM_INT",
    "UINT": "NUM_UINT",
    "STRING": "STRING",
    "BYTES": "BYTES",
    "IDENT": "IDENTIFIER",
    "ESC": "ESC_IDENTIFIER",
}

_LEFT_RECURSIVE: Final = frozenset({"relation", "calc", "member"})
# Kinds of states.
BASIC, BLOCK, LOOP_ENTRY, LOOP_BACK, STOP = "basic", "block", "loop entry", "loop back", "stop"


@dataclass(slots=True, eq=False)
class State:
    """A state of the network; `rule` is its rule."""

    rule: str
    kind: str = BASIC
    edges: list[Edge] = field(default_factory=list)
    precedence_loop: bool = False


@dataclass(slots=True, eq=False)
class Edge:
    """A transition: empty, a token, a rule (`follow` is its return state), or empty if the precedence permits."""

    target: State
    tokens: frozenset[str] = frozenset()
    follow: State | None = None
    rule: str = ""
    precedence: int = -1


class Part:
    """A part of a rule; `enter` and `leave` are its ends in the network."""

    enter: State
    leave: State


@dataclass(eq=False)
class Token(Part):
    """One of several tokens."""

    kinds: frozenset[str]


@dataclass(eq=False)
class Call(Part):
    """A call of another rule, with a precedence if that rule is left recursive."""

    rule: str
    precedence: int = 0


@dataclass(eq=False)
class Sequence(Part):
    """Parts in sequence."""

    parts: list[Part]


@dataclass(eq=False)
class Choice(Part):
    """Alternatives. `simple`: one token of look-ahead decides."""

    parts: list[Part]
    simple: bool = False
    state: State = field(init=False)


@dataclass(eq=False)
class Maybe(Part):
    """An optional part; one token of look-ahead always decides in this grammar."""

    part: Part
    state: State = field(init=False)


@dataclass(eq=False)
class Repeat(Part):
    """A repeated part, optionally at least once. With precedences it is the tail of a left recursive rule."""

    parts: list[Part]
    at_least_once: bool = False
    simple: bool = True
    precedences: tuple[int, ...] = ()
    state: State = field(init=False)
    body: State = field(init=False)
    back: State = field(init=False)


def _t(kinds: str) -> Part:
    return Token(frozenset(kinds.split()))


def _r(rule: str, precedence: int = 0) -> Part:
    return Call(rule, precedence)


def _seq(*parts: Part) -> Part:
    return Sequence(list(parts))


def _tail(*alternatives: tuple[int, Part]) -> Part:
    return Repeat(
        [part for _, part in alternatives], simple=False, precedences=tuple(level for level, _ in alternatives)
    )


def _separated_list(item: Part, again: Part, *, simple: bool = False) -> Part:
    return _seq(item, Repeat([_seq(_t(","), again)], simple=simple))


def _pair(key: str) -> Part:
    return _seq(_r(key), _t(":"), _r("expr"))


def _enclose(opening: str, inner: str, closing: str) -> list[Part]:
    return [_t(opening), Maybe(_r(inner)), Maybe(_t(",")), _t(closing)]


#: Number of the first alternatives of a primary expression: a variable, a function call.
NAMED: Final = 2


def _primary() -> Part:
    return Choice(
        [
            _seq(Maybe(_t(".")), _t("IDENT")),
            _seq(Maybe(_t(".")), _t("IDENT"), _t("("), Maybe(_r("exprList")), _t(")")),
            _seq(_t("("), _r("expr"), _t(")")),
            _seq(*_enclose("[", "listInit", "]")),
            _seq(*_enclose("{", "mapInitializerList", "}")),
            _seq(
                Maybe(_t(".")), _t("IDENT"), Repeat([_seq(_t("."), _t("IDENT"))]),
                *_enclose("{", "fieldInitializerList", "}"),
            ),
            _r("literal"),
        ]
    )  # fmt: skip


def _rules() -> dict[str, Part]:
    return {
        "start": _seq(_r("expr"), _t(EOF)),
        "expr": _seq(_r("conditionalOr"), Maybe(_seq(_t("?"), _r("conditionalOr"), _t(":"), _r("expr")))),
        "conditionalOr": _seq(_r("conditionalAnd"), Repeat([_seq(_t("||"), _r("conditionalAnd"))])),
        "conditionalAnd": _seq(_r("relation"), Repeat([_seq(_t("&&"), _r("relation"))])),
        "relation": _seq(_r("calc"), _tail((1, _seq(_t("< <= >= > == != in"), _r("relation", 2))))),
        "calc": _seq(
            _r("unary"),
            _tail((2, _seq(_t("* / %"), _r("calc", 3))), (1, _seq(_t("+ -"), _r("calc", 2)))),
        ),
        "unary": Choice(
            [
                _r("member"),
                _seq(Repeat([_t("!")], at_least_once=True), _r("member")),
                _seq(Repeat([_t("-")], at_least_once=True, simple=False), _r("member")),
            ]
        ),
        "member": _seq(
            _r("primary"),
            _tail(
                (3, _seq(_t("."), Maybe(_t("?")), _r("escapeIdent"))),
                (2, _seq(_t("."), _t("IDENT"), _t("("), Maybe(_r("exprList")), _t(")"))),
                (1, _seq(_t("["), Maybe(_t("?")), _r("expr"), _t("]"))),
            ),
        ),
        "primary": _primary(),
        "exprList": _separated_list(_r("expr"), _r("expr"), simple=True),
        "listInit": _separated_list(_r("optExpr"), _r("optExpr")),
        "fieldInitializerList": _separated_list(_pair("optField"), _pair("optField")),
        "optField": _seq(Maybe(_t("?")), _r("escapeIdent")),
        "mapInitializerList": _separated_list(_pair("optExpr"), _pair("optExpr")),
        "escapeIdent": Choice([_t("IDENT"), _t("ESC")], simple=True),
        "optExpr": _seq(Maybe(_t("?")), _r("expr")),
        "literal": Choice(
            [
                _seq(Maybe(_t("-")), _t("INT")),
                _t("UINT"),
                _seq(Maybe(_t("-")), _t("FLOAT")),
                *(_t(kind) for kind in ("STRING", "BYTES", "true", "false", "null")),
            ]
        ),
    }


class Network:
    """All rules as one network."""

    def __init__(self) -> None:
        self.rules = _rules()
        self.starts = {name: State(name) for name in self.rules}
        self.stops = {name: State(name, STOP) for name in self.rules}
        #: Return states of each rule, and whether the return ends its outermost call (of a left recursive rule).
        self.returns: dict[str, list[tuple[State, bool]]] = {name: [] for name in self.rules}
        for name, part in self.rules.items():
            self._build(part, name, State(name))
            self.starts[name].edges.append(Edge(part.enter))
            part.leave.edges.append(Edge(self.stops[name]))
        self._next: dict[State, frozenset[str]] = {}

    def _build(self, part: Part, rule: str, leave: State) -> None:
        """Build a part up to a given state. Alternatives end in the same state and share their continuation."""
        part.enter, part.leave = State(rule), leave
        match part:
            case Token():
                part.enter.edges.append(Edge(leave, tokens=part.kinds))
            case Call():
                part.enter.edges.append(
                    Edge(self.starts[part.rule], follow=leave, rule=part.rule, precedence=part.precedence)
                )
                self.returns[part.rule].append((leave, part.rule in _LEFT_RECURSIVE and part.precedence == 0))
            case Sequence():
                at = part.enter
                for index, inner in enumerate(part.parts, start=1):
                    self._build(inner, rule, leave if index == len(part.parts) else State(rule))
                    at.edges.append(Edge(inner.enter))
                    at = inner.leave
            case Choice():
                self._build_block(part.parts, part.enter, leave, rule)
                part.state = part.enter
            case Maybe():
                self._build_block([part.part], part.enter, leave, rule)
                part.enter.edges.append(Edge(leave))
                part.state = part.enter
            case Repeat():
                self._build_repeat(part, rule)

    def _build_block(
        self, parts: list[Part], enter: State, leave: State, rule: str, precedences: tuple[int, ...] = ()
    ) -> None:
        enter.kind = BLOCK
        for index, inner in enumerate(parts):
            self._build(inner, rule, leave)
            if precedences:
                gate = State(rule)
                gate.edges.append(Edge(inner.enter, precedence=precedences[index]))
                enter.edges.append(Edge(gate))
            else:
                enter.edges.append(Edge(inner.enter))

    def _build_repeat(self, part: Repeat, rule: str) -> None:
        part.body, part.back = State(rule), State(rule, LOOP_BACK)
        end = State(rule)
        self._build_block(part.parts, part.body, end, rule, part.precedences)
        end.edges.append(Edge(part.back))
        if part.at_least_once:
            part.enter.edges.append(Edge(part.body))
            part.back.edges += [Edge(part.body), Edge(part.leave)]
            part.state = part.body
            return
        part.state = State(rule, LOOP_ENTRY, precedence_loop=bool(part.precedences))
        part.enter.edges.append(Edge(part.state))
        part.state.edges += [Edge(part.body), Edge(part.leave)]
        part.back.edges.append(Edge(part.state))

    def next_tokens(self, state: State) -> frozenset[str]:
        """Return the tokens that may come in a state, with the empty name if its rule may end there."""
        known = self._next.get(state)
        if known is None:
            found: set[str] = set()
            self._collect(state, None, found, set())
            known = self._next[state] = frozenset(found)
        return known

    def next_tokens_within(self, state: State, calls: tuple[State, ...]) -> frozenset[str]:
        """Return the next tokens if the open rules are known; `calls` are the states to return to."""
        found: set[str] = set()
        self._collect(state, calls, found, set())
        return frozenset(found)

    def _collect(
        self, state: State, calls: tuple[State, ...] | None, found: set[str], seen: set[tuple[State, object]],
        inner: tuple[State, ...] = (),
    ) -> None:  # fmt: skip
        if (state, inner) in seen or len(inner) > len(self.rules) * 2:
            return
        seen.add((state, inner))
        if state.kind == STOP:
            if inner:
                self._collect(inner[-1], calls, found, seen, inner[:-1])
            elif calls is None:
                found.add("")
            elif calls:
                self._collect(calls[-1], calls[:-1], found, set())
            else:
                found.add(EOF)
            return
        for edge in state.edges:
            if edge.follow is not None:
                # Left recursion is eliminated, so a rule that calls itself here has read a token first.
                if edge.follow not in inner:
                    self._collect(edge.target, calls, found, seen, (*inner, edge.follow))
            elif edge.tokens:
                found.update(edge.tokens)
            else:
                self._collect(edge.target, calls, found, seen, inner)


@lru_cache(maxsize=1)
def network() -> Network:
    """Return the network of CEL."""
    return Network()
