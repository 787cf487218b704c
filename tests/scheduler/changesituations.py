"""Generated situations in which pods wait and the cluster changes step by step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from apiserver.api.objects import Json
from controllers.runtime.kinds import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from tests.scheduler.situations import DRIVERS, GPU, Situation, device_class
from tests.scheduler.volumesituations import storage_class, volume, volume_claim
from tests.support.objects import make_claim, make_node, make_pod, make_slice, near

ZONE = "topology.kubernetes.io/zone"
_HARD = {"key": "hard", "value": "v", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Change:
    """One request: create, delete or patch."""

    verb: str
    kind: Kind
    name: str
    body: Json | None = None
    subresource: str = ""


@dataclass
class ChangingSituation:
    """The initial situation, and the changes in their order."""

    situation: Situation = field(default_factory=Situation)
    changes: list[Change] = field(default_factory=list)


def _pod(rng: random.Random, name: str) -> Json:
    """Build a pod that may have to wait."""
    one = make_pod(name, labels={"app": rng.choice("xyz")}, terminationGracePeriodSeconds=0,
                requests={"cpu": f"{rng.choice((1, 1, 2, 3, 10)) * 400}m", "memory": "200Mi"})  # fmt: skip
    spec = one["spec"]
    for kind in rng.sample(("label", "place", "port", "affinity", "level", "claim", "extended", "volume", "gate"), 2):
        if kind == "label" and rng.random() < 0.5:
            spec["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
        elif kind == "place" and rng.random() < 0.5:
            spec["nodeSelector"] = {"kubernetes.io/hostname": rng.choice(("n0", "n1", "n2"))}
        elif kind == "port":
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 81))}]
        elif kind == "affinity":
            spec["affinity"] = near(rng.choice("xyz"), rng.choice((ZONE, "kubernetes.io/hostname")), rng.random() < 0.6)
        elif kind == "level":
            labels = {"matchLabels": {"app": one["metadata"]["labels"]["app"]}}
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
            ]
        elif kind == "claim":
            spec["resourceClaims"] = [{"name": "g", "resourceClaimName": f"claim-{rng.randint(0, 3)}"}]
        elif kind == "extended":
            limits = {GPU: str(rng.randint(1, 2))}
            spec["containers"][0]["resources"] |= {"limits": limits}
            spec["containers"][0]["resources"]["requests"] |= limits
        elif kind == "volume":
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": rng.choice(("v0", "v1"))}}]
        elif kind == "gate" and rng.random() < 0.3:
            spec["schedulingGates"] = [{"name": "wait"}]
    return one


def _node(rng: random.Random, number: int) -> Json:
    labels = {ZONE: rng.choice("ab"), "disk": rng.choice(("ssd", "hdd", "none"))}
    taints = [_HARD] if rng.random() < 0.3 else []
    # Different sizes, so that no two nodes score alike.
    return make_node(f"n{number}", cpu=str(2 + number), memory=f"{3 + 3 * number}Gi", labels=labels, taints=taints)


def _claim(rng: random.Random, number: int) -> Json:
    claim = make_claim(f"claim-{number}", count=rng.choice((1, 1, 2)))
    claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = rng.choice(("gpu", "gpu", "nic"))
    return claim


def _slice(rng: random.Random, node: str) -> Json:
    tainted: Json = {"taints": [{"key": "bad", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]}
    return make_slice(node, rng.randint(1, 3), DRIVERS["gpu"], **(tainted if rng.random() < 0.2 else {}))


def _node_change(rng: random.Random) -> Change:
    name = rng.choice(("n0", "n1"))
    kind = rng.choice(("label", "zone", "taint", "taint", "size", "size", "cordon", "annotation"))
    match kind:
        case "label":
            return Change("patch", NODES, name, {"metadata": {"labels": {"disk": rng.choice(("ssd", "hdd"))}}})
        case "zone":
            return Change("patch", NODES, name, {"metadata": {"labels": {ZONE: rng.choice(("a", "b", "c", None))}}})
        case "taint":
            return Change("patch", NODES, name, {"spec": {"taints": rng.choice(([_HARD], None, None))}})
        case "size":
            size = {"cpu": str(rng.randint(1, 8))}
            return Change("patch", NODES, name, {"status": {"allocatable": size, "capacity": size}}, "status")
        case "cordon":
            return Change("patch", NODES, name, {"spec": {"unschedulable": rng.random() < 0.5}})
    return Change("patch", NODES, name, {"metadata": {"annotations": {"seen": str(rng.random())}}})


def _pod_change(rng: random.Random, pods: list[Json], fresh: str) -> Change:
    name = rng.choice(pods)["metadata"]["name"]
    match rng.choice(("delete", "delete", "label", "tolerate", "open", "create", "finish")):
        case "label":
            return Change("patch", PODS, name, {"metadata": {"labels": {"app": rng.choice("xyz")}}})
        case "tolerate":
            added = [{"key": "hard", "operator": "Exists"}, *_DEFAULT_TOLERATIONS]
            return Change("patch", PODS, name, {"spec": {"tolerations": added}})
        case "open":
            return Change("patch", PODS, name, {"spec": {"schedulingGates": None}})
        case "create":
            return Change("create", PODS, fresh, _pod(rng, fresh))
        case "finish":
            return Change("patch", PODS, name, {"status": {"phase": "Succeeded"}}, "status")
    return Change("delete", PODS, name)


#: The tolerations that admission adds to every pod.
_DEFAULT_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def _device_change(rng: random.Random) -> Change:
    node = rng.choice(("n0", "n1"))
    match rng.choice(("slice", "slice", "devices", "no slice", "claim", "no claim", "class", "no class")):
        case "slice":
            item = _slice(rng, node)
            return Change("create", RESOURCE_SLICES, item["metadata"]["name"], item)
        case "devices":
            item = _slice(rng, node)
            return Change("patch", RESOURCE_SLICES, item["metadata"]["name"], {"spec": item["spec"]})
        case "no slice":
            return Change("delete", RESOURCE_SLICES, f"slice-{node}")
        case "claim":
            claim = _claim(rng, rng.randint(0, 3))
            return Change("create", RESOURCE_CLAIMS, claim["metadata"]["name"], claim)
        case "no claim":
            return Change("delete", RESOURCE_CLAIMS, f"claim-{rng.randint(0, 3)}")
        case "class":
            made = device_class("nic", None)
            return Change("create", DEVICE_CLASSES, "nic", made)
    return Change("patch", DEVICE_CLASSES, "gpu", {"spec": {"extendedResourceName": rng.choice((GPU, None))}})


def _volume_change(rng: random.Random) -> Change:
    name = rng.choice(("v0", "v1"))
    match rng.choice(("claim", "claim", "volume", "volume", "no claim")):
        case "claim":
            return Change("create", VOLUME_CLAIMS, name, volume_claim(name, "local", rng.randint(1, 2)))
        case "volume":
            size = rng.randint(1, 3)
            made = volume(f"l{size}", size, "local", zone=rng.choice(("a", "b", "")))
            return Change("create", VOLUMES, made["metadata"]["name"], made)
    return Change("delete", VOLUME_CLAIMS, name)


def changes(rng: random.Random) -> ChangingSituation:
    """Generate two nodes, some devices and five pods, then ten changes. The server rejects a few of them."""
    found = ChangingSituation()
    there = found.situation
    there.classes = [device_class("gpu", GPU)]
    there.nodes = [_node(rng, number) for number in range(2)]
    there.slices = [_slice(rng, node["metadata"]["name"]) for node in there.nodes if rng.random() < 0.5]
    there.claims = [_claim(rng, number) for number in range(4) if rng.random() < 0.6]
    there.others = [storage_class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")]
    there.others += [volume_claim(name, "local") for name in ("v0", "v1") if rng.random() < 0.5]
    there.pods = [_pod(rng, f"p{number}") for number in range(5)]
    for number in range(10):
        made = rng.random()
        if made < 0.35:
            found.changes.append(_node_change(rng))
        elif made < 0.6:
            found.changes.append(_pod_change(rng, there.pods, f"new{number}"))
        elif made < 0.85:
            found.changes.append(_device_change(rng))
        elif made < 0.95:
            found.changes.append(_volume_change(rng))
        else:
            found.changes.append(Change("create", NODES, "n2", _node(rng, 2)))
    return found
