"""Bodies: bad JSON in Go's words, YAML as go-yaml reads it, times."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api.codec.codec import DecodeError, copy_json, decode, encode, loads
from apiserver.api.types.core.configuration import ConfigMap
from apiserver.api.types.resource.v1 import ResourceClaim
from apiserver.api.values.go_json import syntax_error
from apiserver.api.values.times import micro_time, time
from tests.support.patience import run_command
from tests.support.wire import environment


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"01", "invalid character '1' after top-level value"),
        (b"tru", "unexpected end of JSON input"),
        (b"nulx", "invalid character 'x' in literal null (expecting 'l')"),
        (b"\xff", "invalid character '\\u00ff' looking for beginning of value"),
    ],
)
def test_bad_json_is_told_in_gos_words(body: bytes, text: str) -> None:
    expected = text if body != b"\xff" else "invalid character 'ÿ' looking for beginning of value"
    with pytest.raises(DecodeError) as caught:
        loads(body)
    assert caught.value.text == expected


@given(body=st.one_of(st.binary(max_size=12), st.text(alphabet='{}[]",:01.e-tfnul \\', max_size=12).map(str.encode)))
@settings(max_examples=300, deadline=None)
def test_a_body_is_refused_exactly_when_it_is_no_json(body: bytes) -> None:
    def reject(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(body.decode("utf-8", "replace"), parse_constant=reject)
        valid = not body.startswith(b"\xef\xbb\xbf")
    except ValueError:
        valid = False
    assert (syntax_error(body) == "") == valid


def test_invalid_utf8_and_lone_surrogates_become_replacement_characters() -> None:
    assert loads(b'{"a":"\xff"}').value == {"a": "�"}
    assert loads(b'{"a":"\\ud800"}').value == {"a": "�"}
    assert loads(b'{"a":"\\ud83d\\ude00"}').value == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("y", True), ("Off", False), ("~", None), ("''", ""), ("1", 1), ("0x1f", 31), ("0o17", 15), ("017", 15), ("0b11", 3), ("1_000", 1000),
        ("-5", -5), ("1.5", 1.5), ("1e3", 1000), ("1.0", 1), (".5", 0.5), ("1:30", "1:30"), ("2024-01-02", "2024-01-02"), ("'1'", "1"), ('"yes"', "yes"),
        ("09", 9), ("18446744073709551615", 18446744073709551615), ("[a, {b: c}]", ["a", {"b": "c"}]), ("|\n  x\n  y\n", "x\ny\n"),
    ],
)  # fmt: skip
def test_yaml_scalars_have_go_yamls_types(text: str, value: object) -> None:
    found = loads(f"v: {text}".encode(), "application/yaml").value["v"]
    assert found == value
    assert type(found) is type(value)


def test_yaml_keys_become_strings_and_anchors_copies() -> None:
    body = loads(b"a: &x {1: one, true: t}\nb: *x\nc:\n  <<: *x\n  d: e\n", "application/yaml").value
    assert body == {
        "a": {"1": "one", "true": "t"},
        "b": {"1": "one", "true": "t"},
        "c": {"1": "one", "true": "t", "d": "e"},
    }
    assert body["a"] is not body["b"]


def test_only_the_first_yaml_document_counts() -> None:
    assert loads(b"a: 1\n---\nb: [\n", "application/yaml; charset=utf-8").value == {"a": 1}


def test_a_key_that_yaml_sets_twice_is_the_first_problem() -> None:
    body = loads(b"data: {a: x}\nnope: 1\ndata:\n  a: y\n  a: z\n", "application/yaml")
    decoded = decode(ConfigMap, body.value, body)
    assert decoded.problems == [
        'yaml: unmarshal errors:\n  line 5: key "a" already set in map\n  line 4: key "data" already set in map',
        'unknown field "nope"',
    ]
    assert decoded.obj["data"] == {"a": "z"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("\tx: 1", "yaml: found character that cannot start any token"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("a: .nan", "json: unsupported value: NaN"),
    ],
)
def test_bad_yaml_is_told_in_go_yamls_words(text: str, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        loads(text.encode(), "application/yaml")
    assert caught.value.text == message


def test_a_whole_float_in_yaml_is_an_integer() -> None:
    body = loads(
        b"spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 2.0}}]}}", "application/yaml"
    )
    assert decode(ResourceClaim, body.value, body).obj["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2


@given(
    moment=st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9990, 1, 1)), minutes=st.integers(-720, 720)
)
@settings(max_examples=100, deadline=None)
def test_times_become_utc(moment: datetime, minutes: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    utc = aware.astimezone(UTC)
    assert time(aware.isoformat()) == utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert micro_time(aware.isoformat(timespec="microseconds")) == utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
        (
            "2024-1-02T00:00:00Z",
            'parsing time "2024-1-02T00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse "1-02T00:00:00Z" as "01"',
        ),
        ("2024-13-02T00:00:00Z", 'parsing time "2024-13-02T00:00:00Z": month out of range'),
        ("2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
        (
            "2024-01-02 00:00:00Z",
            'parsing time "2024-01-02 00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T"',
        ),
        ("2024-01-02T24:00:00Z", 'parsing time "2024-01-02T24:00:00Z": hour out of range'),
        ("2024-01-02T00:00:60Z", 'parsing time "2024-01-02T00:00:60Z": second out of range'),
        (
            "2024-01-02T00:00:00",
            'parsing time "2024-01-02T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"',
        ),
        ("2024-01-02T00:00:00Zx", 'parsing time "2024-01-02T00:00:00Zx": extra text: "x"'),
    ],
)
def test_bad_times_are_told_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        time(text)
    assert str(caught.value) == message


def test_micro_times_need_six_digits() -> None:
    with pytest.raises(ValueError, match=r'cannot parse "Z" as "\.000000"'):
        micro_time("2024-01-02T00:00:00Z")


def test_gos_zero_time_is_null() -> None:
    assert time("0001-01-01T00:00:00Z") is None


def _chain(links: int) -> str:
    """Return values of 150 levels; each contains the previous one."""
    lines = ["a0: &a0 1"]
    lines += [f"a{n}: &a{n} {'[' * 150}*a{n - 1}{']' * 150}" for n in range(1, links + 1)]
    return "\n".join(lines)


def _laughs(levels: int) -> str:
    """Build lists of nine items; each further list consists of nine aliases of the one before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 30_000, "yaml: nested deeper than 200 levels"),
        ("- " * 20_000 + "a", "yaml: line 1: nested deeper than 200 levels"),
        (_chain(2), "nested deeper than 200 levels"),
        (_chain(50), "nested deeper than 200 levels"),
        (_laughs(12), "yaml: document contains excessive aliasing"),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ('a: !!binary "a"', "yaml: !!binary value contains invalid base64 data"),
        ("a: !!int abc", "yaml: cannot decode !!str `abc` as a !!int"),
        ("{[a]: b}", "yaml: invalid map key"),
    ],
    ids=[
        "brackets", "indentation", "deep alias", "deep aliases of each other", "aliases", "self", "unknown",
        "binary", "tag", "key",
    ],
)  # fmt: skip
def test_yaml_that_would_cost_more_than_it_says_is_refused(text: str, message: str) -> None:
    with pytest.raises(DecodeError) as refused:
        loads(text.encode(), "application/yaml")
    assert message in str(refused.value)


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
def test_a_body_has_200_levels_at_most(media: str) -> None:
    assert encode(loads(b"[" * 200 + b"]" * 200, media).value) == b"[" * 200 + b"]" * 200
    for levels in (201, 300, 2000):
        with pytest.raises(DecodeError, match="nested deeper than 200 levels"):
            loads(b"[" * levels + b"]" * levels, media)
    wide = b"[" + b"[{}]," * 500 + b"[]]"
    assert encode(loads(wide, media).value) == wide


def test_yaml_may_repeat_within_bounds() -> None:
    body = loads(_laughs(3).encode(), "application/yaml").value
    assert len(body["a2"]) == 9
    assert body["a2"][0] == body["a1"]
    assert body["a2"][0] is not body["a1"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9" * 50_000, "9" * 50_000),
        ("!!str 12", "12"),
        ("!!float 3", 3),
        ("! 12", "12"),
        ("0x" + "f" * 16, 2**64 - 1),
        ("!!binary aGk=", "hi"),
    ],
    ids=["long", "str", "float", "text", "hex", "binary"],
)
def test_odd_scalars_are_what_go_yaml_makes_of_them(text: str, value: object) -> None:
    assert loads(f"v: {text}".encode(), "application/yaml").value == {"v": value}


def test_yaml_may_have_integers_of_more_than_64_bits() -> None:
    wide = 2**64
    body = loads(f"a: {wide}\n".encode(), "application/yaml")
    assert body.value == {"a": wide}
    assert copy_json(body.value | {"b": {}}) == {"a": wide, "b": {}}


def test_deep_raw_values_are_written_within_the_memory_that_they_have() -> None:
    """An allocator that checks writes beyond the end runs orjson's Fragment, which does that below many brackets."""
    checked = {"PYTHONMALLOC": "malloc", "MALLOC_CHECK_": "3", "GLIBC_TUNABLES": "glibc.malloc.check=3"}
    library = next(Path("/usr/lib").glob("*/libc_malloc_debug.so.0"), None)
    done = run_command(
        [sys.executable, "-P", "-c", _WRITES_DEEP],
        env=environment() | checked | ({"LD_PRELOAD": str(library)} if library else {}),
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


_WRITES_DEEP = """
from random import Random
from apiserver.api.codec.codec import decode_exactly, encode_exactly
from apiserver.api.values.go_json import RawObject
chance = Random(1)
for _ in range(500):
    before, inside = "p" * chance.randint(1, 5000), b'{ "x":"' + b"q" * chance.randint(1, 5000) + b'"}'
    value = [RawObject({}, inside)]
    for _ in range(150):
        value = [value]
    text = encode_exactly({"a": [before, value]})
    assert text == b'{"a":["' + before.encode() + b'",' + b"[" * 151 + b" " + inside + b"]" * 152 + b"}"
"""
