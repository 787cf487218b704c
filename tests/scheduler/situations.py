"""Generated situations: a few nodes with devices, and pods that come one after the other."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.scheduler.objects import a_claim, a_node, a_pod, a_slice

Json = dict[str, Any]
GPU, NIC = "example.com/gpu", "example.com/nic"
DRIVERS = {"gpu": "gpu.example.com", "nic": "nic.example.com"}


@dataclass
class Situation:
    """What is there at first, and the pods in the order in which they come."""

    nodes: list[Json] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)
    slices: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    others: list[Json] = field(default_factory=list)
    """Services, workload objects, budgets, priority classes."""
    pods: list[Json] = field(default_factory=list)


def device_class(name: str, resource: str | None) -> Json:
    expression = {"cel": {"expression": f"device.driver == '{DRIVERS[name]}'"}}
    named = {"extendedResourceName": resource} if resource else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [expression], **named}}  # fmt: skip


def cluster(rng: random.Random) -> Situation:
    """One to three nodes of different sizes, two kinds of devices."""
    found = Situation()
    found.classes = [device_class("gpu", GPU), device_class("nic", rng.choice((NIC, None)))]
    for number in range(rng.randint(1, 3)):
        name = f"n{number}"
        extra = {GPU: str(rng.randint(0, 2))} if rng.random() < 0.3 else {}
        labels = {"zone": rng.choice("ab"), "disk": rng.choice(("ssd", "hdd"))}
        taints = [{"key": "soft", "effect": "PreferNoSchedule"}] if rng.random() < 0.2 else []
        if rng.random() < 0.15:
            taints.append({"key": "hard", "value": "v", "effect": "NoSchedule"})
        size = {"cpu": str(3 + 2 * number), "memory": f"{5 + 3 * number}Gi"}
        found.nodes.append(a_node(name, extra=extra, labels=labels, taints=taints, **size))
        for kind, driver in DRIVERS.items():
            item = a_slice(name, rng.randint(0, 3), driver)
            item["metadata"]["name"] += f"-{kind}"
            item["spec"]["pool"]["name"] += f"-{kind}"
            found.slices.append(item)
    return found


def resources(rng: random.Random, extended: float) -> Json:
    requests = {}
    if rng.random() < 0.6:
        requests = {"cpu": f"{rng.randint(1, 8) * 250}m", "memory": f"{rng.randint(1, 6) * 256}Mi"}
    limits = {}
    if rng.random() < extended:
        name = rng.choice((GPU, GPU, NIC, "deviceclass.resource.kubernetes.io/nic"))
        limits[name] = str(rng.randint(1, 2))
    return {"requests": {**requests, **limits}, "limits": limits}


def pod(rng: random.Random, name: str, extended: float = 0.5) -> Json:
    """A pod of one to three containers, some of which run first."""
    made = a_pod(name, labels={"app": rng.choice("xy")}, terminationGracePeriodSeconds=0)
    spec = made["spec"]
    spec["containers"] = [
        {"name": f"c{n}", "image": "image", "resources": resources(rng, extended)} for n in range(rng.randint(1, 2))
    ]
    if rng.random() < 0.4:
        spec["initContainers"] = [
            {"name": f"i{n}", "image": "image", "resources": resources(rng, extended),
             **({"restartPolicy": "Always"} if rng.random() < 0.3 else {})}
            for n in range(rng.randint(1, 2))
        ]  # fmt: skip
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "hard", "operator": rng.choice(("Exists", "Equal")), "effect": "NoSchedule"}]
        if spec["tolerations"][0]["operator"] == "Equal":
            spec["tolerations"][0]["value"] = rng.choice("vw")
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"zone": rng.choice("ab")}
    if rng.random() < 0.2:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 81))}]
    return made


def devices_and_resources(rng: random.Random) -> Situation:
    """Pods with extended resources, claims of their own and host ports."""
    found = cluster(rng)
    for number in range(rng.randint(1, 4)):
        one = pod(rng, f"p{number}")
        if rng.random() < 0.35:
            claim = a_claim(f"claim-{number}", count=rng.randint(1, 2))
            found.claims.append(claim)
            one["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": claim["metadata"]["name"]}]
        found.pods.append(one)
    return found
