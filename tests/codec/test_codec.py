"""Decoding to normal form."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api.codec.codec import (
    Body,
    DecodeError,
    decode,
    decode_changed,
    decode_exactly,
    encode,
    encode_exactly,
    interpret,
    loads,
    zero,
)
from apiserver.api.schema.language import INT32, INT64, STRING, ListOf, MapOf, Struct, field
from apiserver.api.types.coordination import Lease
from apiserver.api.types.core.configuration import ConfigMap, Secret
from apiserver.api.types.core.events import Event
from apiserver.api.types.core.nodes import Node
from apiserver.api.types.core.pods import Pod
from apiserver.api.types.core.services import Service
from apiserver.api.types.resource import v1, v1beta1
from apiserver.api.validation.scalars import raw_size
from tests.codec.schema_objects import arbitrary, full, stored_form

KINDS = (
    Pod, Node, Service, Event, ConfigMap, Secret, Lease, v1.ResourceClaim, v1.ResourceSlice, v1.DeviceClass,
    v1beta1.ResourceClaim,
)  # fmt: skip


def request(schema: Struct, text: str | bytes, content_type: str = "application/json") -> Any:
    body = loads(text.encode() if isinstance(text, str) else text, content_type)
    return decode(schema, body.value, body)


def claim(exactly: str) -> str:
    return '{"spec":{"devices":{"requests":[{"name":"r","exactly":' + exactly + "}]}}}"


@pytest.mark.parametrize("schema", KINDS, ids=lambda schema: schema.name)
def test_an_object_that_uses_every_field_comes_back_unchanged(schema: Struct) -> None:
    obj = full(schema)
    decoded = request(schema, encode(obj))
    assert decoded.problems == []
    assert encode(decoded.obj) == encode(obj)


@pytest.mark.parametrize("schema", KINDS, ids=lambda schema: schema.name)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_decoding_is_idempotent(schema: Struct, data: st.DataObject) -> None:
    value = data.draw(arbitrary(schema))
    once = decode(schema, value).obj
    assert encode(decode(schema, once).obj) == encode(once)
    stored = stored_form(schema, once)
    assert stored_form(schema, stored) == stored
    assert b":[]" not in encode(stored).replace(b'":[]"', b"")


_KEYS = ["metadata", "spec", "status", "name", "labels", "x"]
_ANY_JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=3)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4)),
    max_leaves=8,
)


@given(value=_ANY_JSON)
@settings(max_examples=200, deadline=None)
def test_any_json_is_decoded_or_refused_in_one_sentence(value: Any) -> None:
    decoded = None
    with contextlib.suppress(DecodeError):
        decoded = request(v1.ResourceClaim, json.dumps(value))
    assert decoded is None or decode(v1.ResourceClaim, decoded.obj).obj == decoded.obj


def test_fields_come_in_schema_order_and_map_keys_sorted() -> None:
    decoded = decode(
        ConfigMap,
        {
            "data": {"b": "1", "a": "2"},
            "metadata": {"namespace": "n", "name": "m"},
            "kind": "ConfigMap",
            "apiVersion": "v1",
        },
    )
    expected = (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","namespace":"n"},"data":{"a":"2","b":"1"}}'
    )
    assert encode(decoded.obj) == expected


def test_zero_values_are_written_or_left_out_as_go_does() -> None:
    assert zero(v1.ResourceClaim) == {"metadata": {}, "spec": {"devices": {"requests": None}}, "status": {}}
    decoded = decode(
        Event, {"count": 0, "message": "", "source": None, "metadata": {"labels": {}, "creationTimestamp": None}}
    )
    assert decoded.obj == {
        "metadata": {},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }


def test_a_pointer_keeps_its_zero_and_loses_its_null() -> None:
    spec = decode(
        Pod, {"spec": {"hostUsers": False, "priority": 0, "runtimeClassName": None, "hostNetwork": False}}
    ).obj["spec"]
    assert spec == {"containers": None, "priority": 0, "hostUsers": False}


def test_a_null_in_a_map_is_the_zero_value() -> None:
    assert decode(ConfigMap, {"data": {"a": None}}).obj["data"] == {"a": ""}
    assert decode(Node, {"status": {"capacity": {"cpu": None}}}).obj["status"]["capacity"] == {"cpu": "0"}


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**53 + 1])
def test_64_bit_integers_survive(number: int) -> None:
    text = claim("{" + f'"deviceClassName":"c","count":{number}' + "}")
    assert request(v1.ResourceClaim, text).obj["spec"]["devices"]["requests"][0]["exactly"]["count"] == number


@pytest.mark.parametrize(
    ("given_text", "canonical"),
    [('"1000m"', "1"), ('"1.5Gi"', "1536Mi"), ("1e3", "1e3"), ("0.5", "500m"), ('" 1 "', "1"), ("null", "0")],
)
def test_quantities_become_canonical(given_text: str, canonical: str) -> None:
    decoded = request(Node, '{"status":{"capacity":{"x":' + given_text + "}}}")
    assert decoded.obj["status"]["capacity"]["x"] == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (claim('{"count":1.0}'), "json: cannot unmarshal number 1.0 into Go struct field ExactDeviceRequest.spec.devices.requests.exactly.count of type int64"),
        (claim('{"count":1e2}'), "json: cannot unmarshal number 1e2 into Go struct field ExactDeviceRequest.spec.devices.requests.exactly.count of type int64"),
        (claim('{"count":9223372036854775808}'),
         "json: cannot unmarshal number 9223372036854775808 into Go struct field ExactDeviceRequest.spec.devices.requests.exactly.count of type int64"),
        (claim('{"allocationMode":1}'),
         "json: cannot unmarshal number into Go struct field ExactDeviceRequest.spec.devices.requests.exactly.allocationMode of type v1.DeviceAllocationMode"),
        ('{"spec":{"devices":{"requests":{}}}}',
         "json: cannot unmarshal object into Go struct field DeviceClaim.spec.devices.requests of type []v1.DeviceRequest"),
        ('{"spec":{"devices":{"requests":["x"]}}}',
         "json: cannot unmarshal string into Go struct field DeviceClaim.spec.devices.requests of type v1.DeviceRequest"),
        ('{"metadata":{"labels":[]}}', "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string"),
        ('{"metadata":{"labels":{"a":true}}}', "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string"),
        ("[]", "json: cannot unmarshal array into Go value of type v1.ResourceClaim"),
        ('{"metadata":{"creationTimestamp":1}}', "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"),
        # What a type says itself ends the decoding: it wins over an earlier wrong type.
        ('{"spec":{"devices":1},"metadata":{"creationTimestamp":"x"}}',
         'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
    ],
)  # fmt: skip
def test_wrong_types_are_told_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        request(v1.ResourceClaim, text)
    assert caught.value.text == message


def test_the_name_of_an_embedded_struct_is_part_of_the_place() -> None:
    with pytest.raises(DecodeError) as caught:
        request(Pod, '{"spec":{"volumes":[{"emptyDir":1}]}}')
    expected = "json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource"
    assert caught.value.text == expected


def test_a_bad_quantity_is_told_without_its_place() -> None:
    with pytest.raises(DecodeError, match="quantities must match the regular expression"):
        request(Node, '{"status":{"capacity":{"cpu":"1 core"}}}')


@pytest.mark.parametrize(
    ("value", "byte"), [("!", 0), ("YQ", 0), ("YWJj=", 4), ("YQ==x", 4), ("YWI=c", 4), ("YQ=a", 2), ("a", 0)]
)  # fmt: skip
def test_bad_base64_names_the_byte(value: str, byte: int) -> None:
    with pytest.raises(DecodeError) as caught:
        request(Secret, json.dumps({"data": {"a": value}}))
    assert caught.value.text == f"illegal base64 data at input byte {byte}"


def test_base64_with_line_breaks_is_read() -> None:
    assert request(Secret, '{"data":{"a":"YWJj\\nZGVm"}}').obj["data"] == {"a": "YWJjZGVm"}


@pytest.mark.parametrize(("value", "stored"), [("[]", ""), ("[1,255]", "Af8="), ("[null,0]", "AAA=")])
def test_bytes_may_be_a_list_of_numbers(value: str, stored: str) -> None:
    assert request(Secret, f'{{"data":{{"a":{value}}}}}').obj["data"] == {"a": stored}


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ('["a"]', "string"), ("[256]", "number 256"), ("[-1]", "number -1"), ("[1.0]", "number 1.0"),
        ("[[1]]", "array"), ("[{}]", "object"), ("[1,true,300]", "bool"),
    ],
)  # fmt: skip
def test_the_first_wrong_byte_of_a_list_is_named(value: str, got: str) -> None:
    with pytest.raises(DecodeError) as caught:
        request(Secret, f'{{"data":{{"a":{value}}}}}')
    assert caught.value.text == f"json: cannot unmarshal {got} into Go struct field Secret.data of type uint8"


def test_unknown_and_repeated_fields_are_listed_in_the_order_of_the_text() -> None:
    text = '{"zzz":1,"metadata":{"name":"a","Name":"A","name":"b"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"x":{"y":1},"count":1,"count":2}}]}}}'
    decoded = request(v1.ResourceClaim, text)
    assert decoded.problems == [
        'unknown field "zzz"',
        'unknown field "metadata.Name"',
        'duplicate field "metadata.name"',
        'unknown field "spec.devices.requests[0].exactly.x"',
        'duplicate field "spec.devices.requests[0].exactly.count"',
    ]
    assert decoded.unknown == ["zzz", "metadata.Name", "spec.devices.requests[0].exactly.x"]
    assert decoded.duplicates == ["metadata.name", "spec.devices.requests[0].exactly.count"]
    assert decoded.obj["metadata"]["name"] == "b"
    assert decoded.obj["spec"]["devices"]["requests"][0]["exactly"] == {"deviceClassName": "", "count": 2}


def test_a_repeated_struct_is_filled_further() -> None:
    decoded = request(
        ConfigMap,
        '{"metadata":{"name":"a","labels":{"x":"1"}},"metadata":{"labels":{"y":"2"}},"data":{"a":"1"},"data":{"b":"2"}}',
    )
    assert decoded.obj["metadata"] == {"name": "a", "labels": {"x": "1", "y": "2"}}
    assert decoded.obj["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    "text",
    ['{"data":{"a" : "1","a":"2"}}', '{"data":{"\\u0061":"1","a":"2\\u0022:"}}', '{"data":{"a":"\\":","a":"\\":"}}'],
)
def test_blanks_and_escapes_hide_no_repeated_key(text: str) -> None:
    assert request(ConfigMap, text).duplicates == ["data.a"]


def test_no_more_than_100_problems_are_kept() -> None:
    assert len(request(ConfigMap, json.dumps({f"x{number}": 1 for number in range(300)})).problems) == 100


def test_raw_values_know_the_bytes_they_were_written_in() -> None:
    def parameters(text: str) -> Any:
        body = '{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":' + text + "}}]}}}"
        return request(v1.ResourceClaim, body).obj["spec"]["devices"]["config"][0]["opaque"]["parameters"]

    padded = '{"a":' + " " * 10300 + '"ä"}'
    assert raw_size(parameters(padded)) == len(padded.encode())
    assert dict(parameters(padded)) == {"a": "ä"}
    assert raw_size(parameters('{"a":  1}')) == 9


@given(
    st.recursive(
        st.none() | st.integers(-9, 9) | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    )
)
def test_raw_values_come_back_as_they_were_written(value: Any) -> None:
    written = json.dumps({"a": value})
    body = '{"spec":{"devices":{"config":[{"opaque":{"driver":"d: {","parameters":' + written + "}}]}}}"
    obj = request(v1.ResourceClaim, body).obj
    stored = encode_exactly(obj)
    again = json.loads(stored)
    assert again["spec"]["devices"]["config"] == json.loads(body)["spec"]["devices"]["config"]
    again = decode_exactly(stored)
    assert again == obj
    assert encode_exactly(again) == stored


def test_raw_values_differ_by_order_and_blanks() -> None:
    def claim(text: str) -> Any:
        return request(
            v1.ResourceClaim, '{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":' + text + "}}]}}}"
        ).obj

    plain = claim('{"a":1,"b":2}')
    assert plain == claim('{"a":1,"b":2}')
    for other in ('{"b":2,"a":1}', '{"a":1,"b": 2}', '{"a":1,"b":2.0}', '{"\\u0061":1,"b":2}'):
        assert plain != claim(other)
        assert claim(other) == claim(other)


def test_raw_values_keep_what_a_schema_would_drop() -> None:
    opaque = {"driver": "d", "parameters": {"z": None, "a": {}, "": 0}}
    decoded = decode(v1.DeviceClass, {"spec": {"config": [{"opaque": opaque}]}})
    assert encode(decoded.obj["spec"]["config"][0]["opaque"]["parameters"]) == b'{"z":null,"a":{},"":0}'


def test_empty_lists_that_are_always_written_are_null_once_stored() -> None:
    decoded = decode(v1.ResourceClaim, {"spec": {"devices": {"requests": []}}})
    assert decoded.obj["spec"]["devices"]["requests"] == []
    assert stored_form(v1.ResourceClaim, decoded.obj)["spec"]["devices"]["requests"] is None
    same = decode(v1.ResourceClaim, {"spec": {"devices": {"requests": [{"name": "r"}]}}}).obj
    assert stored_form(v1.ResourceClaim, same) == same


def test_a_type_may_contain_itself() -> None:
    tree = Struct(
        "io.k8s.api.example.v1.Tree",
        lambda: (field("name", 1, STRING), field("children", 2, ListOf(tree)), field("by", 3, MapOf(tree))),
    )
    value = {"name": "a", "children": [{"name": "b", "by": {"x": {"name": "c"}}}]}
    assert decode(tree, value).obj == value


def test_pointers_without_omitempty_are_written_as_null() -> None:
    struct = Struct(
        "io.k8s.api.example.v1.S",
        lambda: (field("a", 1, INT32, omit=False, pointer=True), field("b", 2, INT64, omit=False)),
    )
    assert decode(struct, {}).obj == {"a": None, "b": 0}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "cannot unmarshal array into Go value of type struct"),
        ({"kind": 1}, "json: cannot unmarshal number into Go struct field .kind of type string"),
    ],
)
def test_a_body_that_hides_its_kind_is_refused(value: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        interpret(Body(value, b"", []))
    assert caught.value.text.startswith("couldn't get version/kind; json parse error: ")
    assert message in caught.value.text


def test_kind_and_version_of_a_body_may_be_missing() -> None:
    assert interpret(loads(b"null")) == ("", "")
    assert interpret(loads(b'{"apiVersion":"v1"}')) == ("v1", "")


def test_decoding_a_small_claim_stays_far_from_the_cost_of_a_request() -> None:
    """A guard against an order of magnitude, not a benchmark (benchmarks/ has those)."""
    text = orjson.dumps(
        {
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x", "count": 1}}]}},
        }
    )
    request(v1.ResourceClaim, text)
    best = min(_timed(lambda: request(v1.ResourceClaim, text)) for _ in range(200))
    assert best < 200e-6


def _timed(run: Any) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"status": {}},
        {"spec": None},
        {"spec": {"devices": {"requests": [{"name": "b"}]}}, "status": None},
        {"metadata": {"name": "x", "labels": {"b": "1", "a": "2"}, "creationTimestamp": None}},
        {"nothing": 1},
        {"status": {"unknown": {}}},
    ],
    ids=str,
)
def test_what_a_patch_changed_is_read_as_if_all_of_the_object_was_read(change: dict[str, Any]) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "x", "labels": {"a": "2"}},
        "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "c", "count": 1}}]}},
        "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]},
    }
    before = decode(v1.ResourceClaim, claim).obj
    patched = {name: value for name, value in (before | change).items() if change.get(name, "") is not None}
    for value in (patched, before | change):
        changed, whole = decode_changed(v1.ResourceClaim, dict(value), before), decode(v1.ResourceClaim, dict(value))
        assert (changed.obj, list(changed.obj), changed.problems) == (whole.obj, list(whole.obj), whole.problems)


def test_a_changed_field_that_is_empty_goes_and_one_of_a_wrong_type_is_refused() -> None:
    stored = decode(ConfigMap, {"data": {"a": "1"}}).obj
    assert "data" not in decode_changed(ConfigMap, stored | {"data": {}}, stored).obj
    before = decode(v1.ResourceClaim, {"metadata": {"name": "x"}}).obj
    with pytest.raises(DecodeError, match="cannot unmarshal number into Go struct field"):
        decode_changed(v1.ResourceClaim, before | {"spec": {"devices": {"requests": 1}}}, before)
