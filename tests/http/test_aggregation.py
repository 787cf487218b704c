"""Aggregated API servers: their availability is a condition, and requests for their groups go to them."""

from __future__ import annotations

import asyncio
import http.server
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from apiserver.aggregation.client import RemoteClient
from apiserver.aggregation.servers import RemoteServers
from apiserver.api.objects import Json
from apiserver.http.handlers import aggregated as link
from tests.conformance.webhook import _certificate
from tests.http.widgets import AGGREGATED, ApiClient, open_server
from tests.support.extensions import make_definition, make_version
from tests.support.patience import wait_until
from tests.support.server import serve
from tests.support.tokens import token_flag

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PODS = "/apis/metrics.example.com/v1/namespaces/default/pods"
LISTED: Json = {
    "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.example.com/v1",
    "resources": [
        {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]},
        {"name": "pods/peak", "singularName": "", "namespaced": True, "kind": "Peak", "verbs": ["get"]},
    ],
}  # fmt: skip

#: A custom resource in the group that the remote server has.
PODS_OF_OURS = make_definition(
    "pods", "PodMetrics", make_version("v1"), make_version("v2", storage=False), group="metrics.example.com"
)


class Remote:
    """An API server with its own group that records its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, list[str]], bytes]] = []
        self.closing = threading.Event()
        self.documents: dict[str, Json] = {
            "/apis/metrics.example.com/v1": LISTED,
            "/openapi/v3": {"paths": {"apis/metrics.example.com/v1": {"serverRelativeURL": "/o?hash=1"}}},
            f"{PODS}/a": {"kind": "PodMetrics", "metadata": {"name": "a"}},
        }
        certificate, context = _certificate(("metrics.kube-system.svc",))
        self.authority = certificate.decode()
        remote = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): self.headers.get_all(name) or [] for name in self.headers}
                remote.asked.append((self.command, self.path, headers, self.rfile.read(length)))
                if self.path == f"{PODS}/slow":
                    remote.closing.wait()
                if self.headers.get("upgrade") == "echo":
                    self.echo()
                    return
                body = remote.documents.get(self.path.partition("?")[0])
                text = json.dumps(body or {"kind": "Status", "code": 404}).encode()
                self.send_response(200 if body else 404)
                aggregated = "APIGroupDiscoveryList" in self.headers.get("accept", "")
                form = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" if aggregated else ""
                self.send_header("content-type", f"application/json{form}")
                self.send_header("content-length", str(len(text)))
                self.send_header("warning", '299 - "from afar"')
                self.end_headers()
                self.wfile.write(text)

            def echo(self) -> None:
                """Switch to another protocol: send a greeting, then echo each line."""
                self.close_connection = True
                self.wfile.write(
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n"
                )
                for line in self.rfile:
                    self.wfile.write(line)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def asked_for(self, method: str, start: str) -> list[tuple[str, dict[str, list[str]], bytes]]:
        """Return path, headers and body of the requests with this start of the path."""
        return [asked[1:] for asked in self.asked if asked[0] == method and asked[1].startswith(start)]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def remote() -> Iterator[Remote]:
    found = Remote()
    yield found
    found.close()


def api_service(name: str = "metrics", **spec: Any) -> Json:
    service = {"namespace": "kube-system", "name": name}
    return {
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.metrics.example.com"},
        "spec": {
            "group": "metrics.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "service": service, **spec,
        },
    }  # fmt: skip


async def wait_condition(client: ApiClient, reason: str, saying: str = "") -> Json:
    """Wait for a condition of the service with this reason and text; return it."""
    while True:
        found = (await client.get(f"{SERVICES}/v1.metrics.example.com")).json()
        for condition in (found.get("status") or {}).get("conditions") or ():
            if condition["reason"] == reason and saying in condition["message"]:
                return dict(condition)
        await asyncio.sleep(0)


async def list_groups(client: ApiClient) -> dict[str, list[Json]]:
    """Return the versions of each group in aggregated discovery, in order."""
    items = (await client.get("/apis", headers=AGGREGATED)).json()["items"]
    return {item["metadata"]["name"]: item["versions"] for item in items}


async def wait_current(client: ApiClient) -> Json:
    """Wait for current discovery of the remote version; return it."""
    while True:
        for version in (await list_groups(client)).get("metrics.example.com", ()):
            if version["freshness"] == "Current" and version["version"] == "v1":
                return version
        await asyncio.sleep(0)


async def test_a_group_without_its_server_answers_503_and_the_condition_has_the_reason() -> None:
    async with open_server("memory") as (_, client):
        assert (await client.get(PODS)).status_code == 404
        made = await client.create(SERVICES, api_service(insecureSkipTLSVerify=True))
        assert made["status"] == {}
        assert (await wait_condition(client, "ServiceNotFound"))["status"] == "False"
        answer = await client.get(PODS)
        assert (answer.status_code, answer.text) == (503, "service unavailable\n")
        service: Json = {"metadata": {"name": "metrics"}, "spec": {"ports": [{"port": 80}]}}
        await client.create("/api/v1/namespaces/kube-system/services", service)
        assert "port 443" in (await wait_condition(client, "ServicePortError"))["message"]
        (version,) = (await list_groups(client))["metrics.example.com"]
        assert version == {"version": "v1", "freshness": "Stale"}
        await client.delete(f"{SERVICES}/v1.metrics.example.com")
        while (await client.get(PODS)).status_code != 404:
            await asyncio.sleep(0)


async def test_requests_for_a_group_of_another_server_go_there_with_the_users_identity(
    remote: Remote, tmp_path: Path
) -> None:
    from base64 import b64encode

    tokens = token_flag(tmp_path, 'secret,alice,7,"system:masters,dev"\nother,zoë ż,8,"system:masters"\n')
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    async with open_server("memory", None, where, tokens) as (_, client):
        client.headers["authorization"] = "Bearer secret"
        bundle = b64encode(remote.authority.encode()).decode()
        await client.create(SERVICES, api_service(caBundle=bundle))
        assert (await wait_condition(client, "Passed"))["status"] == "True"
        ask = client.build_request(
            "GET", f"{PODS}/a?x=%20y", headers={"X-Remote-Group": "root", "X-Remote-Extra-a": "b"}
        )
        while (answer := await client.send(ask)).status_code == 503:
            pass  # the condition is there an instant before requests go there
        assert (answer.status_code, answer.json()["kind"]) == (200, "PodMetrics")
        assert answer.headers["warning"] == '299 - "from afar"'
        ((path, headers, _),) = remote.asked_for("GET", PODS)
        assert path == f"{PODS}/a?x=%20y"
        assert headers["x-remote-user"] == ["alice"]
        assert headers["x-remote-group"] == ["system:masters", "dev", "system:authenticated"]
        assert headers["x-remote-uid"] == ["7"]
        assert not {"authorization", "x-remote-extra-a"} & set(headers)
        odd = f"{PODS}/../b"
        acting: Any = {"Impersonate-User": "bob", "Impersonate-Extra-a": "b", "User-Agent": "zoë".encode()}
        await client.get(PODS, headers=acting, extensions={"target": odd.encode()})
        ((path, headers, _),) = remote.asked_for("GET", odd)
        assert (path, headers["x-remote-user"]) == (odd, ["bob"])
        assert not [name for name in headers if name.startswith("impersonate")]
        await client.get(f"{PODS}/zoë", headers={"authorization": "Bearer other"})
        ((_, headers, _),) = remote.asked_for("GET", f"{PODS}/zo%C3%AB")
        assert headers["x-remote-user"] == ["zoë ż".encode().decode("latin-1")]
        assert (await client.post(PODS, json={"a": 1})).status_code == 404
        ((_, _, body),) = remote.asked_for("POST", PODS)
        assert json.loads(body) == {"a": 1}
        assert (await client.get("/apis/metrics.example.com/v1")).json() == LISTED
        found = (await client.get("/apis/metrics.example.com")).json()
        assert found["preferredVersion"]["groupVersion"] == "metrics.example.com/v1"
        (pods,) = (await wait_current(client))["resources"]
        assert (pods["resource"], pods["scope"], len(pods["subresources"])) == ("pods", "Namespaced", 1)
        paths = (await client.get("/openapi/v3")).json()["paths"]
        assert paths["apis/metrics.example.com/v1"]["serverRelativeURL"] == "/o?hash=1"
        assert (await client.get("/api/v1/namespaces/default")).status_code == 200


def test_a_request_may_take_its_connection_over_if_the_other_server_agrees(remote: Remote) -> None:
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    with serve(where) as server:
        wire = server.wire()
        wire.create(SERVICES, api_service(insecureSkipTLSVerify=True))
        wait_until(lambda: wire.get(f"{PODS}/a").status == 200, "requests go there")
        host, port = server.url.removeprefix("http://").split(":")

        def opened(path: str, protocol: str) -> tuple[socket.socket, BinaryIO]:
            connection = socket.create_connection((host, int(port)))
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
            connection.sendall(head.encode())
            return connection, connection.makefile("rb")

        connection, answers = opened(f"{PODS}/a/exec?x=1", "echo")
        with connection, answers:
            assert answers.readline().startswith(b"HTTP/1.1 101 ")
            while answers.readline().strip():
                pass
            assert answers.readline() == b"hello\n"
            connection.sendall(b"one\n")
            assert answers.readline() == b"one\n"
            connection.shutdown(socket.SHUT_WR)
            assert answers.read() == b""
        ((path, headers, _),) = remote.asked_for("GET", f"{PODS}/a/exec")
        assert path == f"{PODS}/a/exec?x=1"
        assert headers["upgrade"] == ["echo"]
        assert headers["x-remote-user"] == ["system:admin"]
        connection, answers = opened(f"{PODS}/b", "other")
        with connection, answers:
            assert answers.readline().startswith(b"HTTP/1.1 404 ")


async def test_the_discovery_document_of_a_server_counts_before_it_is_available(remote: Remote) -> None:
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    document = {"items": [{"metadata": {"name": "metrics.example.com"}, "versions": [{"version": "v1", "resources": [
        {"resource": "pods", "verbs": ["get"], "subresources": [{"subresource": "peak", "verbs": ["get"]}]},
    ]}]}]}  # fmt: skip
    remote.documents = {"/apis": document}
    async with open_server("memory", None, where) as (_, client):
        await client.create(SERVICES, api_service(insecureSkipTLSVerify=True))
        await wait_condition(client, "FailedDiscoveryCheck", saying="404")  # a busy server may be asked in vain before
        (pods,) = (await wait_current(client))["resources"]
        assert pods["responseKind"] == pods["subresources"][0]["responseKind"] == {}
        assert (await client.get(PODS)).status_code == 503


async def test_groups_are_ordered_by_the_priority_of_their_services_and_a_service_hides_a_custom_version() -> None:
    name = f"{SERVICES}/v1.metrics.example.com"
    async with open_server("memory") as (_, client):

        async def until(look: Callable[[ApiClient], Awaitable[Json]], holds: Callable[[Json], bool]) -> Json:
            while not holds(found := await look(client)):
                await asyncio.sleep(0)
            return found

        async def service(_: ApiClient) -> Json:
            return dict((await client.get(name)).json())

        await client.create(DEFINITIONS, PODS_OF_OURS)
        assert list(await until(list_groups, lambda found: "metrics.example.com" in found))[-1] == "metrics.example.com"
        kept = "kube-aggregator.kubernetes.io/automanaged"
        own = (await until(service, lambda found: "spec" in found))["spec"]
        # A change of a managed service is reverted.
        patch: Json = {"spec": {"versionPriority": 9}}
        assert (await client.merge(name, patch)).json()["spec"]["versionPriority"] == 9
        await until(service, lambda found: found["spec"] == own)
        taken = api_service(insecureSkipTLSVerify=True, groupPriorityMinimum=19000)
        patch = {"metadata": {"labels": {kept: None}}, "spec": taken["spec"]}
        assert (await client.merge(name, patch)).status_code == 200
        groups = await until(list_groups, lambda found: found["metrics.example.com"][1]["freshness"] == "Stale")
        assert list(groups)[:3] == ["apiregistration.k8s.io", "metrics.example.com", "apps"]
        assert [each["version"] for each in groups["metrics.example.com"]] == ["v2", "v1"]
        legacy = (await client.get("/apis")).json()["groups"]
        assert [group["name"] for group in legacy] == list(groups)
        # After its deletion the custom resource is served again with its own service.
        assert (await client.delete(name)).status_code == 200
        await until(service, lambda found: found.get("spec") == own)
        assert (await client.delete(f"{SERVICES}/v1.batch")).status_code == 200
        assert {each["freshness"] for each in (await list_groups(client))["metrics.example.com"]} == {"Current"}
        assert (await client.get(f"{SERVICES}/v1.batch")).status_code == 404


async def test_a_server_with_an_unverified_certificate_gets_no_requests(remote: Remote) -> None:
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    async with open_server("memory", None, where) as (_, client):
        await client.create(SERVICES, api_service())
        assert "certificate verify failed" in (await wait_condition(client, "FailedDiscoveryCheck"))["message"]
        assert remote.asked == []
        assert (await client.get(PODS)).status_code == 503


async def test_a_server_that_does_not_answer_holds_no_request_for_ever(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_LONGEST_SECONDS", 0.4)
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    async with open_server("memory", None, where) as (_, client):
        await client.create(SERVICES, api_service(insecureSkipTLSVerify=True))
        await wait_condition(client, "Passed")
        answer = await client.get(f"{PODS}/slow")
        assert answer.status_code == 504
        assert answer.text == "v1.metrics.example.com: no answer within 0.4 seconds\n"


async def test_changes_of_a_service_cause_one_check_and_its_removal_closes_connections(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    checks: list[int] = []
    clients: list[RemoteClient] = []
    check_all = RemoteServers._check_all

    async def counted(servers: RemoteServers) -> None:
        checks.append(1)
        clients.append(servers._client)
        await check_all(servers)

    monkeypatch.setattr(RemoteServers, "_check_all", counted)

    async def count_checks(at_least: int = 0) -> int:
        """Return the number of checks, once it is at least this and every woken task has run."""
        while len(checks) < at_least:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        return len(checks)

    async with open_server("memory", None, where) as (_, client):
        before = await count_checks()
        await client.create(SERVICES, api_service(insecureSkipTLSVerify=True))
        await wait_condition(client, "Passed")
        assert await count_checks(before + 1) == before + 1, "what was found out is no reason to ask again"
        services, named = "/api/v1/namespaces/{}/services", {"spec": {"ports": [{"port": 80}]}}
        for namespace, name in (("kube-system", "other"), ("default", "metrics")):
            await client.create(services.format(namespace), {"metadata": {"name": name}, **named})
        assert await count_checks() == before + 1
        await client.create(services.format("kube-system"), {"metadata": {"name": "metrics"}, **named})
        assert await count_checks(before + 2) == before + 2
        await client.delete(f"{SERVICES}/v1.metrics.example.com")
        assert await count_checks(before + 3) == before + 3
        assert not clients[0]._pools
