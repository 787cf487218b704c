"""Generated situations: nodes with labels, taints and limits of all sorts, and pods with rules about them."""

from __future__ import annotations

import random

from apiserver.api.objects import Json
from tests.scheduler.situations import Situation, budget, cluster, pod, priority_class
from tests.support.objects import make_claim, make_node, make_pod

_ZONE = "topology.kubernetes.io/zone"
_KEYS = (_ZONE, "disk", "generation", "absent")
_VALUES = {_ZONE: "abc", "disk": ("ssd", "hdd"), "generation": ("1", "7", "30", "old"), "absent": ("x",)}
_EFFECTS = ("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute")


def _node(rng: random.Random, number: int) -> Json:
    labels = {key: rng.choice(_VALUES[key]) for key in _KEYS[:3] if rng.random() < 0.8}
    taints = [
        {"key": key, **({"value": rng.choice("vw")} if rng.random() < 0.6 else {}), "effect": rng.choice(_EFFECTS)}
        for key in ("first", "second")
        if rng.random() < 0.25
    ]
    extra = {"ephemeral-storage": f"{4 + number}Gi"} if rng.random() < 0.7 else {}
    if rng.random() < 0.4:
        extra["hugepages-2Mi"] = f"{rng.randint(1, 3) * 4}Mi"
    if rng.random() < 0.3:
        extra["example.com/licence"] = str(rng.randint(1, 2))
    made = make_node(
        f"n{number}", cpu=str(2 + number), memory=f"{5 + 3 * number}Gi", pods=str(rng.choice((1, 2, 110, 110))),
        labels=labels, taints=taints, extra=extra, images=_images(rng, number),
    )  # fmt: skip
    if rng.random() < 0.15:
        made["spec"]["unschedulable"] = True
    return made


def _images(rng: random.Random, number: int) -> list[Json]:
    names = [name for name in ("image:latest", "registry.example.com/other:v1") if rng.random() < 0.3]
    return [{"names": [name], "sizeBytes": rng.choice((30, 300, 700)) * 2**20 + number} for name in names]


def _expression(rng: random.Random) -> Json:
    key = rng.choice(_KEYS)
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": rng.choice((key, "generation")), "operator": operator, "values": [rng.choice(("5", "20"))]}
    return {"key": key, "operator": operator, "values": rng.sample(list(_VALUES[key]), 1)}


def _term(rng: random.Random) -> Json:
    found: Json = {"matchExpressions": [_expression(rng) for _ in range(rng.randint(1, 2))]}
    if rng.random() < 0.2:
        name = {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": [f"n{rng.randint(0, 3)}"]}
        found["matchFields"] = [name]
        if rng.random() < 0.5:
            del found["matchExpressions"]
    return found


def _node_affinity(rng: random.Random) -> Json:
    found: Json = {}
    if rng.random() < 0.6:
        terms = [_term(rng) for _ in range(rng.randint(1, 2))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if rng.random() < 0.5:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice((1, 30, 100)), "preference": _term(rng)} for _ in range(rng.randint(1, 2))
        ]
    return found


def _pods_term(rng: random.Random, chosen: bool = False) -> Json:
    """Build a term about pods of its own, named or all namespaces, or with `chosen` of those with a label."""
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": [rng.choice("xy")]} if operator in ("In", "NotIn") else {}
    found: Json = {
        "topologyKey": rng.choice((_ZONE, "kubernetes.io/hostname", "disk")),
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": operator, **values}]},
    }
    where = rng.random()
    if chosen and where < 0.4:
        found["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": rng.choice(("ns", "other"))}}
    elif where < 0.4:
        found["namespaceSelector"] = {}
    elif where < 0.5:
        found["namespaces"] = [rng.choice(("ns", "other"))]
    if rng.random() < 0.3:
        found[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    return found


def _pod_affinity(rng: random.Random) -> Json:
    """Build affinity to pods, without two cases in which kube-scheduler misses wake-ups.

    These are required terms that select namespaces by labels, and several required anti-affinity terms
    (docs/data/fidelity/differences.md).
    """
    found: Json = {}
    for kind in rng.sample(("podAffinity", "podAntiAffinity"), rng.choice((1, 1, 2))):
        if rng.random() < 0.6:
            terms = [_pods_term(rng) for _ in range(rng.randint(1, 2) if kind == "podAffinity" else 1)]
            found[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        else:
            weighted = [
                {"weight": rng.choice((5, 60)), "podAffinityTerm": _pods_term(rng, chosen=True)} for _ in range(2)
            ]
            found[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    return found


def _toleration(rng: random.Random) -> Json:
    found: Json = {"operator": rng.choice(("Exists", "Equal"))}
    if found["operator"] == "Equal" or rng.random() < 0.8:
        found["key"] = rng.choice(("first", "second", "node.kubernetes.io/unschedulable"))
    if found["operator"] == "Equal" and rng.random() < 0.7:
        found["value"] = rng.choice("vw")
    if rng.random() < 0.5:
        found["effect"] = rng.choice(_EFFECTS)
    return found


def _port(rng: random.Random) -> Json:
    found: Json = {"containerPort": 80, "hostPort": rng.choice((80, 80, 80, 81))}
    if rng.random() < 0.3:
        found["protocol"] = rng.choice(("TCP", "UDP", "SCTP"))
    if rng.random() < 0.7:
        found["hostIP"] = rng.choice(("0.0.0.0", "10.0.0.1", "10.0.0.2"))
    return found


def _resources(rng: random.Random) -> Json:
    requests = {"cpu": f"{rng.randint(1, 5) * 190}m", "memory": f"{rng.randint(1, 4) * 170}Mi"}
    limits = {}
    if rng.random() < 0.2:
        requests["ephemeral-storage"] = f"{rng.randint(1, 3)}Gi"
    for name, amount in (("hugepages-2Mi", "4Mi"), ("example.com/licence", "1")):
        if rng.random() < 0.15:
            requests[name] = limits[name] = amount
    return {"requests": requests, "limits": limits}


def _pod(rng: random.Random, number: int) -> Json:
    labels = {"app": rng.choice("xy"), **({"tier": rng.choice("12")} if rng.random() < 0.6 else {})}
    made = make_pod(f"p{number}", labels=labels, terminationGracePeriodSeconds=0,
                 priorityClassName=rng.choice(("low", "low", "high")))  # fmt: skip
    spec = made["spec"]
    spec["containers"][0]["resources"] = _resources(rng)
    if rng.random() < 0.3:
        other = {"name": "other", "image": "registry.example.com/other:v1", "resources": _resources(rng)}
        spec["containers"].append(other)
    if rng.random() < 0.5:
        spec["containers"][0]["ports"] = [_port(rng)]
    if rng.random() < 0.5:
        spec["tolerations"] = [_toleration(rng) for _ in range(rng.randint(1, 2))]
    affinity: Json = _pod_affinity(rng) if rng.random() < 0.3 else {}
    if rng.random() < 0.4 and (chosen := _node_affinity(rng)):
        affinity["nodeAffinity"] = chosen
    if affinity:
        spec["affinity"] = affinity
    if rng.random() < 0.1:
        spec["nodeSelector"] = {"kubernetes.io/hostname": f"n{rng.randint(0, 3)}"}
    return made


def rules_and_limits(rng: random.Random) -> Situation:
    """Generate pods with all operators of selectors and tolerations, host ports and resources of all kinds.

    Some nodes allow few pods, are unschedulable or tainted.
    """
    found = Situation(others=[priority_class("low", 1), priority_class("high", 2)])
    found.nodes = [_node(rng, number) for number in range(rng.randint(2, 4))]
    found.pods = [_pod(rng, number) for number in range(rng.randint(4, 8))]
    return found


def contested(rng: random.Random) -> Situation:
    """Generate pods of three priorities that contend for few devices, ports and nodes. Budgets protect some."""
    found = cluster(rng)
    for node in found.nodes:
        node["status"]["allocatable"]["pods"] = node["status"]["capacity"]["pods"] = str(rng.choice((2, 3, 110)))
    names = ("low", "middle", "high")
    found.others = [priority_class(name, value) for value, name in enumerate(names, 1)]
    found.others += [budget(f"budget-{app}", app, rng.randint(0, 1)) for app in "xy" if rng.random() < 0.5]
    for number in range(rng.randint(4, 8)):
        one = pod(rng, f"p{number}", extended=0.3)
        one["spec"]["priorityClassName"] = rng.choices(names, (5, 2, 1) if number < 4 else (1, 2, 5))[0]
        if rng.random() < 0.35:
            claim = make_claim(f"claim-{number}", count=rng.randint(1, 2))
            found.claims.append(claim)
            one["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": claim["metadata"]["name"]}]
        if rng.random() < 0.2:
            one["spec"]["affinity"] = _pod_affinity(rng)
        found.pods.append(one)
    return found
