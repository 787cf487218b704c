"""Generated situations that use every feature with a gate of its own.

Devices are tainted, shared, partitioned, consume resources of their node or have list attributes. Claims have
alternatives or admin access. Pods have pod-level resources, or need features that only some nodes declare.
"""

from __future__ import annotations

import random
from typing import Any

from apiserver.api.objects import Json
from tests.scheduler.situations import DRIVERS, GPU, Situation, device_class
from tests.support.objects import make_node, make_pod

DRIVER = DRIVERS["gpu"]


def _device(rng: random.Random, name: str, *, plain: bool, conditions: bool) -> Json:
    """Build a device with random optional fields."""
    found: Json = {
        "name": name,
        "attributes": {
            f"{DRIVER}/size": {"string": rng.choice(("small", "big"))},
            f"{DRIVER}/links": {"strings": rng.sample(("a", "b", "c"), rng.randint(1, 2))},
        },
        "capacity": {"memory": {"value": rng.choice(("8Gi", "16Gi"))}},
    }
    if rng.random() < 0.3 and not plain:
        effect = rng.choice(("NoSchedule", "NoExecute"))
        found["taints"] = [{"key": "bad", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}]
    if rng.random() < 0.3:
        found["allowMultipleAllocations"] = True
    if rng.random() < 0.2:
        found["nodeAllocatableResourceMappings"] = {"cpu": {"allocationMultiplier": str(rng.randint(1, 3))}}
    if conditions and rng.random() < 0.4:
        found["bindingConditions"] = ["ready"]
        found["bindingFailureConditions"] = ["broken"]
    return found


def _slices(rng: random.Random, node: str, *, parts: bool, conditions: bool) -> list[Json]:
    """Build the pool of a node. With `parts` its devices may share counters."""

    def make_item(number: int, slices: int, **fields: Any) -> Json:
        pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
        metadata = {"name": f"slice-{node}-{number}"}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **fields}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}

    devices = [_device(rng, f"gpu-{number}", plain=parts, conditions=conditions) for number in range(rng.randint(1, 4))]
    if not parts or rng.random() < 0.3:
        return [make_item(0, 1, devices=devices)]
    for device in devices:
        if not device.get("allowMultipleAllocations"):
            value = {"value": str(rng.randint(1, 2))}
            device["consumesCounters"] = [{"counterSet": "card", "counters": {"parts": value}}]
    counters = [{"name": "card", "counters": {"parts": {"value": str(rng.randint(1, 3))}}}]
    return [make_item(0, 2, devices=devices), make_item(1, 2, sharedCounters=counters)]


def _exactly(rng: random.Random) -> Json:
    found: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": rng.choice((1, 1, 2))}
    if rng.random() < 0.4:
        size = rng.choice(("small", "big"))
        found["selectors"] = [{"cel": {"expression": f"device.attributes['{DRIVER}'].size == '{size}'"}}]
    if rng.random() < 0.3:
        found["tolerations"] = [{"key": "bad", "operator": "Exists"}]
    if rng.random() < 0.25:
        found["capacity"] = {"requests": {"memory": rng.choice(("4Gi", "8Gi"))}}
    return found


def _claim(rng: random.Random, name: str, *, plain: bool, lists: bool) -> Json:
    requests: list[Json] = []
    for number in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.3:
            choices = [{"name": f"s{position}", **_exactly(rng)} for position in range(rng.randint(1, 3))]
            requests.append({"name": f"r{number}", "firstAvailable": choices})
        else:
            exactly = _exactly(rng)
            if not plain and rng.random() < 0.2:
                exactly["adminAccess"] = True
            requests.append({"name": f"r{number}", "exactly": exactly})
    devices: Json = {"requests": requests}
    if rng.random() < 0.25 and not plain:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/{rng.choice(('links', 'size')) if lists else 'size'}"}]
    metadata = {"name": name, "namespace": "ns"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
            "spec": {"devices": devices}}  # fmt: skip


def _pod(rng: random.Random, name: str) -> Json:
    requests = {"cpu": f"{rng.randint(1, 6) * 250}m", "memory": f"{rng.randint(1, 4) * 256}Mi"}
    made = make_pod(name, requests=requests, terminationGracePeriodSeconds=0)
    spec, container = made["spec"], made["spec"]["containers"][0]
    if rng.random() < 0.25:
        spec["resources"] = {"requests": {"cpu": f"{rng.randint(6, 10) * 250}m", "memory": "1200Mi"}}
    if rng.random() < 0.25:
        container["resources"]["limits"] = {GPU: str(rng.randint(1, 2))}
        container["resources"]["requests"][GPU] = container["resources"]["limits"][GPU]
    if rng.random() < 0.15:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
        container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return made


def features(rng: random.Random, *, conditions: bool = False, lists: bool = False) -> Situation:
    """Generate a situation.

    Args:
        rng: the source of randomness.
        conditions: whether devices may have binding conditions. No driver sets them here.
        lists: whether constraints may be on list attributes. 1.36.2 ignores those with their gate.
    """
    found = Situation(classes=[device_class("gpu", GPU)])
    # 1.36.2 consumes counters for admin access and for rejected candidates (docs/adr/0008). Situations with counters
    # therefore have no other reason to reject a device.
    parts = rng.random() < 0.5
    for number in range(rng.randint(1, 3)):
        name = f"n{number}"
        node = make_node(name, cpu=str(3 + 2 * number), memory=f"{5 + 3 * number}Gi", taints=[])
        if rng.random() < 0.5:
            node["status"]["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
        found.nodes.append(node)
        found.slices += _slices(rng, name, parts=parts, conditions=conditions)
    for number in range(rng.randint(2, 6)):
        one = _pod(rng, f"p{number}")
        if rng.random() < 0.7:
            claim = _claim(rng, f"claim-{number}", plain=parts, lists=lists)
            found.claims.append(claim)
            one["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": claim["metadata"]["name"]}]
            if rng.random() < 0.9:
                one["spec"]["containers"][0]["resources"]["claims"] = [{"name": "g"}]
        found.pods.append(one)
    return found
