"""Warnings about new objects whose component does not run."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.resources import CATALOG
from controllers.manager.manager import COMPONENTS
from controllers.manager.unattended import PARTS, unattended
from controllers.options.names import UNSUPPORTED
from kubedra import ControlPlane
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
DEPLOYMENT = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}}


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}, "spec": TEMPLATE["spec"]}


def said(kind: tuple[str, str], obj: dict[str, Any], *running: str) -> list[str]:
    judge = unattended(running).get(kind)
    return judge(obj) if judge else []


def test_every_part_names_an_existing_kind_and_component() -> None:
    assert set(PARTS) <= {(resource.group, resource.plural) for resource in CATALOG}
    assert {part.component for parts in PARTS.values() for part in parts} <= {*COMPONENTS, *UNSUPPORTED}


def test_a_pod_needs_the_scheduler_until_it_is_bound() -> None:
    bound = {"spec": {"nodeName": "n"}}
    assert [text.partition(" (")[0] for text in said(("", "pods"), pod("a"))] == [
        "scheduler does not run on this server",
        "node-agent does not run on this server",
    ]
    assert len(said(("", "pods"), bound)) == 1
    assert said(("", "pods"), bound, "node-agent") == []
    assert said(("", "pods"), pod("a"), "node-agent", "scheduler") == []


def test_objects_with_a_controlling_owner_get_no_warning() -> None:
    owned = pod("a", ownerReferences=[{"kind": "Job", "name": "j", "controller": True}])
    assert said(("", "pods"), owned) == []
    claimed = pod("a", ownerReferences=[{"kind": "Job", "name": "j"}])
    assert len(said(("", "pods"), claimed)) == 2


def test_a_service_without_selector_needs_no_controller() -> None:
    assert said(("", "services"), {"spec": {"selector": {"app": "a"}}}) != []
    assert said(("", "services"), {"spec": {}}) == []


def test_controllers_missing_from_kubedra_are_distinguished() -> None:
    [text] = said(("storage.k8s.io", "volumeattachments"), {"metadata": {"name": "a"}})
    assert "persistentvolume-attach-detach-controller does not run on this server (not part of kubedra)" in text


@pytest.fixture(scope="module")
def wire() -> Any:
    with ControlPlane(args=("--controllers=*,-scheduler,-disruption-controller,-deployment-controller",)) as plane:
        yield Wire(plane.url)


def warnings(answer: Any) -> list[str]:
    return [value for name, value in answer.all_headers if name.lower() == "warning"]


def test_a_warning_is_returned_once_with_the_object(wire: Wire) -> None:
    made = wire.post(DEPLOYMENTS, DEPLOYMENT)
    (warning,) = warnings(made)
    assert made.status == 201
    assert "deployment-controller does not run on this server (enable it with --controllers)" in warning
    assert "no ReplicaSets and no pods" in warning
    changed = wire.request("PUT", f"{DEPLOYMENTS}/d", {**made.json, "spec": {**made.json["spec"], "replicas": 2}})
    assert (changed.status, warnings(changed), warnings(wire.get(f"{DEPLOYMENTS}/d"))) == (200, [], [])


def test_an_apply_gets_a_warning_only_when_it_creates(wire: Wire) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {}},
    }
    applied = [
        wire.request("PATCH", f"{BUDGETS}/b?fieldManager=me", budget, {"Content-Type": "application/apply-patch+yaml"})
        for _ in range(2)
    ]
    assert [(answer.status, len(warnings(answer))) for answer in applied] == [(201, 1), (200, 0)]


def test_a_disabled_component_is_named_with_the_flag(wire: Wire) -> None:
    (warning,) = warnings(wire.post(PODS, pod("p")))
    assert (
        "scheduler does not run on this server (enable it with --controllers): the object is stored, but it is not scheduled"
        in warning
    )
    refused = wire.post(PODS, pod("Bad_Name"))
    assert (refused.status, warnings(refused)) == (422, [])
