"""Evictions and disruption budgets."""

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
