"""Where AlwaysPullImages is on, a node asks for each image of a pod anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Child(tmp_path_factory.mktemp("pull"), "--enable-admission-plugins=AlwaysPullImages") as child:
        yield child.wire()


def pod(name: str) -> Json:
    never = {"image": "i", "imagePullPolicy": "Never"}
    volumes = [{"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}, {"name": "e", "emptyDir": {}}]
    containers = {"containers": [{"name": "c", **never}], "initContainers": [{"name": "b", **never}]}
    return {"metadata": {"name": name}, "spec": {**containers, "volumes": volumes}}


def policies(found: Json) -> list[str]:
    spec = found["spec"]
    containers = [each["imagePullPolicy"] for each in (*spec["initContainers"], *spec["containers"])]
    return [*containers, *(volume["image"]["pullPolicy"] for volume in spec["volumes"] if "image" in volume)]


def test_containers_and_volumes_of_images_are_pulled_always_whatever_was_said(wire: Wire) -> None:
    assert policies(wire.post(PODS, pod("a")).json) == ["Always"] * 3


def test_an_update_that_brings_no_image_is_left_alone_and_another_is_not(wire: Wire) -> None:
    assert wire.post(PODS, pod("b")).status == 201
    changed = wire.get(f"{PODS}/b").json
    changed["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    assert wire.request("PUT", f"{PODS}/b", changed).status == 422, "a policy of a pod does not change"
    changed["spec"]["containers"][0]["image"] = "j"
    assert policies(wire.request("PUT", f"{PODS}/b", changed).json) == ["Always"] * 3


def test_what_is_added_to_a_running_pod_is_pulled_as_it_says(wire: Wire) -> None:
    assert wire.post(PODS, pod("d")).status == 201
    changed = wire.get(f"{PODS}/d/ephemeralcontainers").json
    changed["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "k", "imagePullPolicy": "Never"}]
    answer = wire.request("PUT", f"{PODS}/d/ephemeralcontainers", changed).json
    assert answer["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "Never"
    # Its image is one that the pod has; with another all are pulled, which nobody may change of what was added.
    changed = wire.get(f"{PODS}/d").json
    changed["spec"]["containers"][0]["image"] = "k"
    assert wire.request("PUT", f"{PODS}/d", changed).status == 200
    changed = wire.get(f"{PODS}/d").json
    changed["spec"]["containers"][0]["image"] = "l"
    refused = wire.request("PUT", f"{PODS}/d", changed)
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")


def test_what_another_plugin_makes_of_it_later_is_refused(wire: Wire) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    never = '[JSONPatch{op: "replace", path: "/spec/containers/0/imagePullPolicy", value: "Never"}]'
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "name", "expression": "object.metadata.name == 'c'"}],
        "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": never}}],
    }  # fmt: skip
    assert wire.post(POLICIES, {"metadata": {"name": "never"}, "spec": spec}).status == 201
    assert (
        wire.post(f"{POLICIES[:-3]}ybindings", {"metadata": {"name": "b"}, "spec": {"policyName": "never"}}).status
        == 201
    )
    refused = wire.post(PODS, pod("c"))
    assert (refused.status, refused.json["message"]) == (
        403,
        'pods "c" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"',
    )
