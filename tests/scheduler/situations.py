"""Generated situations: a few nodes with devices, and pods that are created one after the other."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from apiserver.api.objects import Json
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice

GPU, NIC = "example.com/gpu", "example.com/nic"
DRIVERS = {"gpu": "gpu.example.com", "nic": "nic.example.com"}


@dataclass
class Situation:
    """The initial objects, and the pods in the order of their creation."""

    nodes: list[Json] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)
    slices: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    others: list[Json] = field(default_factory=list)
    """Services, workload objects, budgets, priority classes, storage."""
    pods: list[Json] = field(default_factory=list)


def device_class(name: str, resource: str | None) -> Json:
    selector = {"cel": {"expression": f"device.driver == '{DRIVERS[name]}'"}}
    return make_device_class(name, selectors=[selector], **({"extendedResourceName": resource} if resource else {}))


def cluster(rng: random.Random) -> Situation:
    """Generate one to three nodes of different sizes with two kinds of devices."""
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
        found.nodes.append(make_node(name, extra=extra, labels=labels, taints=taints, **size))
        for kind, driver in DRIVERS.items():
            item = make_slice(name, rng.randint(0, 3), driver)
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
    """Generate a pod of one or two containers, with or without init containers."""
    made = make_pod(name, labels={"app": rng.choice("xy")}, terminationGracePeriodSeconds=0)
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
    """Generate pods with extended resources, claims of their own and host ports."""
    found = cluster(rng)
    for number in range(rng.randint(1, 4)):
        one = pod(rng, f"p{number}")
        if rng.random() < 0.35:
            claim = make_claim(f"claim-{number}", count=rng.randint(1, 2))
            found.claims.append(claim)
            one["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": claim["metadata"]["name"]}]
        found.pods.append(one)
    return found


def priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Json:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "preemptionPolicy": policy}  # fmt: skip


def budget(name: str, app: str, allowed: int) -> Json:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                       "observedGeneration": 1}}  # fmt: skip


def priorities_and_budgets(rng: random.Random) -> Situation:
    """Generate pods of three priorities that fill the nodes. Budgets protect some."""
    found = Situation()
    names = ("low", "middle", "high")
    found.others = [priority_class(name, value) for value, name in enumerate(names, 1)]
    found.others.append(priority_class("polite", 3, "Never"))
    found.others += [budget(f"budget-{app}", app, rng.randint(0, 1)) for app in "xy" if rng.random() < 0.6]
    for number in range(rng.randint(1, 2)):
        found.nodes.append(make_node(f"n{number}", cpu=str(2 + number), memory=f"{5 + 2 * number}Gi", taints=[]))
    for number in range(rng.randint(3, 7)):
        name = rng.choices(names, (5, 2, 1))[0] if number < 4 else rng.choices(names, (1, 2, 5))[0]
        one = make_pod(
            f"p{number}", labels={"app": rng.choice("xyz")}, requests={"cpu": f"{rng.randint(2, 6) * 250}m"},
            terminationGracePeriodSeconds=0, priorityClassName=name,
        )  # fmt: skip
        if rng.random() < 0.1:
            one["spec"]["priorityClassName"] = "polite"
        found.pods.append(one)
    return found


def make_controller(kind: str, name: str, app: str) -> Json:
    template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    if kind == "ReplicationController":
        spec: Json = {"replicas": 0, "selector": {"app": app}, "template": template}
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": app}}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "s"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def service(name: str, app: str) -> Json:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}}  # fmt: skip


def spread_by_default(rng: random.Random) -> Situation:
    """Generate pods of services and controllers on nodes in two zones. Some nodes have the image."""
    found = Situation()
    for number in range(rng.randint(2, 4)):
        labels = {"topology.kubernetes.io/zone": rng.choice("ab")}
        size = rng.choice((50, 400, 900)) * 2**20
        images = [{"names": ["image:latest"], "sizeBytes": size + number}] if rng.random() < 0.4 else []
        node = make_node(f"n{number}", cpu=str(4 + number), memory=f"{7 + 3 * number}Gi", labels=labels, images=images)
        found.nodes.append({**node, "spec": {"taints": []}})
    kinds = ("ReplicaSet", "StatefulSet", "ReplicationController", "Service", "")
    for app in "xy":
        kind = rng.choice(kinds)
        if kind:
            found.others.append(service("s" + app, app) if kind == "Service" else make_controller(kind, "o" + app, app))
    owners = {item["metadata"]["name"][1]: item for item in found.others if item["kind"] != "Service"}
    for number in range(rng.randint(3, 7)):
        app = rng.choice("xy")
        one = make_pod(f"p{number}", labels={"app": app}, terminationGracePeriodSeconds=0,
                    requests={"cpu": f"{rng.randint(1, 4) * 110}m", "memory": f"{rng.randint(1, 4) * 170}Mi"})  # fmt: skip
        if (owner := owners.get(app)) is not None:
            fields = {key: owner[key] for key in ("apiVersion", "kind")}
            name = owner["metadata"]["name"]
            one["metadata"]["ownerReferences"] = [{**fields, "name": name, "uid": "", "controller": True}]
        found.pods.append(one)
    return found


def _near_or_far(rng: random.Random) -> Json:
    """Build required or preferred affinity, anti-affinity, or both."""
    found: Json = {}
    for kind in rng.sample(("podAffinity", "podAntiAffinity"), rng.choice((1, 1, 2))):
        key = rng.choice(("topology.kubernetes.io/zone", "kubernetes.io/hostname"))
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": rng.choice("xyz")}}}
        if rng.random() < 0.5:
            found[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        else:
            weighted = {"weight": rng.choice((1, 10, 100)), "podAffinityTerm": term}
            found[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    return found


def _spread(rng: random.Random) -> Json:
    action = rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
    found: Json = {
        "maxSkew": rng.randint(1, 2),
        "topologyKey": rng.choice(("topology.kubernetes.io/zone", "kubernetes.io/hostname")),
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": rng.choice("xy")}},
    }
    if rng.random() < 0.3:
        found["nodeTaintsPolicy"] = "Honor"
    if rng.random() < 0.2:
        found["nodeAffinityPolicy"] = "Ignore"
    if action == "DoNotSchedule" and rng.random() < 0.3:
        found["minDomains"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        found["matchLabelKeys"] = ["tier"]
    return found


def neighbours(rng: random.Random) -> Situation:
    """Generate pods with affinity, anti-affinity and spread constraints on nodes in zones. Some may preempt."""
    found = Situation()
    found.others = [priority_class("low", 1), priority_class("high", 2)]
    for number in range(rng.randint(2, 4)):
        labels = {"topology.kubernetes.io/zone": rng.choice("abc")} if rng.random() < 0.9 else {}
        labels["disk"] = rng.choice(("ssd", "hdd"))
        taints = [{"key": "hard", "value": "v", "effect": "NoSchedule"}] if rng.random() < 0.15 else []
        if rng.random() < 0.3:
            taints.append({"key": "soft", "effect": "PreferNoSchedule"})
        node = make_node(f"n{number}", cpu=str(2 + number), memory=f"{7 + 3 * number}Gi", labels=labels, taints=taints)
        found.nodes.append(node)
    for number in range(rng.randint(4, 8)):
        labels = {"app": rng.choice("xy"), **({"tier": rng.choice("12")} if rng.random() < 0.5 else {})}
        requests = {"cpu": f"{rng.randint(1, 5) * 210}m", "memory": f"{rng.randint(1, 4) * 170}Mi"}
        one = make_pod(f"p{number}", labels=labels, requests=requests, terminationGracePeriodSeconds=0,
                    priorityClassName=rng.choice(("low", "low", "high")))  # fmt: skip
        affinity: Json = _near_or_far(rng) if rng.random() < 0.5 else {}
        if rng.random() < 0.3:
            chosen = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [rng.choice(("ssd", "hdd"))]}]}
            affinity["nodeAffinity"] = (
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [chosen]}}
                if rng.random() < 0.4
                else {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": chosen}]}
            )
        if affinity:
            one["spec"]["affinity"] = affinity
        if rng.random() < 0.4:
            one["spec"]["topologySpreadConstraints"] = [_spread(rng)]
        if rng.random() < 0.3:
            one["spec"]["tolerations"] = [{"key": rng.choice(("hard", "soft")), "operator": "Exists"}]
        found.pods.append(one)
    return found
