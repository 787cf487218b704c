"""Expressions about devices, made from the declarations of all functions, and damaged ones.

What they give is asked of upstream's own library and kept (`tests/cel/recorded`), so that every function, conversion,
cost and error text is held whatever it is called with. An expression depends on its number alone.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from apiserver.api import cel
from apiserver.api.cel import CompileError, Device, EvaluationError, device_environment
from apiserver.api.cel.devices import NEWEST, device_language
from apiserver.api.cel.engine import Compiled, NotCompiled, compile_expression
from apiserver.api.cel.types import Type

Json = dict[str, Any]

DRIVER: Final = "gpu.example.com"
DEVICE: Final[Json] = {
    "name": "d",
    "allowMultipleAllocations": True,
    "attributes": {
        "model": {"string": "A100"}, "index": {"int": 3}, "healthy": {"bool": True}, "firmware": {"version": "1.10.0-rc.1"},
        "net.example.com/address": {"string": "10.1.2.3"},
    },
    "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "1500m"}},
}  # fmt: skip
_ATTRIBUTES: Final = 'device.attributes["gpu.example.com"]'
_CAPACITY: Final = 'device.capacity["gpu.example.com"]'

#: Values by the kind of their type, in CEL.
_LITERALS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("0", "1", "-1", "2", "3", "7", "100", "-300", "9223372036854775807", "-9223372036854775808", "0x1F", f"int({_ATTRIBUTES}.index)"),
    "uint": ("0u", "1u", "7u", "18446744073709551615u", "0xffu"),
    "double": ("0.0", "1.5", "-2.5", "1e300", "-0.0", "3.0", "1.0 / 0.0", 'double("NaN")', "1e19", "123456.789"),
    "string": (
        '""', '"a"', '"abc"', '"A-b C"', '"é日"', "'it\\'s'", 'r"\\d+"', '"""x"y"""', '"10.0.0.1"', '"::ffff:1.2.3.4"', '"fe80::1%eth0"', '"2001:db8::1"',
        '"10.0.0.0/8"', '"10.1.2.3/8"', '"2001:db8::/32"', '"https://u@example.com:80/p%20q?a=1&a=2"', '"/path?k=v"', '"1.2.3"', '"v1.2"', '"1.2.3-rc.1+b"', '"01.2.3"',
        '"80Gi"', '"1500m"', '"-1"', '"2024-02-29T00:00:00Z"', '"2024-13-01T00:00:00Z"', '"2023-12-31T23:59:59.5+02:00"', '"1h30m"', '"-1.5s"', '"1d"', '"true"', '"T"',
        '"7"', '"1e3"', '"0x10"', '"\\u00e9\\n\\t"', '"b,a,,c"', '"a b  c"', '"my-name.example"', '"[a-c]+"', '"(b)(c)?"', '"dns1123Label"', '"UTC"', '"America/New_York"',
        '"+05:30"', '"aGVsbG8="', '"18DB0e85-99e9-c746-8531-ffeb86328b39"', "device.driver",
    ),
    "bytes": ('b""', 'b"abc"', "b'\\xff\\x00'", 'b"é"'),
    "bool": ("true", "false", "device.allowMultipleAllocations"),
    "null": ("null",),
    "duration": ('duration("1h30m")', 'duration("-1.5s")', 'duration("0s")', 'duration("100h")', 'duration("1ms2us3ns")'),
    "timestamp": ('timestamp("2024-02-29T23:30:15.123Z")', 'timestamp("1970-01-01T00:00:00Z")', 'timestamp("9999-12-31T23:59:59Z")', 'timestamp("2023-12-31T23:59:59+02:00")'),
    "kubernetes.Quantity": ('quantity("80Gi")', 'quantity("1500m")', 'quantity("-3")', 'quantity("0")', f"{_CAPACITY}.memory", 'quantity("1e3")', 'quantity("9223372036854775808")'),
    "kubernetes.Semver": ('semver("1.2.3")', 'semver("1.10.0-rc.1")', 'semver("v2.0", true)', 'semver("0.0.0")', 'semver("1.2.3+b")'),
    "net.IP": ('ip("10.0.0.1")', 'ip("::1")', 'ip("127.0.0.1")', 'ip("0.0.0.0")', 'ip("ff02::1")', 'ip("169.254.1.1")', 'ip("2001:db8::abcd")', 'ip("224.0.0.5")'),
    "net.CIDR": ('cidr("10.0.0.0/8")', 'cidr("10.1.2.3/16")', 'cidr("2001:db8::/32")', 'cidr("0.0.0.0/0")', 'cidr("10.0.0.1/32")'),
    "kubernetes.URL": ('url("https://u@example.com:80/p%20q?a=1&a=2#f")', 'url("/path")', 'url("http://[::1]:8080/x")', 'url("https://example.com")'),
    "kubernetes.NamedFormat": ("format.dns1123Label()", "format.uuid()", "format.date()", "format.byte()", "format.qualifiedName()", "format.labelValue()", "format.datetime()", "format.uri()"),
    "optional_type": ("optional.of(1)", "optional.none()", 'optional.of("a")', "optional.ofNonZeroValue(0)", f"{_ATTRIBUTES}.?nope", f"{_ATTRIBUTES}.?model", '{"a": 1}[?"a"]', "[1][?3]"),
    "list": (
        "[]", "[1, 2, 3]", "[3, 1, 2, 1]", '["b", "a", "c"]', "[1.5, -0.5]", "[true, false]", "[[1], [2, [3]], []]", '[duration("1s"), duration("2m")]', "[0u, 4u]", '["a", "", "a"]',
        '["1.2.3"]', '[dyn(1), dyn("a"), dyn(null)]', '[b"a"]', "[-1, 0]", '[timestamp("2024-02-29T00:00:00Z")]', "[?optional.of(1), ?optional.none()]", '[{"a": 1}]',
    ),
    "map": ("{}", '{"a": 1}', '{"a": 1, "b": 2}', '{1: "x", 2: "y"}', "{true: [1]}", _ATTRIBUTES, "device.attributes", '{"a": {"b": 3}}', '{?"a": optional.of(1)}', "{1u: 2}"),
    "type": ("int", "string", "list", "map", "type", "type(1.5)", "null_type", "double", "bytes"),
}  # fmt: skip
_MACROS: Final = (
    "{list}.all(x, x == x)", "{list}.exists(x, x == 1)", "{list}.exists_one(x, x == 1)", "{list}.map(x, [x])", "{list}.filter(x, x != 1)", "{list}.map(x, x != 2, {int})",
    "{map}.all(k, k == k)", "{map}.exists(k, {bool})", "{map}.map(k, k)", "{list}.all(i, v, i < 2)", "{list}.exists(i, v, v == 1)", "{map}.existsOne(k, v, {bool})",
    "{list}.transformList(i, v, [i, i])", "{list}.transformList(i, v, i > 0, v)", "{map}.transformMap(k, v, [v])", "{map}.transformMap(k, v, {bool}, k)", '{map}.transformMapEntry(k, v, {{"x": k}})',
    "{optional_type}.optMap(x, [x])", "{optional_type}.optFlatMap(x, optional.of([x]))", "cel.bind(x, {any}, [x, x])", "{list}.sortBy(x, x)", "[3, 1, 2].sortBy(x, -x)",
    'has({{"a": 1}}.a)', 'has(device.attributes["gpu.example.com"].model)', 'has(device.attributes["gpu.example.com"].{name})', "[{any}].size() == 1", "{any} == {any}", "{int} in {list}",
    "{string} in {map}", "{bool} ? {int} : {int}", "{bool} && {bool} || !{bool}", "{any} != null", "type({any}) == {type}", '"%s %d %.2f %x %b %o %e".format([{any}, {int}, {double}, {int}, {int}, {int}, {double}])',
    '"%s".format({list})', '"%{letter}".format([{any}])', "{map}[{string}]", "{list}[{int}]", "{optional_type}.orValue({int})", "{optional_type}.or({optional_type}).hasValue()", "dyn({any}) < dyn({any})",
    "dyn({any}) + dyn({any})", "-dyn({any})", "dyn({any}).size()", "{double} / {double} > {double}", "string({any})", "int({any})", "uint({any})", "double({any})", "bytes({string})", "{any}.name",
    'device.attributes["gpu.example.com"].{name}', 'device.capacity["gpu.example.com"].{name}', "device.{name}", 'device.attributes["net.example.com"].address.startsWith({string})',
    "lists.range(4).{fold}()", "{list}.{fold}()", "[{double}, {double}].{fold}()", "[{duration}, {duration}].{fold}()", "{duration} + {timestamp} > {timestamp}", "{timestamp} - {timestamp} < {duration}",
    "{int} % {int} == {int}", "{list}.all(x, {list}.exists(y, x == y))", "{string}.matches({string})", "{string}.findAll({string}, {int})", "{string}.split({string}, {int})", "{string}.replace({string}, {string}, {int})",
)  # fmt: skip
#: How operators are written.
_FORMS: Final = {
    "_[_]": "{}[{}]", "_?_:_": "({} ? {} : {})", "!_": "!{}", "-_": "-{}", "@in": "({} in {})", "_[?_]": "{}[?{}]", "_?._": "{}.?a",
}  # fmt: skip
_PASSED_OVER: Final = ("lists.range", "@", "cel.@", "kubernetes.authorization", "authorizer")
_SIGNS: Final = (
    '"',
    "'",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    ":",
    "?",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "=",
    "==",
    "in",
    "@",
    "#",
    "\\",
    "//",
    "1",
    "x",
    "u",
    "0x",
    "\n",
    "é",
    "`",
    "_",
    "null",
)


class Maker:
    """Makes expressions."""

    def __init__(self) -> None:
        language = device_language(NEWEST, consumable=True, list_values=False, stored=True)
        self._calls = [
            (name, overload)
            for name, function in language.scope.functions.items()
            if not name.startswith(_PASSED_OVER)
            for overload in function.overloads
            if not any("authorization" in argument.name for argument in overload.args)
        ]

    def expression(self, number: int) -> str:
        """The calls of all overloads in turn, macros, and now and then a damaged one."""
        random, (turn, draw) = Random(f"expression/{number}"), divmod(number, 8)
        if draw < 4:
            return self._call(random, *self._calls[(turn * 4 + draw) % len(self._calls)], 1)
        if draw < 7:
            return self._macro(random)
        whole = self._macro(random) if random.random() < 0.5 else self._call(random, *random.choice(self._calls), 1)
        return _damaged(random, whole)

    def _macro(self, random: Random) -> str:
        template = random.choice(_MACROS)
        made = ""
        for part in template.replace("{{", "\0").replace("}}", "\1").split("{"):
            name, closed, rest = part.partition("}")
            made += (self._named(random, name) + rest) if closed else part
        return made.replace("\0", "{").replace("\1", "}")

    def _named(self, random: Random, name: str) -> str:
        match name:
            case "any":
                return random.choice(_LITERALS[random.choice(tuple(_LITERALS))])
            case "name":
                return random.choice(("model", "index", "nope", "memory", "driver", "healthy", "x"))
            case "letter":
                return random.choice(("s", "d", "f", "x", "X", "o", "b", "e", ".1f", "%", "z", ".3", ".0e"))
            case "fold":
                return random.choice(
                    ("sum", "min", "max", "isSorted", "first", "last", "reverse", "distinct", "sort", "flatten", "join")
                )
        return random.choice(_LITERALS[name])

    def _value(self, random: Random, type_: Type, depth: int) -> str:
        if random.random() < 0.06:
            wrong = self._named(random, "any")
            return f"dyn({wrong})" if random.random() < 0.7 else wrong
        kind = type_.kind if type_.kind in _LITERALS else type_.name
        if kind in ("list", "map") and depth and random.random() < 0.5:
            parts = [self._value(random, part, 0) for part in type_.params]
            return f"[{parts[0]}]" if kind == "list" else f"{{{': '.join(parts)}}}"
        if kind not in _LITERALS:
            return self._named(random, "any")
        if depth and random.random() < 0.35:
            found = [call for call in self._calls if call[1].result is type_]
            if found:
                return self._call(random, *random.choice(found), depth - 1)
        return random.choice(_LITERALS[kind])

    def _call(self, random: Random, name: str, overload: Any, depth: int) -> str:
        arguments = [self._value(random, type_, depth) for type_ in overload.args]
        if name in _FORMS:
            return _FORMS[name].format(*arguments)
        if name.startswith("_") and len(arguments) == 2:
            return f"({arguments[0]} {name.strip('_')} {arguments[1]})"
        if random.random() < 0.02:
            arguments.append(self._named(random, "any"))
        if overload.member:
            target = arguments[0]
            return f"{f'({target})' if target[0] == '-' else target}.{name}({', '.join(arguments[1:])})"
        return f"{name}({', '.join(arguments)})"


def _damaged(random: Random, text: str) -> str:
    """One character or sign less or more."""
    at = random.randrange(len(text) + 1)
    draw = random.random()
    if draw < 0.35:
        return text[:at] + text[at + random.choice((1, 1, 1, 2, 5)) :]
    if draw < 0.75:
        return text[:at] + random.choice(_SIGNS) + text[at:]
    return text[:at]


class _Anything:
    """A result of any type is accepted."""

    def __contains__(self, _: object) -> bool:
        return True


def _compiled(expression: str) -> Compiled:
    language = device_language(NEWEST, consumable=True, list_values=False, stored=True)
    return compile_expression(expression, language, _Anything(), "", cel.COST_LIMIT)


def judged(expression: str) -> str:
    """An expression that is true where `expression` has the value that we give it, and fails as it fails."""
    try:
        compiled = _compiled(expression)
    except NotCompiled as error:
        return f"[{expression}].size() == 1" if error.internal else expression
    shown = f'"%s".format([{expression}])'
    try:
        value, _ = _compiled(shown).evaluate([Device.from_slice(DRIVER, DEVICE).bound(False)], cel.COST_LIMIT)
    except (NotCompiled, EvaluationError):
        return expression if str(compiled.output) == "bool" else f"[{expression}].size() == 1"
    if str(compiled.output) == "bool":
        return expression
    text = "".join(f"\\u{ord(c):04x}" if not c.isascii() or not c.isprintable() or c in '"\\' else c for c in value)
    return f'{shown} == "{text}"'


def verdict(expression: str, *, stored: bool, lists: bool) -> Json:
    """What becomes of an expression: error; or type, estimate, and match or failure with the cost."""
    program = cel.compile(
        expression,
        device_environment((1, 36), {"DRAConsumableCapacity": True, "DRAListTypeAttributes": lists}, stored=stored),
    )
    if isinstance(program, CompileError):
        return {"error": program.text}
    found: Json = {"type": program.output_type, "max": program.max_cost}
    try:
        match, cost = program.evaluate_with_cost(Device.from_slice(DRIVER, DEVICE))
    except EvaluationError as error:
        return {**found, "failed": error.text, "cost": error.cost}
    return {**found, "match": match, "cost": cost}
