"""Subresources of pods: evictions with disruption budgets, resizes and bindings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Answer, Wire

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def wire(wire: Wire) -> Iterator[Wire]:
    yield wire
    for collection in (PODS, BUDGETS):
        assert wire.delete(f"{collection}?gracePeriodSeconds=0").status == 200


def run(wire: Wire, name: str, *, ready: bool = True) -> None:
    spec = {"containers": [{"name": "c", "image": "img:1"}], "terminationGracePeriodSeconds": 0}
    wire.create(PODS, {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    patch(wire, f"{PODS}/{name}/status", {"status": status})


def patch(wire: Wire, path: str, body: Json) -> Json:
    answer = wire.patch(path, body)
    assert answer.status == 200, answer.text
    return dict(answer.json)


def budget(wire: Wire, name: str = "b", status: Json | None = None, **spec: Any) -> None:
    wire.create(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}})
    if status is not None:
        patch(wire, f"{BUDGETS}/{name}/status", {"status": {"observedGeneration": 1, **status}})


def evict(wire: Wire, name: str, **options: Any) -> Answer:
    body = {
        "kind": "Eviction",
        "apiVersion": "policy/v1",
        "metadata": {"name": name},
        **({"deleteOptions": options} if options else {}),
    }
    return wire.post(f"{PODS}/{name}/eviction", body)


def cause(answer: Answer) -> str:
    assert answer.status == 429
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    return str(answer.json["details"]["causes"][0]["message"])


def test_a_disruption_is_taken_from_the_budget(wire: Wire) -> None:
    for name in ("one", "two"):
        run(wire, name)
    budget(wire, status={"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3})
    assert evict(wire, "one", dryRun=["All"]).status == 201
    assert wire.get(f"{BUDGETS}/b").json["status"]["disruptionsAllowed"] == 1
    assert evict(wire, "one").json["status"] == "Success"
    kept = wire.get(f"{BUDGETS}/b").json
    assert (kept["status"]["disruptionsAllowed"], list(kept["status"]["disruptedPods"])) == (0, ["one"])
    assert [(c["type"], c["status"], c["reason"]) for c in kept["status"]["conditions"]] == [
        ("DisruptionAllowed", "False", "InsufficientPods")
    ]
    assert {
        entry["manager"] for entry in kept["metadata"]["managedFields"] if entry.get("subresource") == "status"
    } >= {"kube-apiserver"}
    assert cause(evict(wire, "two")) == "The disruption budget b does not allow evicting pods currently"
    assert wire.get(f"{PODS}/one").status == 404
    assert wire.get(f"{PODS}/two").status == 200


def test_a_budget_without_a_status_refuses_every_eviction(wire: Wire) -> None:
    run(wire, "one")
    budget(wire, minAvailable=1)
    refused = evict(wire, "one")
    assert cause(refused) == "The disruption budget b is still being processed by the server."
    assert refused.headers["retry-after"] == "10"


def test_too_few_healthy_pods_are_counted_out(wire: Wire) -> None:
    run(wire, "one")
    budget(wire, status={"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 2})
    assert cause(evict(wire, "one")) == "The disruption budget b needs 2 healthy pods and has 1 currently"


@pytest.mark.parametrize(
    ("policy", "healthy", "goes"),
    [("IfHealthyBudget", 2, True), ("IfHealthyBudget", 1, False), ("AlwaysAllow", 1, True)],
)
def test_an_unhealthy_pod_may_go_without_a_disruption(wire: Wire, policy: str, healthy: int, goes: bool) -> None:
    run(wire, "sick", ready=False)
    counts = {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": 2, "expectedPods": 3}
    budget(wire, status=counts, unhealthyPodEvictionPolicy=policy)
    assert evict(wire, "sick").status == (201 if goes else 429)
    assert wire.get(f"{BUDGETS}/b").json["status"].get("disruptedPods") is None


def test_two_budgets_for_one_pod_are_too_many(wire: Wire) -> None:
    run(wire, "one")
    for name in ("b", "c"):
        budget(wire, name)
    answer = evict(wire, "one")
    assert (answer.status, answer.json["code"]) == (500, 500)
    assert answer.message.startswith("This pod has more than one PodDisruptionBudget")


def test_a_finished_pod_is_in_no_budget(wire: Wire) -> None:
    run(wire, "one")
    budget(wire, status={"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1})
    patch(wire, f"{PODS}/one/status", {"status": {"phase": "Succeeded"}})
    assert evict(wire, "one").status == 201


def test_a_budget_is_replaced_only_at_a_version_and_has_only_one_bound(wire: Wire) -> None:
    budget(wire, minAvailable=1)
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 2}}
    assert "must be specified for an update" in wire.put(f"{BUDGETS}/b", body).message
    both = wire.post(BUDGETS, {"metadata": {"name": "c"}, "spec": {"minAvailable": "101%", "maxUnavailable": "x"}}).json
    assert [c["field"] for c in both["details"]["causes"]] == ["spec", "spec.minAvailable", "spec.maxUnavailable"]
    assert both["details"]["causes"][0]["message"].startswith(
        'Invalid value: {"MinAvailable":"101%","Selector":null,"MaxUnavailable":"x",'
    )


ONLY = "spec: Forbidden: only cpu and memory resources are mutable"


def make_pod(wire: Wire, name: str, resources: Json | None = None, **spec: Any) -> str:
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1", "resources": resources or {}}], **spec},
    }
    wire.create(PODS, body)
    return f"{PODS}/{name}"


def resize(wire: Wire, pod: str, container: Json | None = None, **spec: Any) -> Answer:
    body: Json = {"spec": spec or {"containers": [{"name": "c", "resources": container}]}}
    return wire.patch(f"{pod}/resize", body, "strategic")


def error_texts(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.text
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]]


def test_cpu_and_memory_of_a_running_container_can_be_changed(wire: Wire) -> None:
    pod = make_pod(wire, "plain", {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    answer = resize(wire, pod, {"requests": {"cpu": "1500m"}})
    assert (answer.status, answer.json["spec"]["containers"][0]["resources"]["requests"]) == (200, {"cpu": "1500m"})
    assert answer.json["metadata"]["generation"] == 2


def test_a_container_with_claims_differs_from_itself_and_cannot_be_resized(wire: Wire) -> None:
    claims = [{"name": "g", "resourceClaimName": "x"}]
    pod = make_pod(
        wire,
        "claiming",
        {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "claims": [{"name": "g"}]},
        resourceClaims=claims,
    )
    assert error_texts(resize(wire, pod, {"requests": {"cpu": "1500m"}})) == [ONLY]


def test_a_resize_keeps_the_class_of_service_and_removes_nothing(wire: Wire) -> None:
    pod = make_pod(wire, "guaranteed", {"limits": {"cpu": "1", "memory": "1Gi"}})
    changed = 'spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing'
    assert error_texts(resize(wire, pod, {"limits": {"cpu": "2"}})) == [changed]
    gone = [
        f"spec.containers[0].resources.{part}: Forbidden: resource {part} cannot be removed"
        for part in ("requests", "limits")
    ]
    assert error_texts(resize(wire, pod, {"requests": {"memory": None}, "limits": {"memory": None}})) == [
        changed,
        *gone,
    ]


def test_a_resize_does_not_replace_containers(wire: Wire) -> None:
    pod = make_pod(wire, "same", {"requests": {"cpu": "1"}})
    assert "spec.containers: Forbidden: containers may not be added or removed on resize" in error_texts(
        resize(wire, pod, containers=[{"name": "d", "image": "i"}])
    )


def test_a_whole_pods_resources_can_be_changed_but_not_removed(wire: Wire) -> None:
    pod = f"{PODS}/whole"
    body = {
        "metadata": {"name": "whole"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], "resources": {"requests": {"cpu": "1"}}},
    }
    wire.create(PODS, body)
    assert resize(wire, pod, resources={"requests": {"cpu": "2"}}).status == 200
    refused = wire.patch(f"{pod}/resize", {"spec": {"resources": None}})
    assert "spec.resources: Forbidden: pod-level resources cannot be removed" in error_texts(refused)


def test_no_windows_pod_is_resized(wire: Wire) -> None:
    pod = make_pod(wire, "windows", {"requests": {"cpu": "1"}}, os={"name": "windows"})
    assert error_texts(resize(wire, pod, {"requests": {"cpu": "2"}})) == [
        "[]: Forbidden: windows pods cannot be resized"
    ]


def test_a_refused_change_of_an_ephemeral_container_is_shown_as_a_diff(wire: Wire) -> None:
    pod = f"{make_pod(wire, 'debugged')}/ephemeralcontainers"
    assert wire.patch(pod, {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}, "strategic").status == 200
    answer = wire.patch(pod, {"spec": {"ephemeralContainers": [{"name": "e", "image": "y"}]}}, "strategic")
    assert '- "Image": "x",\n+ "Image": "y",\n' in error_texts(answer)[0]


def post_eviction(wire: Wire, pod: str, query: str = "", **options: Any) -> Answer:
    return wire.post(
        f"{pod}/eviction{query}",
        {"apiVersion": "policy/v1", "metadata": {"name": pod.rpartition("/")[2]}, "deleteOptions": options},
    )


def test_an_eviction_is_judged_as_the_deletion_that_it_is(wire: Wire) -> None:
    pod = make_pod(wire, "evicted")
    assert post_eviction(wire, pod, propagationPolicy="X").message.startswith(
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value'
    )
    mixed = post_eviction(wire, pod, "?dryRun=All", dryRun=["x"])
    assert mixed.refusal == (500, "Non-matching dry-run options in request and content: [All] and [x]")
    assert post_eviction(wire, pod, dryRun=["x"]).status == 422
    conditions = wire.get(pod).json["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["DisruptionTarget"]  # of the one that was to be done
    older = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    wire.create(f"{pod}/eviction", older)


def test_the_older_way_to_bind_has_the_same_rules(wire: Wire) -> None:
    make_pod(wire, "bound")
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
