"""With AlwaysPullImages every image of a pod is pulled on each start."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Wire

pytestmark = pytest.mark.integration
FLAGS = ("--enable-admission-plugins=AlwaysPullImages",)

PODS = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


def pod(name: str) -> Json:
    never = {"image": "i", "imagePullPolicy": "Never"}
    volumes = [{"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}, {"name": "e", "emptyDir": {}}]
    containers = {"containers": [{"name": "c", **never}], "initContainers": [{"name": "b", **never}]}
    return {"metadata": {"name": name}, "spec": {**containers, "volumes": volumes}}


def policies(found: Json) -> list[str]:
    spec = found["spec"]
    containers = [each["imagePullPolicy"] for each in (*spec["initContainers"], *spec["containers"])]
    return [*containers, *(volume["image"]["pullPolicy"] for volume in spec["volumes"] if "image" in volume)]


def test_containers_and_image_volumes_get_the_policy_always(wire: Wire) -> None:
    assert policies(wire.post(PODS, pod("a")).json) == ["Always"] * 3


def test_only_an_update_with_a_new_image_sets_the_policies(wire: Wire) -> None:
    wire.create(PODS, pod("b"))
    changed = wire.get(f"{PODS}/b").json
    changed["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    assert wire.put(f"{PODS}/b", changed).status == 422, "a policy of a pod does not change"
    changed["spec"]["containers"][0]["image"] = "j"
    assert policies(wire.put(f"{PODS}/b", changed).json) == ["Always"] * 3


def test_an_ephemeral_container_keeps_its_pull_policy(wire: Wire) -> None:
    wire.create(PODS, pod("d"))
    changed = wire.get(f"{PODS}/d/ephemeralcontainers").json
    changed["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "k", "imagePullPolicy": "Never"}]
    answer = wire.put(f"{PODS}/d/ephemeralcontainers", changed).json
    assert answer["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "Never"
    # Another image would set all policies, and that of an added container is immutable.
    changed = wire.get(f"{PODS}/d").json
    changed["spec"]["containers"][0]["image"] = "k"
    assert wire.put(f"{PODS}/d", changed).status == 200
    changed = wire.get(f"{PODS}/d").json
    changed["spec"]["containers"][0]["image"] = "l"
    refused = wire.put(f"{PODS}/d", changed)
    assert refused.failure == (422, "Invalid")


def test_a_later_change_of_the_policy_is_refused(wire: Wire) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    never = '[JSONPatch{op: "replace", path: "/spec/containers/0/imagePullPolicy", value: "Never"}]'
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "name", "expression": "object.metadata.name == 'c'"}],
        "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": never}}],
    }  # fmt: skip
    wire.create(POLICIES, {"metadata": {"name": "never"}, "spec": spec})
    wire.create(f"{POLICIES[:-3]}ybindings", {"metadata": {"name": "b"}, "spec": {"policyName": "never"}})
    refused = wire.post(PODS, pod("c"))
    assert refused.refusal == (
        403,
        'pods "c" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"',
    )
