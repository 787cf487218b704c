"""Watches on a real connection: lines, forms, their end, and resets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.patience import PATIENCE, wait_until
from tests.support.server import Running, serve
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with Child(tmp_path_factory.mktemp("watches"), "--runtime-config=api/all=true") as child:
        yield child


@pytest.fixture
def wire(child: Child) -> Wire:
    wire = child.wire()
    assert wire.post("/-/reset", None).status == 200
    return wire


def version(wire: Wire) -> str:
    return str(wire.get(MAPS).json["metadata"]["resourceVersion"])


def test_an_event_is_one_compact_line(wire: Wire) -> None:
    with wire.watch(f"{MAPS}?watch=true&resourceVersion={version(wire)}") as watch:
        assert watch.status == 200
        assert watch.headers["content-type"] == "application/json"
        assert watch.headers["transfer-encoding"] == "chunked"
        made = wire.create_config_map("a", k="v")
        line = watch.line()
    assert line.startswith(b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1",')
    assert line.endswith(b"}\n")
    assert json.loads(line)["object"] == made


def test_a_watch_begins_with_what_is_there_and_goes_on_with_what_changes(wire: Wire) -> None:
    wire.create_config_map("a")
    with wire.watch(f"{MAPS}?watch=1") as watch:
        assert (watch.event()["type"], wire.delete(f"{MAPS}/a").status) == ("ADDED", 200)
        event = watch.event()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "a")


def test_a_version_of_another_release_gets_events_in_its_own_form(wire: Wire) -> None:
    body = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
    }
    wire.create("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", body)
    with wire.watch("/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims?watch=true") as watch:
        event = watch.event()["object"]
    assert event["apiVersion"] == "resource.k8s.io/v1beta1"
    assert event["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu.example.com"


def test_only_the_first_event_of_a_table_watch_carries_columns(wire: Wire) -> None:
    with wire.watch(f"{MAPS}?watch=true", Accept=TABLE) as watch:
        wire.create_config_map("a", k="v")
        wire.create_config_map("b")
        first, second = watch.event(), watch.event()
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert not second["object"].get("columnDefinitions")
    assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]
    assert first["object"]["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_a_metadata_watch_has_only_metadata(wire: Wire) -> None:
    with wire.watch(f"{MAPS}?watch=true", Accept=f"{PARTIAL},application/json") as watch:
        wire.create_config_map("a", k="v")
        assert sorted(watch.event()["object"]) == ["apiVersion", "kind", "metadata"]


def test_a_watch_for_a_list_of_metadata_ends_at_its_first_event(wire: Wire) -> None:
    with wire.watch(f"{MAPS}?watch=true", Accept=PARTIAL_LIST) as watch:
        assert watch.status == 200
        wire.create_config_map("a")
        assert watch.rest() == b""


def test_initial_events_end_with_an_annotated_bookmark(wire: Wire) -> None:
    wire.create_config_map("a")
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with wire.watch(f"{MAPS}?{query}") as watch:
        added, mark = watch.event(), watch.event()
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= int(added["object"]["metadata"]["resourceVersion"])


def test_the_old_watch_paths_watch_a_collection_or_one_object(wire: Wire) -> None:
    since = version(wire)
    with (
        wire.watch(f"/api/v1/watch/namespaces/default/configmaps?resourceVersion={since}") as everything,
        wire.watch(f"/api/v1/watch/namespaces/default/configmaps/b?resourceVersion={since}") as one,
    ):
        wire.create_config_map("a")
        wire.create_config_map("b")
        assert [everything.event()["object"]["metadata"]["name"] for _ in range(2)] == ["a", "b"]
        assert one.event()["object"]["metadata"]["name"] == "b"


def test_a_watch_ends_properly_when_its_time_is_up(wire: Wire) -> None:
    with wire.watch(f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={version(wire)}") as watch:
        assert watch.rest() == b""


def test_an_invalid_watch_is_refused_before_it_opens(wire: Wire) -> None:
    for query, status in (
        ("labelSelector=,", 400),
        ("timeoutSeconds=abc", 400),
        ("resourceVersion=abc", 500),
        ("sendInitialEvents=true", 422),
    ):
        assert wire.get(f"{MAPS}?watch=true&{query}").status == status, query
    assert wire.get(f"{MAPS}?watch=true", Accept="text/html").status == 406


def test_a_client_that_goes_away_ends_its_watch(wire: Wire) -> None:
    with wire.watch(f"{MAPS}?watch=true"), wire.watch(f"{MAPS}?watch=true"):
        wait_until(lambda: wire.open_watches() == 2, "two watches are open")
    wait_until(lambda: wire.open_watches() == 0, "no watch is open")


def test_many_events_come_complete_and_in_order(wire: Wire) -> None:
    names = [f"n{number:04}" for number in range(300)]
    with wire.watch(f"{MAPS}?watch=true&resourceVersion={version(wire)}") as watch:
        for name in names:
            wire.create_config_map(name)
        events: list[dict[str, Any]] = [watch.event() for _ in names]
    assert [event["object"]["metadata"]["name"] for event in events] == names
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)


def test_a_slow_reader_delays_no_other(wire: Wire) -> None:
    """One watcher reads nothing while megabytes of events pass."""
    filling = "x" * 500_000
    with wire.watch(f"{MAPS}?watch=true") as slow, wire.watch(f"{MAPS}?watch=true") as quick:
        for number in range(20):
            wire.create_config_map(f"m{number}", k=filling)
            assert quick.event()["object"]["metadata"]["name"] == f"m{number}"
        assert [slow.event()["object"]["metadata"]["name"] for _ in range(20)] == [f"m{number}" for number in range(20)]


def test_a_reset_sends_deletions_to_watches_and_versions_continue(wire: Wire) -> None:
    made = wire.create_config_map("a")
    with wire.watch(f"{MAPS}?watch=true") as watch:
        assert watch.event()["type"] == "ADDED"
        reset = wire.post("/-/reset", None).json
        event = watch.event()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "a")
    assert (
        int(reset["resourceVersion"])
        >= int(event["object"]["metadata"]["resourceVersion"])
        > int(made["metadata"]["resourceVersion"])
    )
    assert wire.get(MAPS).json["items"] == []
    names = sorted(item["metadata"]["name"] for item in wire.get("/api/v1/namespaces").json["items"])
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


def test_a_server_with_open_watches_stops_within_a_second(tmp_path: Path) -> None:
    with Child(tmp_path / "data") as child:
        wire = child.wire()
        with wire.watch(f"{MAPS}?watch=true") as one, wire.watch("/api/v1/pods?watch=true") as other:
            code, seconds = child.stop()
            assert (one.rest(), other.rest()) == (b"", b""), "both streams end properly"
        assert code == 0, child.log()
        assert seconds < 1.0


PATH = "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Da"
ORIGIN = {"Origin": "http://here"}
#: A client's frames are masked; with zeros they are as they were.
CLOSE = b"\x88\x82\0\0\0\0\x03\xe8"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serve() as server:
        server.wire().create_config_map("a")
        yield server


class Socket:
    """A connection that requests a websocket; the key is that of RFC 6455, 1.3."""

    def __init__(self, running: Running, path: str, headers: dict[str, str]) -> None:
        host, _, port = running.url.removeprefix("http://").partition(":")
        self._connection = socket.create_connection((host, int(port)), PATIENCE)
        sent = {
            "Host": "here", "Connection": "keep-alive, Upgrade", "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers,
        }  # fmt: skip
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        self._connection.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self._file = self._connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        heads = iter(lambda: self._file.readline().strip().decode(), "")
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in heads)}

    def frame(self) -> tuple[int, bytes]:
        """Read the next frame; return its kind and content."""
        first, size = self._file.read(2)
        if size == 126:
            size = int.from_bytes(self._file.read(2), "big")
        return first, self._file.read(size)

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def rest(self) -> bytes:
        return self._file.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._connection.close()


def test_each_event_is_a_text_frame_and_the_end_a_close_frame(running: Running) -> None:
    with Socket(running, PATH, {**ORIGIN, "Sec-WebSocket-Protocol": "p, q"}) as opened:
        assert (opened.status, opened.headers["upgrade"]) == (101, "websocket")
        assert opened.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert opened.headers["sec-websocket-protocol"] == "p"
        kind, event = opened.frame()
        assert kind == 0x81
        assert event.startswith(b'{"type":"ADDED","object":{"kind":"ConfigMap"')
        assert event.endswith(b"}\n")
        opened.send(CLOSE)
        assert opened.rest() == b"\x88\x02\x03\xe8"


def test_events_in_protobuf_are_binary_and_a_client_ends_the_watch(running: Running) -> None:
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    with Socket(running, PATH, {**ORIGIN, **accept}) as opened:
        kind, event = opened.frame()
        assert kind == 0x82
        assert event.startswith(b"\n\x05ADDED\x12")
        assert running.wire().open_watches() == 1
        for piece in (b"\x82\xfe", b"\x01\x00\0\0\0\0" + b"x" * 256 + CLOSE[:1], CLOSE[1:]):  # a frame to skip, the end
            opened.send(piece)
        assert opened.rest() == b"\x88\x02\x03\xe8"
    assert running.wire().open_watches() == 0


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (PATH, {}, 403),
        (PATH, {**ORIGIN, "Sec-WebSocket-Version": "8"}, 400),
        (PATH.replace("metadata.name", "x"), ORIGIN, 400),
        ("/api/v1/namespaces/default/configmaps/a", ORIGIN, 200),
    ],
)
def test_a_request_that_cannot_upgrade_is_answered_normally(
    running: Running, path: str, headers: dict[str, str], status: int
) -> None:
    with Socket(running, path, headers) as opened:
        assert opened.status == status
