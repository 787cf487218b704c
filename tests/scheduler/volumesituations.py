"""Generated situations with volumes: bound ones with topology, claims that wait for a consumer, limits."""

from __future__ import annotations

import random
from typing import Any

from apiserver.api.objects import Json
from tests.scheduler.situations import Situation, priority_class
from tests.support.objects import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
#: The name that our provisioner serves.
EMULATED = "volumes.kubedra.dev"
CSI = "csi.example.com"


def storage_class(name: str, provisioner: str, mode: str, **more: Any) -> Json:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": mode, **more}  # fmt: skip


def volume(
    name: str,
    size: int,
    class_name: str,
    *,
    zone: str = "",
    label: str = "",
    mode: str = "ReadWriteOnce",
    **source: Any,
) -> Json:
    spec: Json = {"capacity": {"storage": f"{size}Gi"}, "accessModes": [mode],
                  "storageClassName": class_name, **(source or {"hostPath": {"path": "/data"}})}  # fmt: skip
    if zone:
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    labels = {"labels": {ZONE: label}} if label else {}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, **labels}, "spec": spec}


def volume_claim(name: str, class_name: str, size: int = 1, **more: Any) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": class_name,
            "resources": {"requests": {"storage": f"{size}Gi"}}, **more}  # fmt: skip
    metadata = {"name": name, "namespace": "ns"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _cluster(rng: random.Random, found: Situation) -> None:
    for number in range(rng.randint(2, 3)):
        labels = {ZONE: rng.choice("ab")} if rng.random() < 0.9 else {}
        node = make_node(f"n{number}", cpu=str(2 + 2 * number), memory=f"{5 + 3 * number}Gi", labels=labels, taints=[])
        found.nodes.append(node)
        if rng.random() < 0.7:
            driver = {"name": CSI, "nodeID": "n", "allocatable": {"count": rng.randint(1, 2)}}
            found.others.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                                 "metadata": {"name": f"n{number}"}, "spec": {"drivers": [driver]}})  # fmt: skip
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": [rng.choice("ab")]}]}]
    where = {"allowedTopologies": topologies} if rng.random() < 0.3 else {}
    waits = "WaitForFirstConsumer"
    found.others += [
        storage_class("local", "kubernetes.io/no-provisioner", waits),
        storage_class("made", EMULATED, waits, **where, parameters={"topologyKey": "kubernetes.io/hostname"}),
        storage_class("now", "external.example.com", "Immediate"),
    ]
    if rng.random() < 0.4:
        found.others.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": EMULATED},
                             "spec": {"storageCapacity": True, "attachRequired": False}})  # fmt: skip
        room = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
                "metadata": {"name": "room", "namespace": "ns"}, "storageClassName": "made",
                "nodeTopology": {"matchLabels": {ZONE: rng.choice("ab")}}, "capacity": f"{rng.randint(1, 4)}Gi"}  # fmt: skip
        found.others.append(room)


def _claim(rng: random.Random, found: Situation, name: str) -> None:
    """Generate a claim, with its volume if it is to be bound before the pods come."""
    kind = rng.choice(("bound", "bound", "csi", "local", "local", "made", "made", "unbound", "missing"))
    if kind in ("bound", "csi"):
        place: Json = {}
        if rng.random() < 0.4:
            place = {rng.choice(("zone", "label")): rng.choice("ab")}
        source: Json = {"csi": {"driver": CSI, "volumeHandle": name}} if kind == "csi" else {}
        mode = "ReadWriteOncePod" if rng.random() < 0.3 else "ReadWriteOnce"
        found.others.append(volume(f"v-{name}", 1, "", mode=mode, **place, **source))
        found.others.append(volume_claim(name, "", volumeName=f"v-{name}", accessModes=[mode]))
    elif kind != "missing":
        class_name = {"unbound": "now"}.get(kind, kind)
        found.others.append(volume_claim(name, class_name, rng.randint(1, 3)))


def volumes_and_claims(rng: random.Random) -> Situation:
    """Generate pods whose claims are bound, waiting, missing, unbound or shared; some pods have disks."""
    found = Situation()
    found.others = [priority_class("low", 1), priority_class("high", 2)]
    _cluster(rng, found)
    sizes = rng.sample(range(1, 9), rng.randint(0, 3))
    found.others += [volume(f"l{size}", size, "local", zone=rng.choice(("a", "b", ""))) for size in sizes]
    names = [f"c{number}" for number in range(rng.randint(2, 4))]
    for name in names:
        _claim(rng, found, name)
    for number in range(rng.randint(3, 6)):
        requests = {"cpu": f"{rng.randint(1, 4) * 300}m", "memory": f"{rng.randint(1, 3) * 300}Mi"}
        one = make_pod(f"p{number}", requests=requests, terminationGracePeriodSeconds=0,
                    priorityClassName=rng.choice(("low", "low", "high")))  # fmt: skip
        chosen = rng.sample(names, rng.choice((0, 1, 1, 2)))
        one["spec"]["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in chosen]
        if rng.random() < 0.2:
            disk = {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:disk", "lun": 0,
                    "readOnly": rng.random() < 0.4}  # fmt: skip
            one["spec"]["volumes"].append({"name": "disk", "iscsi": disk})
        found.pods.append(one)
    return found
