"""CBOR with the gate CBORServingAndStorage: bodies, answers, events and errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import orjson
import pytest

from apiserver.api.codec import cbor
from apiserver.http.handlers.cbor import Cbor
from apiserver.request.info import request_info
from apiserver.request.messages import Request, Stream
from tests.support.server import serve
from tests.support.wire import Wire

pytestmark = pytest.mark.integration
FLAGS = ("--feature-gates=CBORServingAndStorage=true",)

MAPS = "/api/v1/namespaces/default/configmaps"
CBOR = "application/cbor"
TYPED = {"Content-Type": CBOR, "Accept": CBOR}


def read(body: bytes) -> Any:
    return orjson.loads(cbor.to_json(body))


def a_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("1903e8", "1000"),
        ("3903e7", "-1000"),
        ("f93e00", "1.5"),
        ("fa47c35000", "100000.0"),
        ("62c3bc", '"ü"'),
        ("42c3bc", '"ü"'),
        ("f6", "null"),
        ("c11a514b67b0", '"2013-03-21T20:04:00Z"'),
        ("c1fb41d452d9ec200000", '"2013-03-21T20:04:00.5Z"'),
        ("d74401020304", '"01020304"'),
        ("d643010203", '"AQID"'),
        ("d818456449455446", '"dIETF"'),
        ("bf61610161629f0203ffff", '{"a":1,"b":[2,3]}'),
        ("7f657374726561646d696e67ff", '"streaming"'),
    ],
)
def test_cbor_is_read_as_its_json(given: str, value: str) -> None:
    """These are examples of RFC 8949, appendix A."""
    assert cbor.to_json(bytes.fromhex(given)).decode() == value


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("", "EOF"),
        ("a2", "unexpected EOF"),
        ("0001", "cbor: 1 bytes of extraneous data starting at index 1"),
        ("61ff", "cbor: invalid UTF-8 string"),
        ("a2616101416102", 'cbor: found duplicate map key "a"'),
        ("a10102", "cbor: cannot unmarshal positive integer into Go value of type string"),
        ("c24101", "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
        ("c1c24101", "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
        (
            "1bffffffffffffffff",
            "cbor: cannot unmarshal positive integer into Go value of type int64 (18446744073709551615 overflows Go's int64)",
        ),
        ("81f97c00", "cbor: data item of cbor type primitives is not accepted by protocol: floating-point infinity"),
        ("c11b7fffffffffffffff", "cbor: 9223372036854775807 overflows Go's time.Time"),
        ("f97e00", "cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN"),
        (
            "f7",
            "cbor: data item of cbor type primitives is not accepted by protocol: simple value 23 is not recognized",
        ),
    ],
)
def test_items_that_are_not_cbor_or_not_json_are_refused(given: str, error: str) -> None:
    with pytest.raises(ValueError) as refused:
        cbor.to_json(bytes.fromhex(given))
    assert str(refused.value) == error


@pytest.mark.parametrize(
    "given",
    ["1c", "bf6161ff", "5f6161ff", "ff", "a2416101416102", "a2616101616102", "d90100825461" + "61" * 20 + "d81900ff"],
    ids=["subtype", "map", "chunk", "break", "repeated bytes", "repeated text", "reference"],
)
def test_malformed_and_repeated_items_are_refused_in_the_librarys_words(given: str) -> None:
    with pytest.raises(ValueError, match=r"^cbor: "):
        cbor.to_json(bytes.fromhex(given))


@pytest.mark.parametrize(("head", "end"), [("81", ""), ("9f", "ff"), ("a16161", ""), ("bf6161", "ff")])
def test_an_item_has_200_levels_at_most_besides_its_values(head: str, end: str) -> None:
    for leaf in ("01", "80"):
        within = 200 - (leaf == "80")
        assert (
            cbor.to_json(bytes.fromhex(head * within + leaf + end * within)).count(b"1" if leaf == "01" else b"[]") == 1
        )
        for levels in (within + 1, 260, 20_000):
            with pytest.raises(ValueError, match=r"^cbor: nested deeper than 200 levels$"):
                cbor.to_json(bytes.fromhex(head * levels + leaf + end * levels))


def test_references_within_an_item_are_not_followed() -> None:
    """Each of many short references to a long string would become that string."""
    text = b"\x54" + b"a" * 20
    assert cbor.to_json(b"\xd9\x01\x00\x82" + text + b"\xd8\x19\x00") == b'["aaaaaaaaaaaaaaaaaaaa",0]'
    assert cbor.to_json(b"\xd8\x1c\x81\xd8\x1d\x00") == b"[0]"


def test_written_are_byte_strings_shortest_floats_and_the_tag_that_describes_itself() -> None:
    assert (
        cbor.dumps({"a": [1, -5, None, True, 1.5, 1.1]}).hex() == "d9d9f7a141618601" + "24f6f5f93e00fb3ff199999999999a"
    )
    assert cbor.dumps({"a": 1, "b": 2}, 0) != cbor.dumps({"a": 1, "b": 2}, 1), "the order of keys is no promise"
    assert cbor.to_json(b"\x81" * 199 + b"\x80") == b"[" * 200 + b"]" * 200
    for levels in (200, 10_000):
        with pytest.raises(ValueError, match="nested deeper than 200 levels"):
            cbor.to_json(b"\x81" * levels + b"\x80")


def test_an_object_goes_in_and_comes_out_in_cbor(wire: Wire) -> None:
    made = wire.request("POST", MAPS, cbor.dumps(a_map("made", a="b")), TYPED)
    assert (made.status, made.headers["content-type"], made.body[:3]) == (201, CBOR, cbor.SELF_DESCRIBED)
    assert read(made.body)["data"] == {"a": "b"}
    assert wire.get(f"{MAPS}/made").json == read(wire.get(f"{MAPS}/made", Accept=CBOR).body)
    names = [item["metadata"]["name"] for item in read(wire.get(MAPS, Accept=CBOR).body)["items"]]
    assert "made" in names


def test_an_apply_may_be_cbor_and_other_patches_are_answered_in_it(wire: Wire) -> None:
    apply = {"Content-Type": "application/apply-patch+cbor", "Accept": CBOR}
    made = wire.request("PATCH", f"{MAPS}/applied?fieldManager=me", cbor.dumps(a_map("applied", a="1")), apply)
    assert (made.status, read(made.body)["metadata"]["managedFields"][0]["operation"]) == (201, "Apply")
    merge = {"Content-Type": "application/merge-patch+json", "Accept": CBOR}
    assert read(wire.request("PATCH", f"{MAPS}/applied", b'{"data":{"a":"2"}}', merge).body)["data"] == {"a": "2"}


@pytest.mark.parametrize(
    ("accept", "content_type", "kind"),
    [
        ("application/json;q=1,application/cbor;q=0.9", "application/json", "ConfigMapList"),
        ("application/cbor;q=0.9, */*;q=0.5", CBOR, "ConfigMapList"),
        ("application/cbor;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json", "ConfigMapList"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/cbor", "application/json", "Table"),
        ("application/cbor;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", CBOR, "PartialObjectMetadataList"),
    ],
)
def test_the_client_has_what_it_likes_best(wire: Wire, accept: str, content_type: str, kind: str) -> None:
    answer = wire.get(MAPS, Accept=accept)
    assert answer.headers["content-type"] == content_type
    assert (read(answer.body) if content_type == CBOR else answer.json)["kind"] == kind


def test_statusz_is_cbor_on_request(wire: Wire) -> None:
    found = wire.get("/statusz", Accept=f"{CBOR};v=v1beta1;g=config.k8s.io;as=Statusz")
    assert (found.headers["content-type"], read(found.body)["kind"]) == (CBOR, "Statusz")
    assert wire.get("/flagz", Accept=CBOR).status == 406


def test_media_types_that_are_named_include_cbor(wire: Wire) -> None:
    known = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"
    refused = wire.request("POST", MAPS, b"x", {"Content-Type": "text/plain"})
    assert (refused.status, refused.message.endswith(known)) == (415, True)
    for accept, text in (
        ("text/html", f"406: Not Acceptable\n\nAvailable representations: {known}"),
        ("application/cbor;as=Table;v=v1;g=meta.k8s.io", f"only the following media types are accepted: {known}"),
    ):
        assert wire.get(f"{MAPS}/missing", Accept=accept).message == text


def test_errors_are_cbor_too(wire: Wire) -> None:
    missing = wire.get(f"{MAPS}/missing", Accept=CBOR)
    assert (missing.status, missing.headers["content-type"], read(missing.body)["reason"]) == (404, CBOR, "NotFound")
    known = "the object provided is unrecognized (must be of type ConfigMap): unable to determine group/version/kind: "
    for body, text in (
        (b"\xd9\xd9\xf7\xa2", "unexpected EOF (d9d9f7a2)"),
        (b"", "EOF (<empty>)"),
        (b"\x01", "cbor: cannot unmarshal positive integer into Go value of type v1.TypeMeta (01)"),
    ):
        assert wire.request("POST", MAPS, body, {"Content-Type": CBOR}).message == known + text


def test_a_watch_is_a_sequence_of_items(wire: Wire) -> None:
    made = wire.request("POST", MAPS, cbor.dumps(a_map("watched")), TYPED)
    since = int(read(made.body)["metadata"]["resourceVersion"]) - 1
    query = f"watch=1&resourceVersion={since}&fieldSelector=metadata.name%3Dwatched"
    with wire.watch(f"{MAPS}?{query}", Accept=CBOR) as seen:
        read_so_far, event = b"", None
        while event is None:
            read_so_far += seen.read(1)
            with suppress(ValueError):
                event = read(read_so_far)
    assert seen.headers["content-type"] == "application/cbor-seq"
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "watched")


def test_a_connection_that_is_taken_over_is_left_as_it_is() -> None:
    class Switching:
        async def handle(self, request: Request) -> Stream:
            stream = Stream(101)
            stream.chunks = pieces()
            return stream

    async def pieces() -> AsyncIterator[bytes]:
        yield b"no JSON"

    async def scenario() -> list[bytes]:
        with serve("--feature-gates=CBORServingAndStorage=true") as server:
            link = Cbor(server.server._routes)
            link.next = Switching()  # type: ignore[assignment]
            path = "/api/v1/namespaces/default/pods/a/exec"
            request = Request("GET", path, "", {"accept": CBOR}, b"")
            request.info = request_info("GET", path)
            answer = await link.handle(request)
            assert isinstance(answer, Stream)
            return [piece async for piece in answer.chunks]

    assert asyncio.run(scenario()) == [b"no JSON"]
