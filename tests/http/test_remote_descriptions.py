"""OpenAPI documents of aggregated servers are part of this server's document."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from apiserver.aggregation.client import Answer
from apiserver.aggregation.descriptions import NOTHING, read_description
from apiserver.aggregation.remotes import remote_of
from apiserver.api.objects import Json
from apiserver.openapi.gnostic import entries
from tests.http.test_aggregation import SERVICES, Remote, api_service, remote
from tests.http.widgets import ApiClient, open_server

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

__all__ = ["remote"]

PODS = "/apis/metrics.example.com/v1/pods"
PROTOBUF = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


def swagger(*paths: str) -> Json:
    body = {"in": "body", "name": "body", "schema": {"$ref": f"#/definitions/{OPTIONS}"}}
    answer = {"200": {"description": "OK", "schema": {"$ref": "#/definitions/com.example.PodMetrics"}}}
    gvk = {"group": "metrics.example.com", "kind": "PodMetrics", "version": "v1"}
    return {
        "swagger": "2.0", "info": {"title": "metrics", "version": "1"},
        "paths": {path: {"get": {"parameters": [{"$ref": "#/parameters/p"}], "responses": answer}} for path in paths},
        "parameters": {"p": body},
        "definitions": {
            "com.example.PodMetrics": {"type": "object", "x-kubernetes-group-version-kind": [gvk]},
            OPTIONS: {"type": "object", "title": "of another build"},
        },
    }  # fmt: skip


def parts(message: bytes, number: int) -> list[str]:
    """Return the names of the paths (8), definitions (9) or parameters (10) of a protobuf document."""
    found = [content for at, content in entries(message) if at == number]
    return [next(entries(each))[1].decode() for content in found for _, each in entries(content)]


async def until(client: ApiClient, path: str, *, there: bool = True) -> Json:
    """Return the document once a path is in it, or is not."""
    while True:
        document: Json = (await client.get("/openapi/v2")).json()
        if (path in document["paths"]) == there:
            return document


async def test_the_document_of_version_2_has_what_other_servers_serve(remote: Remote) -> None:
    remote.documents["/openapi/v2"] = swagger(PODS, "/apis/other.example.com/v1/things", "/api/v1/pods")
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    async with open_server("memory", None, where) as (_, client):
        before = (await client.get("/openapi/v2")).json()
        plain = (await client.get("/openapi/v2", headers=PROTOBUF)).content
        service = api_service(insecureSkipTLSVerify=True)
        await client.create(SERVICES, service)
        document = await until(client, PODS)
        assert document["paths"].keys() - before["paths"].keys() == {PODS}
        assert document["parameters"]["p"]["schema"] == {"$ref": f"#/definitions/{OPTIONS}_v2"}
        assert document["definitions"].keys() - before["definitions"].keys() == {
            "com.example.PodMetrics", f"{OPTIONS}_v2",
        }  # fmt: skip
        assert {part: document["definitions"][part] for part in before["definitions"]} == before["definitions"]
        encoded = (await client.get("/openapi/v2", headers=PROTOBUF)).content
        for number, part in ((8, "paths"), (9, "definitions"), (10, "parameters")):
            assert sorted(parts(encoded, number)) == sorted(document[part])
        assert (await client.delete(f"{SERVICES}/v1.metrics.example.com")).status_code == 200
        await until(client, PODS, there=False)
        assert (await client.get("/openapi/v2", headers=PROTOBUF)).content == plain


async def test_an_unreadable_document_is_left_out(remote: Remote) -> None:
    remote.documents["/openapi/v2"] = {"paths": {PODS: {"get": {"responses": {"200": {}}, "parameters": [{}]}}}}
    where = f"--service-address=kube-system/metrics:443={remote.address}"
    async with open_server("memory", None, where) as (_, client):
        await client.create(SERVICES, api_service(insecureSkipTLSVerify=True))
        while (await client.get(f"{PODS}/a")).status_code == 503:
            pass
        for headers in ({}, PROTOBUF):
            answer = await client.get("/openapi/v2", headers=headers)
            assert (answer.status_code, b"metrics.example.com" in answer.content) == (200, False)


def test_a_document_is_read_again_when_it_has_changed_and_kept_while_its_server_is_away() -> None:
    class Client:
        """A client that returns the next answer."""

        def __init__(self, *answers: Answer | Exception) -> None:
            self.answers, self.asked = iter(answers), list[tuple[str, str]]()

        async def get(self, _: object, __: object, path: str, ___: str, *, etag: str = "") -> Answer:
            self.asked.append((path, etag))
            answer = next(self.answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

    def answer(status: int, body: Any = None, etag: str = "") -> Answer:
        return Answer(status, orjson.dumps(body), "application/json", etag)

    stored = api_service()
    found = remote_of(stored)
    assert found is not None
    index = answer(200, {"paths": {"apis/metrics.example.com/v1": {"serverRelativeURL": "/o"}}})
    gone = OSError("gone")
    client = Client(
        index, answer(200, swagger(PODS), "7"), gone, gone, answer(404), answer(304), index, answer(200, [])
    )
    known, seen = NOTHING, []
    for _ in range(4):
        known = asyncio.run(read_description(client, found, ("127.0.0.1", 1), known))  # type: ignore[arg-type]
        seen.append(known)
    assert (seen[0].address, seen[0].etag, PODS.encode() in seen[0].swagger) == ("/o", "7", True)
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]._replace(address="")
    assert seen[3] == seen[0]
    assert [asked for asked in client.asked if asked[0] == "/openapi/v2"] == [
        ("/openapi/v2", ""), *[("/openapi/v2", "7")] * 3,
    ]  # fmt: skip
