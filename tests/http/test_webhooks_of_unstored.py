"""Webhooks for objects that are posted but not stored: reviews, bindings, evictions, token requests."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.http.test_admission_webhooks import ALLOW, WebhookServer, serve_with_webhooks
from tests.support.extensions import make_rule

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

DEFAULT = "/api/v1/namespaces/default"
REVIEWS = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
EVERYTHING: Json = make_rule("*/*", group="*", versions=("*",))


def review(**metadata: Any) -> Json:
    spec = {"user": "alice", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}
    return {"metadata": metadata, "spec": spec}


async def prepare(hooks: WebhookServer) -> None:
    """Create a pod, a mutating webhook and a validating webhook for everything."""
    await hooks.client.create(f"{DEFAULT}/pods", {
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    })  # fmt: skip
    await hooks.configure("mutating", {"name": "first", "rules": [EVERYTHING]})
    await hooks.configure("validating", {"name": "last", "rules": [EVERYTHING]})


async def post(hooks: WebhookServer, path: str, body: Json) -> tuple[int, list[tuple[str, Json]]]:
    """Post an object; return the status, and the objects that the webhooks saw."""
    hooks.script(first=[ALLOW], last=[ALLOW])
    answer = await hooks.client.post(path, json=body)
    return answer.status_code, [(name, request["object"]) for name, request in hooks.calls()]


async def test_posted_objects_are_validated_between_mutating_and_validating_webhooks() -> None:
    async with serve_with_webhooks() as hooks:
        await prepare(hooks)
        pod = f"{DEFAULT}/pods/p"
        for path, good, bad in (
            (REVIEWS, review(), review(labels={"a": "b"})),
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", review(), review(labels={"a": "b"})),
            ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review(), review(labels={"a": "b"})),
            ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}}, {"spec": {}}),
            (f"{DEFAULT}/bindings?dryRun=All", {"metadata": {"name": "p"}, "target": {"name": "n"}},
                {"metadata": {"name": "p"}, "target": {}}),
            (f"{pod}/eviction?dryRun=All", {"metadata": {"name": "p"}}, {"metadata": {"name": "q"}}),
            (f"{pod}/binding?dryRun=All", {"metadata": {"name": "p"}, "target": {"name": "n"}},
                {"metadata": {"name": "p"}, "target": {}}),
        ):  # fmt: skip
            status, seen = await post(hooks, path, bad)
            assert status >= 400, path
            assert [name for name, _ in seen] == ["first"], path
            status, seen = await post(hooks, path, good)
            assert status == 201, path
            assert [name for name, _ in seen] == ["first", "last"], path
            if "/namespaces/" in path:
                assert all(obj["metadata"]["namespace"] == "default" for _, obj in seen), path


async def test_webhooks_see_managers_and_metadata_of_posted_objects() -> None:
    async with serve_with_webhooks() as hooks:
        account = await hooks.client.create(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "robot"}})
        await hooks.configure("validating", {"name": "last", "rules": [EVERYTHING]})
        _, [(_, seen)] = await post(hooks, REVIEWS, review(uid="made-up"))
        assert [owner["operation"] for owner in seen["metadata"]["managedFields"]] == ["Update"]
        assert "uid" not in seen["metadata"]
        status, [(_, seen)] = await post(hooks, f"{DEFAULT}/serviceaccounts/robot/token", {"spec": {}})
        assert status == 201
        assert (seen["metadata"]["name"], seen["metadata"]["uid"]) == ("robot", account["metadata"]["uid"])


async def test_webhooks_see_manager_and_subresource_of_posts_to_a_pod() -> None:
    async with serve_with_webhooks() as hooks:
        await prepare(hooks)
        metadata = {"name": "p", "labels": {"a": "b"}, "managedFields": [{}]}
        labels: Json = {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
        for subresource, version, more, fields in (
            ("binding", "v1", {"target": {"name": "n"}}, {**labels, "f:target": {}}),
            ("eviction", "policy/v1", {}, labels),
        ):
            path = f"{DEFAULT}/pods/p/{subresource}?dryRun=All&fieldManager=me"
            status, seen = await post(hooks, path, {"metadata": metadata, **more})
            assert (status, len(seen)) == (201, 2)
            for _, obj in seen:
                (owner,) = obj["metadata"]["managedFields"]
                assert (owner["manager"], owner["operation"], owner["subresource"]) == ("me", "Update", subresource)
                assert (owner["apiVersion"], owner["fieldsV1"]) == (version, fields)
