"""Explored tests of our own components: what holds after every write, and what the cluster ends with.

The suite tries few schedules; `--kubedra-explore=20000` tries more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kubedra import LoopControlPlane
from kubedra.client.client import Json

pytestmark = pytest.mark.slow

CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
}
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": REQUEST},
}


def claim(name: str) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": REQUEST}


def pod_spec(**claims: str) -> Json:
    """Return a pod's spec with one claim: `template` or `claim` names it."""
    (kind, name) = next(iter(claims.items()))
    source = {"resourceClaimTemplateName": name} if kind == "template" else {"resourceClaimName": name}
    return {
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", **source}],
        "terminationGracePeriodSeconds": 1,
    }


def pod(name: str, **claims: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(**claims)}


def no_device_twice(kube: LoopControlPlane) -> None:
    """Check that no device is allocated to two claims."""
    found: Counter[tuple[str, ...]] = Counter()
    for each in kube.objects("resourceclaims"):
        for result in ((each.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ()):
            found[result["driver"], result["pool"], result["device"]] += 1
    twice = [device for device, times in found.items() if times > 1]
    assert not twice, f"allocated twice: {twice}"


def running_with_claims(kube: LoopControlPlane) -> None:
    """Check that the claims of each running pod are allocated and reserved for it.

    As upstream, a scheduler whose binding took effect although it failed gives the reservation back, and the claim
    controller makes it again.
    """
    if any(each.action == "lost" and "pods.binding" in each.point for each in kube.deviations):
        return
    claims = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each for each in kube.objects("resourceclaims")
    }
    for each in kube.objects("pods"):
        meta, status = each["metadata"], each.get("status", {})
        if status.get("phase") != "Running" or meta.get("deletionTimestamp"):
            continue
        names = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
        for entry in each["spec"].get("resourceClaims") or ():
            name = entry.get("resourceClaimName") or names.get(entry["name"])
            held = claims.get((meta["namespace"], name or ""), {}).get("status") or {}
            users = {user["uid"] for user in held.get("reservedFor") or ()}
            assert held.get("allocation"), f"pod {meta['name']} runs, but its claim {name} is not allocated"
            assert meta["uid"] in users, f"pod {meta['name']} runs, but its claim {name} is not reserved for it"


async def prepare(kube: LoopControlPlane, *, nodes: int = 2, devices: int = 2) -> None:
    kube.always(no_device_twice)
    kube.always(running_with_claims)
    await kube.create(CLASS)
    await kube.create(TEMPLATE)
    for number in range(nodes):
        await kube.add_node(f"node-{number}", devices=devices)


async def gone(kube: LoopControlPlane, *words: str, seconds: int = 900) -> None:
    """Wait until no object of these resources is left."""
    for _ in range(seconds):
        if not any(kube.objects(word) for word in words):
            return
        await kube.advance(seconds=1)
    left = {word: [each["metadata"]["name"] for each in kube.objects(word)] for word in words}
    raise AssertionError(f"not deleted after {seconds} s: {left}")


async def until(kube: LoopControlPlane, word: str, names: set[str], phase: str, seconds: int = 900) -> None:
    """Wait until the objects of a resource are these, all in a phase."""
    for _ in range(seconds):
        found = {each["metadata"]["name"]: each.get("status", {}).get("phase") for each in kube.objects(word)}
        if found == dict.fromkeys(names, phase):
            return
        await kube.advance(seconds=1)
    raise AssertionError(f"{word} after {seconds} s: {found}")


@pytest.mark.kube(explore=4, explore_components=True)
async def test_pods_get_devices_and_return_them(kube: LoopControlPlane) -> None:
    await prepare(kube)
    await kube.create(claim("shared"))
    for name in ("a", "b", "c"):
        await kube.create(pod(name, template="one-gpu"))
    for name in ("d", "e"):
        await kube.create(pod(name, claim="shared"))
    await kube.create(pod("waits", template="one-gpu"))
    await kube.advance(seconds=30)
    for name in ("a", "d"):
        await kube.delete(f"pod/{name}")
    await until(kube, "pods", {"b", "c", "e", "waits"}, "Running")
    for name in ("b", "c", "e", "waits"):
        await kube.delete(f"pod/{name}")
    await gone(kube, "pods")
    await kube.delete("resourceclaim/shared")
    await gone(kube, "resourceclaims")


def workload(kind: str, name: str, replicas: int, image: str = "i", **more: Any) -> Json:
    labels = {"app": name}
    spec: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": image}], "terminationGracePeriodSeconds": 1},
        },
        **more,
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def at_most(kind: str, owner: str, most: int) -> Callable[[LoopControlPlane], None]:
    """Return a check: never more than so many pods of an owner that are not ending."""

    def check(kube: LoopControlPlane) -> None:
        names = [
            each["metadata"]["name"]
            for each in kube.objects("pods")
            if each["metadata"].get("labels", {}).get("app") == owner
            and not each["metadata"].get("deletionTimestamp")
            and each.get("status", {}).get("phase") in ("Pending", "Running")
        ]
        assert len(names) <= most, f"{kind} {owner} has more than {most} pods: {sorted(names)}"

    return check


@pytest.mark.kube(explore=4, explore_components=True)
async def test_workloads_reach_what_they_ask_for(kube: LoopControlPlane) -> None:
    await kube.add_node("node-0")
    kube.always(at_most("Deployment", "web", 4))
    kube.always(at_most("StatefulSet", "db", 2))
    await kube.create(workload("Deployment", "web", 3))
    await kube.create(workload("StatefulSet", "db", 2, serviceName="db"))
    await kube.advance(seconds=5)
    await kube.patch("deployment/web", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}})
    await kube.wait("deployment/web", is_rolled_out)
    await kube.wait("statefulset/db", lambda found: found["status"].get("readyReplicas") == 2)
    await kube.delete("deployment/web")
    await kube.delete("statefulset/db")
    await gone(kube, "deployments", "replicasets", "statefulsets", "pods")


def is_rolled_out(found: Json) -> bool:
    status = found.get("status", {})
    counts = [status.get(key) for key in ("replicas", "updatedReplicas", "readyReplicas")]
    return counts == [3, 3, 3] and status.get("observedGeneration") == found["metadata"]["generation"]


@pytest.mark.kube(explore=4, explore_components=True)
async def test_jobs_run_each_index_and_namespaces_go(kube: LoopControlPlane) -> None:
    await prepare(kube, nodes=1)
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "completions": 3,
            "parallelism": 2,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": {"kubedra.dev/exit-after": "2"}},
                "spec": {**pod_spec(template="one-gpu"), "restartPolicy": "Never"},
            },
        },
    }
    await kube.create({**TEMPLATE, "metadata": {"name": "one-gpu", "namespace": "team"}})
    await kube.create({**job, "metadata": {"name": "train", "namespace": "team"}})
    done = await kube.wait("job/train", "condition=Complete", namespace="team", timeout=1200)
    assert done["status"]["succeeded"] == 3
    assert done["status"]["completedIndexes"] == "0-2"
    await kube.delete("namespace/team")
    await gone(kube, "pods", "jobs", "resourceclaims")
    await kube.wait("namespace/team", "delete")
