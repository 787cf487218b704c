"""What webhooks see of objects that are posted and not stored: reviews, bindings, evictions, requests for tokens."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.http.test_admission_webhooks import ALLOW, Asked, asked
from tests.http.test_live_catalog import created, run

pytestmark = pytest.mark.integration

DEFAULT = "/api/v1/namespaces/default"
REVIEWS = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
EVERYTHING: Json = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


def review(**metadata: Any) -> Json:
    spec = {"user": "alice", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}
    return {"metadata": metadata, "spec": spec}


async def posted(hooks: Asked, path: str, body: Json) -> tuple[int, list[tuple[str, Json]]]:
    """The status of a request, and the objects that webhooks saw of it."""
    hooks.script(first=[ALLOW], last=[ALLOW])
    answer = await hooks.client.post(path, json=body)
    return answer.status_code, [(name, request["object"]) for name, request in hooks.calls()]


def test_what_is_wrong_with_a_posted_object_is_said_between_those_who_change_it_and_those_who_judge_it() -> None:
    async def scenario() -> None:
        async with asked() as hooks:
            await created(hooks.client, f"{DEFAULT}/pods", {
                "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            })  # fmt: skip
            await hooks.configure("mutating", {"name": "first", "rules": [EVERYTHING]})
            await hooks.configure("validating", {"name": "last", "rules": [EVERYTHING]})
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
                status, seen = await posted(hooks, path, bad)
                assert status >= 400, path
                assert [name for name, _ in seen] == ["first"], path
                status, seen = await posted(hooks, path, good)
                assert status == 201, path
                assert [name for name, _ in seen] == ["first", "last"], path
                if "/namespaces/" in path:
                    assert all(obj["metadata"]["namespace"] == "default" for _, obj in seen), path

    run(scenario())


def test_posted_objects_show_who_sends_them_and_what_is_known_of_them() -> None:
    async def scenario() -> None:
        async with asked() as hooks:
            account = await created(hooks.client, f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "robot"}})
            await hooks.configure("validating", {"name": "last", "rules": [EVERYTHING]})
            _, [(_, seen)] = await posted(hooks, REVIEWS, review(uid="made-up"))
            assert [owner["operation"] for owner in seen["metadata"]["managedFields"]] == ["Update"]
            assert "uid" not in seen["metadata"]
            status, [(_, seen)] = await posted(hooks, f"{DEFAULT}/serviceaccounts/robot/token", {"spec": {}})
            assert status == 201
            assert (seen["metadata"]["name"], seen["metadata"]["uid"]) == ("robot", account["metadata"]["uid"])

    run(scenario())


def test_what_is_posted_to_a_pod_shows_who_sends_it_by_which_subresource() -> None:
    async def scenario() -> None:
        async with asked() as hooks:
            await created(hooks.client, f"{DEFAULT}/pods", {
                "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            })  # fmt: skip
            await hooks.configure("mutating", {"name": "first", "rules": [EVERYTHING]})
            await hooks.configure("validating", {"name": "last", "rules": [EVERYTHING]})
            metadata = {"name": "p", "labels": {"a": "b"}, "managedFields": [{}]}
            labels = {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
            for subresource, version, more, fields in (
                ("binding", "v1", {"target": {"name": "n"}}, {**labels, "f:target": {}}),
                ("eviction", "policy/v1", {}, labels),
            ):
                path = f"{DEFAULT}/pods/p/{subresource}?dryRun=All&fieldManager=me"
                status, seen = await posted(hooks, path, {"metadata": metadata, **more})
                assert (status, len(seen)) == (201, 2)
                for _, obj in seen:
                    (owner,) = obj["metadata"]["managedFields"]
                    assert (owner["manager"], owner["operation"], owner["subresource"]) == ("me", "Update", subresource)
                    assert (owner["apiVersion"], owner["fieldsV1"]) == (version, fields)

    run(scenario())
