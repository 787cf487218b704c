"""Expressions about devices, made from the declarations of all functions, and damaged ones.

What they give is asked of upstream's own library and kept (`tests/cel/recorded`), so that every function, conversion,
cost and error text is held whatever it is called with. An expression depends on its number alone.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from apiserver import cel
from apiserver.api.objects import Json
from apiserver.cel import CompileError, Device, EvaluationError, device_environment
from apiserver.cel.engine import Compiled, CompileFailure, compile_expression
from apiserver.cel.environments.devices import NEWEST, device_language
from apiserver.cel.language.types import Type

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
#: Texts at which the functions that read them turn, and other words of templates.
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "pattern": (
        r"\\s+\\w*", "[[:alpha:]]+", r"\\pL", "(?i)A", "a{2,3}", "[^a-c]", r"\\bx", "^a$|b", "(", "[z-a]", "a**", r"\\Q.\\E", "(?P<n>a)", ".*?", r"\\x{41}", r"[\\d\\-x]", "(?s).", "x*", "[[:^digit:]]",
        "(a|b)*c", r"\\D\\S\\W", "a{1001}", "(?:b)", r"\\pZ", r"\\C", "[]a]", "é",
    ),
    "format": (
        "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date",
        "datetime", "nope",
    ),
    "formatted": (
        "a-b", "A.b", "-a", "a" * 64, "a.b.c", "x/y", "/y", "https://a/b?c", "a b", "%zz", "YWJj", "YWJ", "a===", "2024-02-29", "2023-02-29", "2024-02-29T00:00:00Z", "2024-02-29T00:00:00", "1a",
        "18db0e85-99e9-4746-8531-ffeb86328b39", "18DB0E85-99E9-4746-8531-FFEB86328B39", "", "a-", "a..b",
    ),
    "address": (
        "10.0.0.1", "010.0.0.1", "::", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3", "1.2.3.4.5", "g::1", "1::2::3", "10.0.0.0/33", "10.0.0.0/08", "::1/129", "10.0.0.0/8", "10.1.2.3/8", "10.1.2.3/16",
        "2001:db8::/32", "2001:DB8::1", "2001:db8:0::1", "0.0.0.0/0", "256.1.1.1", "127.0.0.1", "ff02::1", "::ffff:10.0.0.0/104", "", "10.0.0.0/", "/8", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7",
    ),
    "number": (
        "1", "1.5Gi", "-0", "1e3", "1E", "0.5m", "9223372036854775807", "9223372036854775808", "1Ki", "+1", " 1", "", "1k", "12e-3", "-1.5", "100m", "1.", ".5", "1n", "0.1n", "1Ei", "10Ei", "1e-20", "1_000",
    ),
    "version": ("1.2.3", "1.2", "v1", "v1.2.3-rc.1", "1.2.3+b.1", "01.2.3", "1.2.3-01", "1.2.3-a.b.1", "", "1.2.x", "18446744073709551615.0.0", "18446744073709551616.0.0", "1.2.3-", "0.0.0", "1.10.0", "2"),
    "time": (
        "2024-02-29T23:30:15.123456789Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2023-12-31T23:59:59+02:00", "2024-03-10T02:30:00-05:00", "2024-11-03T05:30:00Z", "2024-02-30T00:00:00Z",
        "2024-02-29t00:00:00z", "2024-02-29 00:00:00Z", "2024-02-29T24:00:00Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2024-06-15T12:00:00.5Z",
    ),
    "span": ("1h30m", "-1.5s", "1d", "0", "1ns", "1us", "1µs", "2562047h47m16s", "2562048h", ".5s", "1.s", "+5m", "1h1h", "", "1", "1 s", "-0s", "100ms3us"),
    "getter": ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    "zone": ("UTC", "America/New_York", "+05:30", "-08:00", "Nope/Zone", "05:30", "", "Asia/Kathmandu", "+25:00", "Local", "Europe/Berlin"),
    "double": ("1e21", "1e20", "123456789012345678.0", "1.5e-7", "1e-6", "0.1", "5e-324", "1e22", "1.7976931348623157e308", "-1e-5", "100000.0", "1234567.0", "0.00001234", "9007199254740993.0", "2147483648.0"),
    "depth": ("0", "1", "2", "3", "dyn(1)"),
    "message": (
        "google.protobuf.Int32Value{value: 3}", "google.protobuf.Struct{}", "Object{a: 1}", "int{}", "google.protobuf.Duration{seconds: 3}", "google.protobuf.BoolValue{value: true}", "kubernetes.Quantity{}",
        "google.protobuf.StringValue{value: 3}", "google.protobuf.ListValue{values: []}", "google.protobuf.Timestamp{nope: 1}", "Nope{}", "device.x{}", "google.protobuf.Value{number_value: 1.5}",
    ),
}  # fmt: skip
_READING: Final = (
    '{string}.matches("{pattern}")', '"abc-12 éX".find("{pattern}")', '"a1 bB-2c\\n".findAll("{pattern}")', '"xaab".matches(dyn("{pattern}"))', '"aXb".findAll("{pattern}", {depth})',
    'format.{format}().validate("{formatted}")', 'format.named("{format}").hasValue()', 'format.named("{format}").value().validate("{formatted}")',
    'ip("{address}")', 'isIP("{address}")', 'ip.isCanonical("{address}")', 'cidr("{address}")', 'isCIDR("{address}")', 'cidr("{address}").containsIP("{address}")', 'cidr("{address}").containsIP(ip("{address}"))',
    'cidr("{address}").containsCIDR("{address}")', 'cidr("{address}").masked() == cidr("{address}")', 'cidr("{address}").prefixLength()', 'ip("{address}").family()', 'ip("{address}") == ip("{address}")',
    'string(ip("{address}"))', 'string(cidr("{address}").masked())', 'ip("{address}").isLoopback() || ip("{address}").isUnspecified() || ip("{address}").isGlobalUnicast()',
    'isQuantity("{number}")', 'quantity("{number}").asInteger()', 'quantity("{number}").isInteger()', 'quantity("{number}").asApproximateFloat()', 'quantity("{number}").sign()', 'quantity("{number}") == quantity("{number}")',
    'quantity("{number}").add(quantity("{number}")).compareTo(quantity("{number}"))', 'quantity("{number}").sub({int}).isLessThan(quantity("{number}"))', 'quantity("{number}").isGreaterThan(quantity("{number}"))',
    'isSemver("{version}")', 'isSemver("{version}", true)', 'semver("{version}", {bool}).minor()', 'semver("{version}").compareTo(semver("{version}"))', 'semver("{version}", true).isLessThan(semver("{version}", true))',
    'timestamp("{time}")', 'timestamp("{time}").{getter}()', 'timestamp("{time}").{getter}("{zone}")', 'timestamp("{time}") - timestamp("{time}")', 'timestamp("{time}") + duration("{span}")', 'duration("{span}")',
    'duration("{span}").{getter}()', 'duration("{span}") + duration("{span}")', 'string(duration("{span}"))', 'int(timestamp("{time}"))', 'timestamp("{time}") - duration("{span}")', 'string(timestamp("{time}"))',
    "string({number_double})", "int({number_double})", "{number_double} + {number_double}", "uint({number_double})", '"%f %.0f %.1f".format([{number_double}, {number_double}, {number_double}])', 'double("{number}")', 'int("{number}")',
    "[1, [2, [3, [4]]]].flatten({depth})", "{message} == {message}", "{message}", "type({message})", 'url("{formatted}").getPath()', 'isURL("{formatted}")', "timestamp({int})", 'bytes("{formatted}").size()',
    "device.attributes.all(d, device.attributes[d].all(a, a.size() > 0))", "device.attributes.map(d, d).exists(x, x.contains({string}))", "device.attributes.transformList(d, m, m.size())",
    "device.capacity.all(d, m, m.all(n, q, q.isGreaterThan({kubernetes.Quantity})))", "device.attributes[device.driver].exists(k, v, v == {any})", "device.attributes.exists(d, m, m.exists(k, k.startsWith(d)))",
    "lists.range(3).map(i, lists.range(i))", "device.attributes.map(d, device.attributes[d]).map(m, m.size())", "[{string}, {string}].map(s, s.size()).exists(n, n > {int})", "{list}.map(x, {list}.map(y, [x, y])).flatten().size()",
    "device.attributes[{string}].map(k, k.upperAscii())", "device.driver.split({string}).map(p, p + {string}).join({string})", "{list}.transformMapEntry(i, v, {{string(i): v}})", "{map}.transformList(k, v, {bool}, [k])",
    "has(device.attributes[{string}].{name}) ? device.attributes[{string}].{name} == {any} : {bool}", "cel.bind(d, device.driver, d + d).size()", "{bool} || {any}.{name} == {int}", "({list} + {list}).filter(x, x == {any}).size()",
    "device.attributes.filter(d, d.endsWith({string})).map(d, device.attributes[d]).exists(m, has(m.{name}))", "[{any}, {any}] == [{any}, {any}]", "{any} in [{any}, {any}]", "{bool} ? [{any}] : []", "{any}.{getter}()",
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
    """A generator of expressions."""

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
        """Build an expression: each overload in turn, macros, and sometimes a damaged one."""
        random, (turn, draw) = Random(f"expression/{number}"), divmod(number, 8)
        if draw < 4:
            return self._call(random, *self._calls[(turn * 4 + draw) % len(self._calls)], 1)
        if draw < 7:
            return self._macro(random)
        whole = self._macro(random) if random.random() < 0.5 else self._call(random, *random.choice(self._calls), 1)
        return _damaged(random, whole)

    def _macro(self, random: Random) -> str:
        template = random.choice(_READING if random.random() < 0.6 else _MACROS)
        made = ""
        for part in template.replace("{{", "\0").replace("}}", "\1").split("{"):
            name, closed, rest = part.partition("}")
            made += (self._named(random, name) + rest) if closed else part
        return made.replace("\0", "{").replace("\1", "}")

    def _named(self, random: Random, name: str) -> str:
        match name:
            case "number_double":
                return random.choice(_WORDS["double"])
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
        return random.choice(_LITERALS[name] if name in _LITERALS else _WORDS[name])

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
    """Remove or insert one character or token."""
    at = random.randrange(len(text) + 1)
    draw = random.random()
    if draw < 0.35:
        return text[:at] + text[at + random.choice((1, 1, 1, 2, 5)) :]
    if draw < 0.75:
        return text[:at] + random.choice(_SIGNS) + text[at:]
    return text[:at]


class _Anything:
    """A type that accepts any result."""

    def __contains__(self, _: object) -> bool:
        return True


def _compiled(expression: str) -> Compiled:
    language = device_language(NEWEST, consumable=True, list_values=False, stored=True)
    return compile_expression(expression, language, _Anything(), "", cel.COST_LIMIT)


def judged(expression: str) -> str:
    """Build an expression that is true if `expression` has the value that we compute, and fails if it fails."""
    try:
        compiled = _compiled(expression)
    except CompileFailure as error:
        return f"[{expression}].size() == 1" if error.internal else expression
    shown = f'"%s".format([{expression}])'
    try:
        value, _ = _compiled(shown).evaluate([Device.from_slice(DRIVER, DEVICE).bound(False)], cel.COST_LIMIT)
    except (CompileFailure, EvaluationError):
        return expression if str(compiled.output) == "bool" else f"[{expression}].size() == 1"
    if str(compiled.output) == "bool":
        return expression
    text = "".join(f"\\u{ord(c):04x}" if not c.isascii() or not c.isprintable() or c in '"\\' else c for c in value)
    return f'{shown} == "{text}"'


def verdict(expression: str, *, stored: bool, lists: bool) -> Json:
    """Return the outcome: the error; or type and estimate, and the match or failure with its cost."""
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
