"""Build random texts: names, selectors, CEL expressions, query values; and damage raw bytes."""

from __future__ import annotations

from random import Random
from typing import Final

_WORDS: Final = (
    "", "a", "b", "a-b", "A", "default", "example.com", "d.example.com", "d.example.com/x", "a/b", "a/b/c", "k", "v", "r", "r/s", "x" * 63, "x" * 64,
    "x" * 254, "é", "\u0000", "\n", "a b", "-", "_", ".", "..", "/", "%2F", "%", "*", "true", "1", "null", "All", "Exists", "In", "Never", "10.0.0.1",
    "::1", "50%", "100m", "1Gi", "2026-01-01T00:00:00Z", "kubernetes", "kubernetes.io/x", "system:node:n", "\U0001f600", "\u2028", "IP", "TCP", "a=b",
)  # fmt: skip
_LETTERS: Final = "abz019-._/:=%\\\"'{}[](),!<>&|?* \t\né\u0000"


def text(random: Random) -> str:
    """Return a word that means something somewhere, or nonsense."""
    if random.random() < 0.85:
        return random.choice(_WORDS)
    return "".join(random.choices(_LETTERS, k=random.randrange(12)))


_KEYS: Final = ("a", "app", "x/y", "example.com/k", "", "-", "metadata.name", "!a", "é")


def label_selector(random: Random) -> str:
    """Build a label selector, sometimes an invalid one."""
    forms = (
        "{k}={v}", "{k}=={v}", "{k}!={v}", "{k}", "!{k}", "{k} in ({v},{w})", "{k} notin ({v})", "{k} in ()",
        "{k}>{n}", "{k}<{n}", "{k} in {v}",
    )  # fmt: skip
    parts = [
        random.choice(forms).format(k=random.choice(_KEYS), v=text(random), w=text(random), n=random.choice((1, "x")))
        for _ in range(random.choice((1, 1, 2, 3)))
    ]
    return _spoilt(random, ",".join(parts))


def field_selector(random: Random, labels: tuple[str, ...]) -> str:
    """Build terms with a kind's selectable fields, sometimes with others."""
    parts = []
    for _ in range(random.choice((1, 1, 2))):
        label = random.choice(labels) if labels and random.random() < 0.8 else text(random)
        parts.append(f"{label}{random.choice(('=', '==', '!=', '', ','))}{text(random)}")
    return _spoilt(random, ",".join(parts))


def _spoilt(random: Random, given: str) -> str:
    if random.random() < 0.15 and given:
        at = random.randrange(len(given))
        return given[:at] + random.choice(_LETTERS) + given[at + random.randrange(2) :]
    return given


_ATOMS: Final = (
    "true", "false", "1", "-1", "0u", "1.5", "'a'", '"\\u0041"', "b'x'", "null", "device", "device.driver", 'device.attributes["d.example.com"].model',
    'device.capacity["d.example.com"].mem', "device.attributes", "device.allowMultipleAllocations", "[1, 2]", "{'a': 1}", "[]", "{}", "9223372036854775807", "x", "int",
    "semver('1.2.3')", "quantity('1Gi')", "duration('1s')", "timestamp('2026-01-01T00:00:00Z')", "'a' * 2",
)  # fmt: skip
_FORMS: Final = (
    "{a} == {b}", "{a} && {b}", "{a} || {b}", "!({a})", "-({a})", "{a} ? {b} : {a}", "{a} + {b}", "{a} / {b}", "{a} % {b}", "{a} in {b}", "{a}[{b}]", "{a}.size()",
    "size({a})", "{a}.all(x, {b})", "{a}.exists(x, x == {b})", "{a}.map(x, {b})", "{a}.filter(x, {b})", "{a}.exists_one(i, {b})", "has({a}.x)", "string({a})",
    "int({a})", "{a}.matches({b})", "{a}.startsWith({b})", "{a}.compareTo({b})", "cel.bind(x, {a}, {b})", "{a}.?x.orValue({b})", "optional.of({a})", "{a}.split({b})",
    "isQuantity({a})", "url({a})", "{a}.find({b})", "{a}.format([{b}])", "({a})", "{a} < {b}", "{a}.includes({b})", "{a}.isGreaterThan({b})", "dyn({a})", "type({a})",
)  # fmt: skip


def expression(random: Random, depth: int = 4) -> str:
    """Build a CEL expression of any type."""
    if depth == 0 or random.random() < 0.25:
        return random.choice(_ATOMS)
    a = expression(random, depth - 1)
    made = random.choice(_FORMS).replace("{a}", a).replace("{b}", expression(random, depth - 1) if depth > 2 else "1")
    return made if depth < 4 else _spoilt(random, made)


_TOKENS: Final = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"\x00", b"\xff", b"\xc3", b"\\u", b"\\ud800", b"1e999", b"-",
    b"&a ", b"*a", b"<<: ", b"!!binary ", b"---\n", b"\t", b"0" * 50, b"\r\n", b"\x80\x01",
)  # fmt: skip


def damaged(random: Random, data: bytes) -> bytes:
    """Return the bytes with a few changes."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(made) + 1)
        match random.randrange(6):
            case 0 if at < len(made):
                made[at] ^= 1 << random.randrange(8)
            case 1:
                del made[at : at + random.randrange(1, 9)]
            case 2:
                made[at:at] = random.choice(_TOKENS)
            case 3:
                del made[at:]
            case 4:
                made[at:at] = made[at : at + random.randrange(1, 40)]
            case _:
                made[at:at] = random.randbytes(random.randrange(1, 4))
    return bytes(made)
