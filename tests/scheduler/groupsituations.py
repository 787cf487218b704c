"""Generated situations with pod groups: gangs that fit, do not fit or are too few, with and without devices."""

from __future__ import annotations

import random

from apiserver.api.objects import Json
from tests.scheduler.situations import DRIVERS, Situation, device_class, priority_class
from tests.support.objects import make_claim, make_node, make_pod, make_pod_group, make_slice

#: The feature gates that these situations need.
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
PREEMPTION = f"{GATES},WorkloadAwarePreemption=true"
RACK = "example.com/rack"


def pod_group(name: str, minimum: int, rack: bool) -> Json:
    return make_pod_group(name, minimum, **({"schedulingConstraints": {"topology": [{"key": RACK}]}} if rack else {}))


def gangs(rng: random.Random) -> Situation:
    """Generate groups that come after their pods, so that all pods of a group are tried together."""
    found = Situation()
    found.classes = [device_class("gpu", None)]
    for number in range(rng.randint(2, 4)):
        labels = {RACK: rng.choice("ab")} if rng.random() < 0.9 else {}
        name = f"n{number}"
        found.nodes.append(
            make_node(name, cpu=str(2 + 2 * number), memory=f"{5 + 3 * number}Gi", labels=labels, taints=[])
        )
        found.slices.append(make_slice(name, rng.randint(0, 2), DRIVERS["gpu"]))
    for position in range(rng.randint(1, 3)):
        name = f"g{position}"
        count = rng.randint(1, 4)
        minimum = rng.choice((0, max(1, count - 1), count, count, count + 1))
        cpu = f"{rng.randint(2, 7) * 250}m"
        shared = rng.random() < 0.3
        claim = make_claim(f"claim-{name}")
        with_claim = rng.random() < 0.4
        for number in range(count):
            own = make_pod(f"{name}-{number}", requests={"cpu": cpu, "memory": "300Mi"}, terminationGracePeriodSeconds=0,
                        schedulingGroup={"podGroupName": name})  # fmt: skip
            if with_claim:
                mine = claim if shared else make_claim(f"claim-{name}-{number}")
                if mine["metadata"]["name"] not in [item["metadata"]["name"] for item in found.claims]:
                    found.claims.append(mine)
                own["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": mine["metadata"]["name"]}]
            found.pods.append(own)
        # The group comes after its pods.
        found.pods.append(pod_group(name, minimum, rng.random() < 0.4))
    return found


def crowded(rng: random.Random) -> Situation:
    """Generate groups that need preemption. All possible victims have distinct priorities, so that the choice is unique."""
    found = Situation()
    sizes = rng.sample((3, 5, 7), rng.randint(2, 3))
    for number, size in enumerate(sizes):
        labels = {RACK: rng.choice("ab")}
        found.nodes.append(make_node(f"n{number}", cpu=str(size), memory=f"{3 * size}Gi", labels=labels, taints=[]))
    found.others = [priority_class(f"p{value}", value) for value in range(1, 13)]
    found.others += [priority_class("never", 50, "Never"), priority_class("high", 100)]
    values = list(range(1, 13))
    rng.shuffle(values)
    for name, mode in (("whole", "PodGroup"), ("parts", "Pod")):
        group = pod_group(name, 0, rack=False)
        group["spec"] |= {"priorityClassName": f"p{values.pop()}", "disruptionMode": mode}
        found.others.append(group)
    for number, size in enumerate(sizes):
        for count in range(min(len(values), rng.randint(1, size))):
            group_name = rng.choice(("", "", "whole", "parts"))
            member: Json = {"schedulingGroup": {"podGroupName": group_name}} if group_name else {}
            found.others.append(
                make_pod(f"low{number}-{count}", requests={"cpu": "1"}, nodeName=f"n{number}", **member,
                      priorityClassName=f"p{values.pop()}", terminationGracePeriodSeconds=0)
            )  # fmt: skip
    for position in range(rng.randint(1, 2)):
        name = f"g{position}"
        count = rng.randint(1, 4)
        class_name = rng.choice(("high", "high", "high", "never", "p6"))
        # All pods are alike, so that how many fit does not depend on their order.
        cpu = str(rng.randint(1, 3))
        for number in range(count):
            found.pods.append(
                make_pod(f"{name}-{number}", requests={"cpu": cpu}, terminationGracePeriodSeconds=0,
                      priorityClassName=class_name, schedulingGroup={"podGroupName": name})
            )  # fmt: skip
        minimum = rng.choice((0, 1) if count == 1 else (count,))
        group = pod_group(name, minimum, rng.random() < 0.2)
        group["spec"]["priorityClassName"] = class_name
        found.pods.append(group)
    return found
