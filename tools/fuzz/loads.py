"""Loads that one client can put on a server, each in a process of its own until it is ended.

`python -m tools.fuzz.loads LOAD PORT [TOKEN]` prints `begun` once the load is on. The guard of the suite measures other
clients meanwhile (`tests/servers/test_latency.py`).
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from typing import Any, Final

from tools.fuzz.connection import connect

_MAPS: Final = "/api/v1/namespaces/default/configmaps"
_TERMS: Final = ",".join(f"k{number}!=v{number}" for number in range(40_000))
_CHUNKED: Final = (
    f"POST {_MAPS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n".encode()
)


class Client:
    """A client that may put a load on the server."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port, self._token = port, token

    @property
    def head(self) -> bytes:
        """The credentials, as a header field."""
        return f"Authorization: Bearer {self._token}\r\n".encode() if self._token else b""

    def get(self, target: str) -> bytes:
        """Build a GET request."""
        return b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n" % (target.encode(), self.head)

    def request(self, method: str, target: str, body: Any = None, timeout: float | None = None) -> tuple[int, bytes]:
        """Send one request on a connection of its own; return the status and the body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _repeat(work: Callable[[], object], threads: int = 1) -> None:
    """Repeat the work in some threads; a connection that the server closes is opened again."""

    def run() -> None:
        while True:
            with contextlib.suppress(OSError):
                work()

    for _ in range(threads):
        threading.Thread(target=run, daemon=True).start()


def _flood(client: Client, begin: bytes, again: bytes) -> None:
    """Send a beginning, and then one piece again and again until the server closes."""
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.settimeout(10)
        connection.sendall(begin)
        while True:
            connection.sendall(again)


def endless_trailer(client: Client) -> None:
    """Send a chunked body with a trailer field that never ends."""
    _repeat(lambda: _flood(client, _CHUNKED + b"\r\n0\r\nX: ", b"y" * 65536))


def endless_extension(client: Client) -> None:
    """Send a chunk with an extension that never ends."""
    _repeat(lambda: _flood(client, _CHUNKED + b"\r\n5;", b"a" * 65536))


def long_selectors(client: Client) -> None:
    """Send lists, one after the other, whose label selector has 40,000 terms."""
    _repeat(lambda: client.request("GET", f"{_MAPS}?labelSelector={_TERMS}"))


def long_watches(client: Client) -> None:
    """Watches, 20 at a time, whose label selector has 40,000 terms."""

    def watch() -> None:
        with connect(client.port) as connection:
            connection.sendall(client.get(f"{_MAPS}?watch=1&timeoutSeconds=1&labelSelector={_TERMS}"))
            connection.settimeout(10)
            while connection.recv(1 << 16):
                pass

    _repeat(watch, 20)


def pipelined(client: Client, connections: int = 8) -> None:
    """Small requests on eight connections, as many as the server takes; their responses are read."""
    data = client.get("/api/v1/namespaces/default") * 4000

    def send() -> None:
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            reader = threading.Thread(target=_drain, args=(connection,), daemon=True)
            reader.start()
            while True:
                connection.sendall(data)

    _repeat(send, connections)


def _drain(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(1 << 20):
            pass


def changing_definitions(client: Client, count: int = 261) -> None:
    """CustomResourceDefinitions, one of which changes all the time, and clients that read all of OpenAPI."""
    names = [f"things{number}.group{number % 20}.example.com" for number in range(count)]
    for name in names:
        client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _definition(name))

    def change() -> None:
        for number in range(1 << 30):
            target = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names[number % count]}"
            _, body = client.request("GET", target)
            changed = json.loads(body)
            schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            schema["properties"][f"added{number}"] = {"type": "string"}
            client.request("PUT", target, changed)
            client.request("GET", "/openapi/v3")
            client.request("GET", "/openapi/v2")

    _repeat(change)


def _definition(name: str) -> Mapping[str, Any]:
    plural, _, group = name.partition(".")
    properties = {f"field{number}": {"type": "string", "description": f"Field {number}."} for number in range(60)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural.capitalize(), "listKind": f"{plural.capitalize()}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }  # fmt: skip


def hung_webhook(client: Client, creations: int = 300) -> None:
    """Creations, 300 at a time, that wait for a webhook which never answers."""
    hanging = socket.create_server(("127.0.0.1", 0), backlog=4096)  # it accepts connections and reads nothing
    _HELD.append(hanging)
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}
    webhook = {
        "name": "hung.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 5,
        "failurePolicy": "Fail", "rules": [rule],
        "clientConfig": {"url": f"https://127.0.0.1:{hanging.getsockname()[1]}/"},
    }  # fmt: skip
    client.request(
        "POST",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {"metadata": {"name": "hung"}, "webhooks": [webhook]},
    )
    secret = {"metadata": {"generateName": "s"}}
    _repeat(lambda: client.request("POST", "/api/v1/namespaces/default/secrets", secret), creations)


def unread_watches(client: Client, watches: int = 200) -> None:
    """Watches, 200 at a time, that are never read, of objects that change all the time."""
    held = []
    for _ in range(watches):
        connection = socket.create_connection(("127.0.0.1", client.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(client.get(f"{_MAPS}?watch=1"))
        held.append(connection)
    _HELD.extend(held)
    made = {"metadata": {"name": "changing"}, "data": {"k": "x" * 4000}}
    client.request("POST", _MAPS, made)
    numbers = iter(range(1 << 30))

    def change() -> None:
        made["data"] = {"k": f"{next(numbers)}" + "x" * 4000}
        client.request("PUT", f"{_MAPS}/changing", made)

    _repeat(change)


_HELD: Final[list[socket.socket]] = []


def slow_bodies(client: Client, connections: int = 300) -> None:
    """Bodies of 3 MB, 300 at a time, that arrive slowly."""

    def send() -> None:
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            head = f"POST {_MAPS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n"
            connection.sendall(head.encode() + client.head + b'\r\n{"data":{"k":"')
            for _ in range(2900):
                connection.sendall(b"x" * 1024)
                time.sleep(0.05)

    _repeat(send, connections)


def long_bodies(client: Client, connections: int = 4) -> None:
    """Bodies of 3 MB, four at a time, that are refused after much work."""
    item = {"name": "c", "image": "i", "env": [{}] * 2}
    body = {"metadata": {"name": "x"}, "spec": {"containers": [item] * 40_000}}
    _repeat(lambda: client.request("POST", "/api/v1/namespaces/default/pods", body), connections)


LOADS: Final[Mapping[str, Callable[[Client], None]]] = {
    load.__name__.replace("_", "-"): load
    for load in (
        endless_trailer, endless_extension, long_selectors, long_watches, pipelined, changing_definitions, hung_webhook,
        unread_watches, slow_bodies, long_bodies,
    )
}  # fmt: skip


def main(name: str, port: str, token: str = "") -> None:
    """Put a load on the server until standard input ends."""
    LOADS[name](Client(int(port), token))
    print("begun", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
