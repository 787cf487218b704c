"""Warnings about objects without effect: their component does not run, or its plugin or gate is off."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.admission.plugins.registered import BUILT, select
from apiserver.api.features.gates import GATES, Features
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


def said(kind: tuple[str, str], obj: dict[str, Any], *running: str, is_new: bool = True, **more: Any) -> list[str]:
    judge = unattended(running, **more).get(kind)
    return judge(obj, is_new) if judge else []


def test_every_effect_names_an_existing_kind_part_and_gate() -> None:
    effects = [effect for parts in PARTS.values() for effect in parts]
    assert set(PARTS) <= {(resource.group, resource.plural) for resource in CATALOG}
    assert {effect.component for effect in effects} <= {"", *COMPONENTS, *UNSUPPORTED}
    assert {effect.plugin for effect in effects} <= {"", *BUILT}
    assert {gate for effect in effects for gate in effect.gates} <= set(GATES)
    assert all(effect.component or effect.gates or effect.plugin for effect in effects)


def test_a_gate_that_is_off_or_not_in_the_release_is_named_with_the_fix() -> None:
    kind, rule = ("resource.k8s.io", "devicetaintrules"), {"metadata": {"name": "r"}}
    running = "device-taint-eviction-controller"
    ignored = "the object is stored, but its taint is ignored: its devices stay usable, and no pods are evicted"
    both = "DRADeviceTaints=true,DRADeviceTaintRules=true"
    for release, cause in (
        ((1, 34), "release 1.34 has no feature gate DRADeviceTaintRules (emulate 1.35 or newer and enable it)"),
        ((1, 35), f"feature gate DRADeviceTaints, DRADeviceTaintRules is off (enable it with --feature-gates={both})"),
        ((1, 36), "feature gate DRADeviceTaintRules is off (enable it with --feature-gates=DRADeviceTaintRules=true)"),
    ):
        for is_new in (True, False):
            features = Features(release)
            assert said(kind, rule, running, features=features, is_new=is_new) == [f"{cause}: {ignored}"]
    assert said(kind, rule, running, features=Features(settings={"DRADeviceTaintRules": True})) == []


def test_a_disabled_admission_plugin_is_named_to_each_writer() -> None:
    limits = ("", "limitranges")
    assert said(limits, {"metadata": {}}) == []
    without = select(disable=["LimitRanger"]).on
    for is_new in (True, False):
        (text,) = said(limits, {"metadata": {}}, plugins=without, is_new=is_new)
        cause = "admission plugin LimitRanger is disabled (with --disable-admission-plugins)"
        assert text == f"{cause}: the object is stored, but it limits nothing"


def test_only_a_gang_needs_gang_scheduling() -> None:
    features = Features(settings={"GenericWorkload": True})
    for policy, number in (({"gang": {"minCount": 2}}, 1), ({"basic": {}}, 0)):
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
        assert len(said(("scheduling.k8s.io", "podgroups"), group, "scheduler", features=features)) == number


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


def test_a_device_taint_rule_that_the_release_ignores_gets_a_warning_whenever_it_is_written() -> None:
    rules = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoExecute"}},
    }
    cause = "release 1.34 has no feature gate DRADeviceTaintRules (emulate 1.35 or newer and enable it)"
    with ControlPlane(emulated_version="1.34", runtime_config="resource.k8s.io/v1alpha3=true") as plane:
        wire = Wire(plane.url)
        made = wire.post(rules, rule)
        changed = wire.request(
            "PUT", f"{rules}/r", {**made.json, "metadata": {**made.json["metadata"], "labels": {"a": "b"}}}
        )
        assert (made.status, changed.status) == (201, 200)
        for answer in (made, changed):
            assert [cause in warning for warning in warnings(answer)].count(True) == 1
        assert not any(cause in warning for warning in warnings(wire.get(f"{rules}/r")))
