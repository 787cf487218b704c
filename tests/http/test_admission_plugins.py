"""Admission plugins: storage, image pull policies, and deletions with and without a matching rule."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.extensions import make_rule, make_webhook
from tests.support.wire import Wire

pytestmark = pytest.mark.integration
FLAGS = ("--enable-admission-plugins=AlwaysPullImages",)

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def claim(name: str, **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def storage_class(name: str, **parts: Any) -> Json:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/disks", **parts}


def test_storage_plugins_protect_choose_a_default_class_and_check_expansion(wire: Wire) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}
    volume = wire.create("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": spec})
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert "storageClassName" not in wire.create(CLAIMS, claim("classless"))["spec"]
    wire.create(CLASSES, storage_class("growing", allowVolumeExpansion=True))
    made = wire.create(CLAIMS, claim("growing", volumeName="v"))
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert made["spec"]["storageClassName"] == "growing"
    wire.create(CLAIMS, claim("fixed", volumeName="v", storageClassName="fixed"))
    for name, code in (("growing", 200), ("fixed", 403)):
        bound = wire.get(f"{CLAIMS}/{name}").json
        bound["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        bound = wire.put(f"{CLAIMS}/{name}/status", bound).json
        bound["spec"]["resources"]["requests"]["storage"] = "2Gi"
        answer = wire.put(f"{CLAIMS}/{name}", bound)
        assert answer.status == code
    assert answer.message.startswith('persistentvolumeclaims "fixed" is forbidden: only dynamically provisioned pvc')


PODS = "/api/v1/namespaces/default/pods"
MUTATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


def image_pod(name: str) -> Json:
    never = {"image": "i", "imagePullPolicy": "Never"}
    volumes = [{"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}, {"name": "e", "emptyDir": {}}]
    containers = {"containers": [{"name": "c", **never}], "initContainers": [{"name": "b", **never}]}
    return {"metadata": {"name": name}, "spec": {**containers, "volumes": volumes}}


def policies(found: Json) -> list[str]:
    spec = found["spec"]
    containers = [each["imagePullPolicy"] for each in (*spec["initContainers"], *spec["containers"])]
    return [*containers, *(volume["image"]["pullPolicy"] for volume in spec["volumes"] if "image" in volume)]


def test_containers_and_image_volumes_get_the_policy_always(wire: Wire) -> None:
    assert policies(wire.post(PODS, image_pod("a")).json) == ["Always"] * 3


def test_only_an_update_with_a_new_image_sets_the_policies(wire: Wire) -> None:
    wire.create(PODS, image_pod("b"))
    changed = wire.get(f"{PODS}/b").json
    changed["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    assert wire.put(f"{PODS}/b", changed).status == 422, "a policy of a image_pod does not change"
    changed["spec"]["containers"][0]["image"] = "j"
    assert policies(wire.put(f"{PODS}/b", changed).json) == ["Always"] * 3


def test_an_ephemeral_container_keeps_its_pull_policy(wire: Wire) -> None:
    wire.create(PODS, image_pod("d"))
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
    rules = [make_rule("pods", operations="CREATE")]
    never = '[JSONPatch{op: "replace", path: "/spec/containers/0/imagePullPolicy", value: "Never"}]'
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "name", "expression": "object.metadata.name == 'c'"}],
        "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": never}}],
    }  # fmt: skip
    wire.create(MUTATIONS, {"metadata": {"name": "never"}, "spec": spec})
    wire.create(f"{MUTATIONS[:-3]}ybindings", {"metadata": {"name": "b"}, "spec": {"policyName": "never"}})
    refused = wire.post(PODS, image_pod("c"))
    assert refused.refusal == (
        403,
        'pods "c" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"',
    )


MAPS = "/api/v1/namespaces/default/configmaps"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
WEBHOOKS = f"{ADMISSION}/validatingwebhookconfigurations"


def deleted(wire: Wire) -> int:
    wire.post(MAPS, {"metadata": {"name": "a"}})
    return wire.delete(f"{MAPS}/a").status


def rule(resource: str) -> Json:
    return make_rule(resource, operations="DELETE")


def policy(resource: str) -> Json:
    checks = [{"expression": "false"}]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule(resource)]}, "validations": checks},
    }


def test_a_policy_holds_for_deletions_from_its_creation_to_its_end(wire: Wire) -> None:
    assert deleted(wire) == 200
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    wire.create(BINDINGS, binding)
    assert deleted(wire) == 200, "the binding binds nothing yet"
    made = wire.post(POLICIES, policy("secrets")).json
    assert deleted(wire) == 200
    made["spec"] = policy("configmaps")["spec"]
    assert wire.put(f"{POLICIES}/p", made).status == 200
    assert deleted(wire) == 422
    assert wire.delete(f"{POLICIES}/p").status == 200
    assert deleted(wire) == 200
    assert wire.delete(f"{BINDINGS}/p").status == 200


def test_a_webhook_is_called_for_deletions_from_its_creation_to_its_end(wire: Wire) -> None:
    def hook(resource: str) -> Json:
        return {"metadata": {"name": "h"}, "webhooks": [make_webhook("h", "https://127.0.0.1:1/", rule(resource))]}

    made = wire.post(WEBHOOKS, hook("secrets")).json
    assert deleted(wire) == 200
    made["webhooks"] = hook("configmaps")["webhooks"]
    assert wire.put(f"{WEBHOOKS}/h", made).status == 200
    assert deleted(wire) == 500, "the webhook is unreachable"
    assert wire.delete(f"{WEBHOOKS}/h").status == 200
    assert deleted(wire) == 200
