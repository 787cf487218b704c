"""Generated lives of budgets, autoscalers, services, volumes, nodes, owners, namespaces, certificates and addresses.

A life is several steps of requests. The same seed gives the same life. The names of cluster-scoped objects end with the
number of the life.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from apiserver.api.objects import Json
from controllers.runtime.kinds import (
    AUTOSCALERS,
    CONFIG_MAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    IP_ADDRESSES,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_CIDRS,
    SIGNING_REQUESTS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from tests.controllers.lifewriter import Act, Writer, container
from tests.controllers.servicelives import autoscaler, budget, cron, quota, service
from tests.controllers.signingrequests import request_of


@dataclass(frozen=True, slots=True)
class ClusterLife:
    topic: str
    namespace: str
    steps: tuple[tuple[Act, ...], ...]
    kinds: tuple[Kind, ...]
    #: Whether something happens only as a minute begins.
    waits: bool = False


def cluster_life(topic: str, number: int, seed: int) -> ClusterLife:
    write = Writer(random.Random(f"{topic} {seed}"), number)
    tell, kinds, waits = TOPICS[topic]
    tell(write)
    return ClusterLife(topic, write.namespace, tuple(map(tuple, write.steps)), kinds, waits)


def _volume(write: Writer) -> None:
    choice = write.choice
    for number in range(choice.randint(1, 3)):
        spec: Json = {
            "capacity": {"storage": f"{number + 1}Gi"},
            "accessModes": choice.choice((["ReadWriteOnce"], ["ReadWriteMany", "ReadWriteOnce"], ["ReadOnlyMany"])),
            "persistentVolumeReclaimPolicy": choice.choice(("Retain", "Delete")),
            "storageClassName": f"s{write.number}", "volumeMode": choice.choice(("Filesystem", "Filesystem", "Block")),
            "csi": {"driver": "csi.example.com", "volumeHandle": f"h{number}"},
        }  # fmt: skip
        if write.maybe(0.2):
            spec["claimRef"] = {"namespace": write.namespace, "name": choice.choice(("a", "b"))}
        write.create(VOLUMES, f"v{number}", {"spec": spec}, labels=choice.choice((None, {"kind": "fast"})))
    if write.maybe(0.4):
        mode = choice.choice(("Immediate", "WaitForFirstConsumer"))
        write.create(STORAGE_CLASSES, "c", {"provisioner": "csi.example.com", "volumeBindingMode": mode})
    for name in ("a", "b")[: choice.randint(1, 2)]:
        spec = {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": choice.choice(("1Gi", "2Gi"))}},
            "storageClassName": choice.choice((f"s{write.number}", f"s{write.number}", f"c-l{write.number}", "")),
        }  # fmt: skip
        if write.maybe(0.2):
            spec["selector"] = {"matchLabels": {"kind": "fast"}}
        if write.maybe(0.2):
            spec["volumeName"] = f"v{choice.randint(0, 2)}-l{write.number}"
        if write.maybe(0.15):
            spec["volumeMode"] = "Block"
        write.step()
        write.create(VOLUME_CLAIMS, name, {"spec": spec})
    for _ in range(3):
        write.step()
        match choice.randint(0, 5):
            case 0 | 1:
                write.act("delete", VOLUME_CLAIMS, choice.choice(("a", "b")))
            case 2:
                write.act("delete", VOLUMES, f"v{choice.randint(0, 2)}")
            case 3:
                reclaim = choice.choice(("Retain", "Delete"))
                write.act("patch", VOLUMES, "v0", {"spec": {"persistentVolumeReclaimPolicy": reclaim}})
            case 4:
                write.act("patch", VOLUMES, "v0", {"spec": {"claimRef": None}})
            case _:
                spec = {"containers": [container()],
                        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "a"}}]}  # fmt: skip
                write.create(PODS, f"p{len(write.steps)}", {"spec": spec})


def _node(write: Writer) -> None:
    choice = write.choice
    name = write.named(NODES, "node")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m"}
    write.create(NODES, "node", labels=choice.choice((None, {"topology.kubernetes.io/zone": f"z{write.number}"})))
    write.act("status", NODES, "node", {"status": {"conditions": [ready]}})
    lease = {"holderIdentity": name, "leaseDurationSeconds": 3600, "renewTime": "2100-01-01T00:00:00.000000Z"}
    body = {"metadata": {"name": name}, "spec": lease}
    if write.maybe(0.8):
        write.act("create", LEASES, name, body, "kube-node-lease")
    for number in range(choice.randint(0, 3)):
        key = choice.choice(("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "team", ""))
        tolerations: list[Json] = (
            [{"key": key, "operator": "Exists", "effect": "NoExecute"}] if write.maybe(0.6) else []
        )
        if tolerations and write.maybe(0.5):
            tolerations[0]["tolerationSeconds"] = choice.choice((0, 1, 1000))
        spec = {"containers": [container()], "nodeName": name, "tolerations": tolerations}
        write.create(PODS, f"p{number}", {"spec": spec})
        status: Json = {"phase": choice.choice(("Running", "Pending", "Succeeded")),
                        "conditions": [{"type": "Ready", "status": "True"}]}  # fmt: skip
        write.act("status", PODS, f"p{number}", {"status": status})
    for _ in range(3):
        write.step()
        match choice.randint(0, 6):
            case 0:
                changed = {**ready, "status": choice.choice(("False", "Unknown", "True"))}
                write.act("status", NODES, "node", {"status": {"conditions": [changed]}})
            case 1:
                pressure = {"type": choice.choice(("MemoryPressure", "DiskPressure", "PIDPressure")), "status": "True"}
                write.act("status", NODES, "node", {"status": {"conditions": [ready, pressure]}})
            case 2 | 3:
                taint = {"key": "team", "value": "a", "effect": choice.choice(("NoExecute", "NoSchedule"))}
                write.act("patch", NODES, "node", {"spec": {"taints": [taint]}})
            case 4:
                write.act("patch", NODES, "node", {"spec": {"unschedulable": write.maybe(0.7)}})
            case 5:
                write.act("delete", NODES, "node")
            case _:
                write.act("patch", NODES, "node", {"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "x"}}})


def _owners(write: Writer) -> None:
    """Write owners and dependents. An owner's uid is a placeholder, which the player replaces."""
    choice = write.choice
    names = [f"o{number}" for number in range(4)]
    write.create(CONFIG_MAPS, names[0])
    for number, name in enumerate(names[1:], 1):
        write.step()
        owners = []
        for owner in choice.sample(names[:number], choice.randint(1, min(2, number))):
            ref: Json = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": f"uid of {owner}"}
            if write.maybe(0.5):
                ref["blockOwnerDeletion"] = True
            match choice.randint(0, 9):
                case 0:
                    ref["uid"] = f"no-such-uid-{write.number}"
                case 1:
                    ref["kind"] = "Secret"
                case 2:
                    ref["kind"], ref["apiVersion"] = "Foo", "none.example.com/v1"
            owners.append(ref)
        finalizers = ["example.com/keep"] if write.maybe(0.2) else None
        write.create(choice.choice((CONFIG_MAPS, CONFIG_MAPS, SECRETS)) if number == 3 else CONFIG_MAPS, name,
                     ownerReferences=owners, finalizers=finalizers)  # fmt: skip
    for _ in range(3):
        write.step()
        name = choice.choice(names[:3])
        if write.maybe(0.7):
            policy = choice.choice(("Foreground", "Background", "Orphan"))
            write.act("delete", CONFIG_MAPS, name, {"propagationPolicy": policy})
        else:
            change = choice.choice(({"finalizers": None}, {"ownerReferences": None}))
            write.act("patch", CONFIG_MAPS, name, {"metadata": change})


def _namespace(write: Writer) -> None:
    choice = write.choice
    for number in range(choice.randint(1, 3)):
        kind = choice.choice((CONFIG_MAPS, SECRETS))
        finalizers = [choice.choice(("example.com/a", "example.com/b"))] if write.maybe(0.5) else None
        write.create(kind, f"c{number}", finalizers=finalizers)
    for number in range(choice.randint(0, 2)):
        write.create(PODS, f"p{number}", {"spec": {"containers": [container()]}},
                     finalizers=["example.com/p"] if write.maybe(0.4) else None)  # fmt: skip
    if write.maybe(0.4):
        quota = {"hard": {"pods": "5", "configmaps": "10", "requests.cpu": "1"}}
        write.create(RESOURCE_QUOTAS, "q", {"spec": quota})
    write.step()
    write.steps[-1].append(Act("delete", NAMESPACES, write.namespace))
    for kind in (CONFIG_MAPS, SECRETS, PODS):
        write.step()
        for number in range(3):
            write.act("patch", kind, f"{'p' if kind == PODS else 'c'}{number}", {"metadata": {"finalizers": None}})


def _certificate(write: Writer) -> None:
    choice = write.choice
    signer, subject, usages = choice.choice((
        ("kubernetes.io/kube-apiserver-client", "u", ["client auth"]),
        ("kubernetes.io/kube-apiserver-client", "u", ["server auth"]),
        ("kubernetes.io/kube-apiserver-client", "masters", ["client auth"]),
        ("kubernetes.io/kube-apiserver-client-kubelet", "node", ["client auth", "digital signature"]),
        ("kubernetes.io/kube-apiserver-client-kubelet", "u", ["client auth", "digital signature"]),
        ("kubernetes.io/kubelet-serving", "serving", ["server auth", "digital signature"]),
        ("kubernetes.io/kubelet-serving", "node", ["server auth", "digital signature"]),
        ("kubernetes.io/legacy-unknown", "u", ["server auth"]),
        ("example.com/other", "u", ["client auth"]),
    ))  # fmt: skip
    spec: Json = {"request": request_of(subject), "signerName": signer, "usages": usages}
    if write.maybe(0.3):
        spec["expirationSeconds"] = choice.choice((600, 86400))
    write.create(SIGNING_REQUESTS, "r", {"spec": spec})
    write.step()
    if write.maybe(0.8):
        kind = choice.choice(("Approved", "Approved", "Approved", "Denied"))
        condition = {"type": kind, "status": "True", "reason": "ByHand", "message": "m"}
        write.act("approval", SIGNING_REQUESTS, "r", {"status": {"conditions": [condition]}})
    write.step()
    if write.maybe(0.3):
        write.act("delete", SIGNING_REQUESTS, "r")


def _range(write: Writer) -> None:
    choice, third = write.choice, write.number % 250
    write.create(SERVICE_CIDRS, "s", {"spec": {"cidrs": [f"10.77.{third}.0/24"]}})
    if write.maybe(0.3):
        write.create(SERVICE_CIDRS, "t", {"spec": {"cidrs": [f"10.77.{third}.0/25"]}})
    address = f"10.77.{third}.{choice.choice((7, 200))}"
    ref = {"group": "", "resource": "services", "name": "x", "namespace": write.namespace}
    used = write.maybe(0.6)
    if used:
        write.step()
        labels = {"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "x"}
        metadata = {"name": address, "labels": labels}
        write.steps[-1].append(Act("create", IP_ADDRESSES, address, {"metadata": metadata, "spec": {"parentRef": ref}}))
    write.step()
    write.act("delete", SERVICE_CIDRS, "s")
    write.step()
    if used:
        write.steps[-1].append(Act("delete", IP_ADDRESSES, address))


Tell = Callable[[Writer], None]
TOPICS: dict[str, tuple[Tell, tuple[Kind, ...], bool]] = {
    "budget": (budget, (DISRUPTION_BUDGETS,), False),
    "autoscaler": (autoscaler, (AUTOSCALERS, DEPLOYMENTS), False),
    "service": (service, (ENDPOINTS, ENDPOINT_SLICES), False),
    "volume": (_volume, (VOLUMES, VOLUME_CLAIMS), False),
    "node": (_node, (NODES, PODS), False),
    "owners": (_owners, (CONFIG_MAPS, SECRETS), False),
    "namespace": (_namespace, (NAMESPACES, CONFIG_MAPS, SECRETS, PODS), False),
    "certificate": (_certificate, (SIGNING_REQUESTS,), False),
    "range": (_range, (SERVICE_CIDRS, IP_ADDRESSES), False),
    "cron": (cron, (CRON_JOBS, JOBS), True),
    "quota": (quota, (RESOURCE_QUOTAS, REPLICA_SETS), False),
}
