"""Subresources of pods: resize, eviction and binding."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Answer, Wire

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/default/pods"
ONLY = "spec: Forbidden: only cpu and memory resources are mutable"


def made(wire: Wire, name: str, resources: Json | None = None, **spec: Any) -> str:
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1", "resources": resources or {}}], **spec},
    }
    answer = wire.post(PODS, body)
    assert answer.status == 201, answer.text
    return f"{PODS}/{name}"


def resized(wire: Wire, pod: str, container: Json | None = None, **spec: Any) -> Answer:
    body: Json = {"spec": spec or {"containers": [{"name": "c", "resources": container}]}}
    return wire.patch(f"{pod}/resize", body, "strategic")


def wrong(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.text
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]]


def test_cpu_and_memory_of_a_running_container_can_be_changed(wire: Wire) -> None:
    pod = made(wire, "plain", {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    answer = resized(wire, pod, {"requests": {"cpu": "1500m"}})
    assert (answer.status, answer.json["spec"]["containers"][0]["resources"]["requests"]) == (200, {"cpu": "1500m"})
    assert answer.json["metadata"]["generation"] == 2


def test_a_container_with_claims_differs_from_itself_and_cannot_be_resized(wire: Wire) -> None:
    claims = [{"name": "g", "resourceClaimName": "x"}]
    pod = made(
        wire,
        "claiming",
        {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "claims": [{"name": "g"}]},
        resourceClaims=claims,
    )
    assert wrong(resized(wire, pod, {"requests": {"cpu": "1500m"}})) == [ONLY]


def test_a_resize_keeps_the_class_of_service_and_removes_nothing(wire: Wire) -> None:
    pod = made(wire, "guaranteed", {"limits": {"cpu": "1", "memory": "1Gi"}})
    changed = 'spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing'
    assert wrong(resized(wire, pod, {"limits": {"cpu": "2"}})) == [changed]
    gone = [
        f"spec.containers[0].resources.{part}: Forbidden: resource {part} cannot be removed"
        for part in ("requests", "limits")
    ]
    assert wrong(resized(wire, pod, {"requests": {"memory": None}, "limits": {"memory": None}})) == [changed, *gone]


def test_a_resize_does_not_replace_containers(wire: Wire) -> None:
    pod = made(wire, "same", {"requests": {"cpu": "1"}})
    assert "spec.containers: Forbidden: containers may not be added or removed on resize" in wrong(
        resized(wire, pod, containers=[{"name": "d", "image": "i"}])
    )


def test_a_whole_pods_resources_can_be_changed_but_not_removed(wire: Wire) -> None:
    pod = f"{PODS}/whole"
    body = {
        "metadata": {"name": "whole"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], "resources": {"requests": {"cpu": "1"}}},
    }
    wire.create(PODS, body)
    assert resized(wire, pod, resources={"requests": {"cpu": "2"}}).status == 200
    refused = wire.patch(f"{pod}/resize", {"spec": {"resources": None}})
    assert "spec.resources: Forbidden: pod-level resources cannot be removed" in wrong(refused)


def test_no_windows_pod_is_resized(wire: Wire) -> None:
    pod = made(wire, "windows", {"requests": {"cpu": "1"}}, os={"name": "windows"})
    assert wrong(resized(wire, pod, {"requests": {"cpu": "2"}})) == ["[]: Forbidden: windows pods cannot be resized"]


def test_a_refused_change_of_an_ephemeral_container_is_shown_as_a_diff(wire: Wire) -> None:
    pod = f"{made(wire, 'debugged')}/ephemeralcontainers"
    assert wire.patch(pod, {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}, "strategic").status == 200
    answer = wire.patch(pod, {"spec": {"ephemeralContainers": [{"name": "e", "image": "y"}]}}, "strategic")
    assert '- "Image": "x",\n+ "Image": "y",\n' in wrong(answer)[0]


def evicted(wire: Wire, pod: str, query: str = "", **options: Any) -> Answer:
    return wire.post(
        f"{pod}/eviction{query}",
        {"apiVersion": "policy/v1", "metadata": {"name": pod.rpartition("/")[2]}, "deleteOptions": options},
    )


def test_an_eviction_is_judged_as_the_deletion_that_it_is(wire: Wire) -> None:
    pod = made(wire, "evicted")
    assert evicted(wire, pod, propagationPolicy="X").message.startswith(
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value'
    )
    mixed = evicted(wire, pod, "?dryRun=All", dryRun=["x"])
    assert mixed.refusal == (500, "Non-matching dry-run options in request and content: [All] and [x]")
    assert evicted(wire, pod, dryRun=["x"]).status == 422
    conditions = wire.get(pod).json["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["DisruptionTarget"]  # of the one that was to be done
    older = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    wire.create(f"{pod}/eviction", older)


def test_the_older_way_to_bind_has_the_same_rules(wire: Wire) -> None:
    made(wire, "bound")
    bindings = "/api/v1/namespaces/default/bindings"
    target = {"target": {"kind": "Node", "name": "n"}}
    assert wire.post(bindings, target).message == "Name parameter required."
    assert wire.post(bindings, {"metadata": {"name": "absent"}, **target}).message == 'pods "absent" not found'
    assert (
        wire.post(f"{PODS}/bound/binding", {"metadata": {"name": "bound", "namespace": "other"}, **target}).status
        == 400
    )
    stale = wire.post(f"{bindings}?dryRun=All", {"metadata": {"name": "bound", "resourceVersion": "1"}, **target})
    assert (stale.status, "Key: /pods/default/bound, " in stale.message) == (409, True)
    assert wire.post(bindings, {"metadata": {"name": "bound"}, **target}).json == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    }  # fmt: skip
