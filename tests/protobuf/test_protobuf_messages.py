"""Messages and objects: bytes by the rules of the wire, round trips of any object, and malformed bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api import protobuf
from apiserver.api.codec.codec import decode, decode_exactly, encode_exactly
from apiserver.api.protobuf import WireError
from apiserver.api.schema.language import STRING, ListOf, MapOf, Struct, field
from apiserver.api.types import meta
from apiserver.registry.body.decode import Kinds
from apiserver.resources import CATALOG
from tests.codec.schema_objects import FULL, arbitrary, full, stored_form

SCHEMAS = [version.schema for resource in CATALOG for version in resource.versions]
KINDS = Kinds(CATALOG)


def schema(version: str, kind: str) -> Struct:
    found = KINDS.schema(version, kind)
    assert found is not None
    return found


def normal(kind: Struct, obj: Any) -> Any:
    return decode(kind, obj).obj


def unnamed(kind: Any, value: Any) -> Any:
    """Remove kind and apiVersion of the object and of nested objects (claim templates of a StatefulSet)."""
    if isinstance(kind, ListOf):
        return [unnamed(kind.item, item) for item in value]
    if not isinstance(kind, Struct):
        return value
    return {
        name: unnamed(kind.fields[name].type, inner)
        for name, inner in value.items()
        if not (kind.gvk and name in ("kind", "apiVersion"))
    }


#: The metadata of an object named "a": all strings are written, the generation, and the zero time as an empty message.
NAMED_A = bytes.fromhex("0a0161 1200 1a00 2200 2a00 3200 3800 4200")


def test_a_config_map_is_its_metadata_and_an_entry_for_each_key_in_order() -> None:
    body = {"metadata": {"name": "a"}, "data": {"z": "2", "k": "1"}}
    expected = b"\x0a\x11" + NAMED_A + bytes.fromhex("1206 0a016b 120131 1206 0a017a 120132")
    assert protobuf.encode(schema("v1", "ConfigMap"), body) == expected


def test_a_pointer_is_written_when_set_even_to_its_zero() -> None:
    kind = schema("v1", "ConfigMap")
    assert protobuf.encode(kind, {"metadata": {"name": "a"}, "immutable": False}) == b"\x0a\x11" + NAMED_A + b"\x20\x00"


def test_bytes_are_raw_and_strings_are_utf_8() -> None:
    body = {"metadata": {"name": "a"}, "data": {"ü": "AP8="}}
    # The type is no pointer: its empty string is written.
    result = protobuf.encode(schema("v1", "Secret"), body)
    assert result == b"\x0a\x11" + NAMED_A + b"\x12\x08\x0a\x02\xc3\xbc\x12\x02\x00\xff" + b"\x1a\x00"


def test_times_numbers_and_embedded_structs_of_a_lease() -> None:
    spec = {"leaseDurationSeconds": -1, "renewTime": "1970-01-01T00:00:01.000002Z"}
    body = {"metadata": {"name": "a"}, "spec": spec}
    # -1 has ten bytes; two microseconds are 2000 nanoseconds.
    inner = bytes.fromhex("10 ffffffffffffffffff01 22 05 0801 10d00f")
    result = protobuf.encode(schema("coordination.k8s.io/v1", "Lease"), body)
    assert result == b"\x0a\x11" + NAMED_A + b"\x12" + bytes((len(inner),)) + inner


def test_a_port_by_name_or_number_has_all_three_fields() -> None:
    made = [
        protobuf.encode(schema("v1", "Service"), {"metadata": {}, "spec": {"ports": [{"port": 1, "targetPort": port}]}})
        for port in (300, "web")
    ]
    assert bytes.fromhex("2207 0800 10ac02 1a00") in made[0]
    assert bytes.fromhex("2209 0801 1000 1a03") + b"web" in made[1]


def test_the_envelope_names_version_and_kind_and_no_encoding() -> None:
    # 31 bytes, as clients send it.
    result = protobuf.wrap("v1", "DeleteOptions", b"")
    assert result == b"k8s\x00\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x00\x1a\x00\x22\x00"
    assert protobuf.unwrap(protobuf.wrap("apps/v1", "Deployment", b"xyz")) == ("apps/v1", "Deployment", b"xyz")


def test_a_frame_is_an_event_behind_its_length() -> None:
    assert protobuf.frame("ADDED", b"obj") == b"\x00\x00\x00\x0e\x0a\x05ADDED\x12\x05\x0a\x03obj"


def test_verbs_are_a_message_of_their_own() -> None:
    body = {"name": "pods", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}
    made = protobuf.encode(meta.APIResource, body)
    assert b"\x22\x0b\x0a\x03get\x0a\x04list" in made
    assert protobuf.decode(meta.APIResource, made)["verbs"] == ["get", "list"]


def test_a_list_in_a_map_is_a_message_of_its_own() -> None:
    kind = Struct("io.k8s.api.authentication.v1.UserInfo", (field("extra", 4, MapOf(ListOf(STRING))),))
    made = protobuf.encode(kind, {"extra": {"a": ["x", "y"], "b": None}})
    assert made == bytes.fromhex("220b 0a0161 1206 0a0178 0a0179") + bytes.fromhex("2205 0a0162 1200")
    assert protobuf.decode(kind, made) == {"extra": {"a": ["x", "y"], "b": []}}


@pytest.mark.parametrize("kind", SCHEMAS, ids=lambda kind: kind.name)
def test_every_field_of_every_kind_survives(kind: Struct) -> None:
    obj = normal(kind, full(kind))
    assert normal(kind, protobuf.decode(kind, protobuf.encode(kind, obj))) == unnamed(kind, obj)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_object_comes_back_in_normal_form(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(SCHEMAS))
    obj = normal(kind, data.draw(arbitrary(kind)) or {})
    back = normal(kind, protobuf.decode(kind, protobuf.encode(kind, obj)))
    # Messages know no empty lists: they come back as from upstream's storage, and so does what is nothing else.
    assert protobuf.encode(kind, back) == protobuf.encode(kind, obj)
    assert list(back) == [name for name in obj if name in back]
    assert normal(kind, back) == back == stored_form(kind, back)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_no_bytes_do_more_than_be_refused(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(SCHEMAS))
    raw = data.draw(st.one_of(st.binary(max_size=60), _damaged(kind)))
    try:
        obj = protobuf.decode(kind, raw)
    except WireError:
        return
    again = protobuf.encode(kind, normal(kind, obj))
    assert normal(kind, protobuf.decode(kind, again)) == normal(kind, obj)


@st.composite
def _damaged(draw: st.DrawFn, kind: Struct) -> bytes:
    raw = bytearray(protobuf.encode(kind, normal(kind, full(kind))))
    for _ in range(draw(st.integers(0, 3))):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw[: draw(st.integers(0, len(raw)))])


@given(st.binary(max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_envelope_does_more_than_be_refused(raw: bytes) -> None:
    for body in (raw, b"k8s\x00" + raw):
        with suppress(WireError):
            protobuf.unwrap(body)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("0a05 61", "unexpected EOF"),
        ("0a", "unexpected EOF"),
        ("ff", "unexpected EOF"),
        ("08 01", "proto: wrong wireType = 0 for field ObjectMeta"),
        ("0a ffffffffffffffffff01", "proto: negative length found during unmarshaling"),
        ("ffffffffffffffffffffff01", "proto: integer overflow"),
        ("04", "proto: ConfigMap: wiretype end group for non-group"),
        ("02 00", "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        ("7f", "proto: illegal wireType 7"),
        ("7b 08", "unexpected EOF"),
    ],
)
def test_a_malformed_message_is_refused_in_upstream_s_words(raw: str, words: str) -> None:
    with pytest.raises(WireError) as refused:
        protobuf.decode(schema("v1", "ConfigMap"), bytes.fromhex(raw))
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty data"),
        (b"k8s\x00", "empty body"),
        (b'{"kind":"Pod"}', "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\x00\x0a\x05", "unexpected EOF"),
    ],
)
def test_a_body_without_an_envelope_is_refused_in_upstream_s_words(raw: bytes, words: str) -> None:
    with pytest.raises(WireError) as refused:
        protobuf.unwrap(raw)
    assert str(refused.value) == words


def test_unknown_fields_of_any_wire_type_are_skipped() -> None:
    unknown = bytes.fromhex(
        "f806 9601 f906 0102030405060708 fa06 03616263 fd06 01020304 fb06 0a0161 0801 fb07 fc07 fc06"
    )
    assert protobuf.decode(schema("v1", "ConfigMap"), unknown + b"\x20\x01") == {"immutable": True}


def test_what_comes_twice_is_merged_or_the_last_one_counts() -> None:
    raw = (
        bytes.fromhex("0a03 0a0161 0a03 1a016e 2001 2000")
        + bytes.fromhex("1206 0a016b 120131")
        + bytes.fromhex("1206 0a016b 120132")
        + b"\x12\x03\x0a\x01n"
    )
    expected = {"metadata": {"name": "a", "namespace": "n"}, "immutable": False, "data": {"k": "2", "n": ""}}
    assert protobuf.decode(schema("v1", "ConfigMap"), raw) == expected


def test_numbers_may_be_packed_and_wrap_around() -> None:
    pod = schema("v1", "Pod")
    packed = bytes.fromhex("12 07 72 05 22 03 01 ac02")
    assert protobuf.decode(pod, packed) == {"spec": {"securityContext": {"supplementalGroups": [1, 300]}}}
    # 2**32 + 1 in a field of 32 bits.
    assert protobuf.decode(schema("coordination.k8s.io/v1", "Lease"), bytes.fromhex("12 06 10 8180808010"))["spec"] == {
        "leaseDurationSeconds": 1
    }


def test_text_that_is_no_utf_8_is_repaired() -> None:
    assert protobuf.decode(schema("v1", "ConfigMap"), b"\x0a\x05\x0a\x03a\xffb")["metadata"] == {"name": "a\ufffdb"}


def test_times_before_1970_and_fractions_below_a_microsecond() -> None:
    lease = schema("coordination.k8s.io/v1", "Lease")
    for text in ("1969-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000001Z", "9999-12-31T23:59:59.999999Z"):
        obj = {"metadata": {}, "spec": {"renewTime": text}}
        assert protobuf.decode(lease, protobuf.encode(lease, obj))["spec"] == {"renewTime": text}
    assert protobuf.decode(lease, bytes.fromhex("12 07 22 05 0801 10cf0f"))["spec"] == {
        "renewTime": "1970-01-01T00:00:01.000001Z"
    }
    assert protobuf.decode(lease, bytes.fromhex("12 02 22 00"))["spec"] == {"renewTime": None}


def test_a_raw_value_that_is_no_json_is_refused_and_one_that_is_keeps_its_bytes() -> None:
    kind = schema("resource.k8s.io/v1", "DeviceClass")

    def body(raw: bytes) -> bytes:
        return protobuf.encode(
            kind, {"metadata": {}, "spec": {"config": [{"opaque": {"driver": "d", "parameters": FULL["raw"]}}]}}
        ).replace(b'{"z":[1,{"y":null}],"a":"raw"}', raw)

    with pytest.raises(WireError, match="a raw value is no JSON"):
        protobuf.decode(kind, body(b'{"z":[1,{"y":null}],"a":"raw"]'))
    written = b'{"z" : [1,2] , "a":   "raw"  }'
    assert protobuf.encode(kind, normal(kind, protobuf.decode(kind, body(written)))) == body(written)


@pytest.mark.parametrize("wrong", [b"\xf6", rb"\ud800"])
def test_a_raw_value_that_is_no_text_has_the_replacement_character_and_can_be_kept(wrong: bytes) -> None:
    kind = schema("apps/v1", "ControllerRevision")
    body = {"metadata": {"name": "a"}, "revision": 1}
    sent = protobuf.encode(kind, {**body, "data": {"k": "?" * len(wrong)}}).replace(b"?" * len(wrong), wrong)
    found = protobuf.decode(kind, sent)
    assert found["data"] == {"k": "\ufffd"}
    assert decode_exactly(encode_exactly(found)) == found
