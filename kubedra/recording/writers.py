"""Tell the control plane's own writes from those of users, by field manager, user, user agent and owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubedra.runtime.objects import Json

__all__ = ["changed_managers", "is_generated", "is_hardware", "is_own_manager", "is_own_request"]

#: Field managers and the first words of user agents of the control plane.
_COMPONENTS: Final = frozenset(
    {
        "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "leader-election",
        "ResourceClaimController", "kubernetes-service-cidr-controller", "openshift-controller-manager",
        "kubedra-import", "kubedra-wait",
    }
)  # fmt: skip
_USERS: Final = ("system:kube-", "system:serviceaccount:kube-system:", "system:node:", "system:apiserver")
#: Kinds that only the control plane writes.
_GENERATED: Final = frozenset(
    {"Event", "Lease", "LeaseCandidate", "Endpoints", "EndpointSlice", "ControllerRevision", "IPAddress",
     "VolumeAttachment", "CertificateSigningRequest", "PodCertificateRequest", "FlowSchema",
     "PriorityLevelConfiguration", "APIService", "ComponentStatus"}
)  # fmt: skip
#: Kinds that kubelets and drivers write. They are the hardware, which a replay has to bring.
_HARDWARE: Final = frozenset({"Node", "ResourceSlice", "CSINode", "CSIStorageCapacity"})
#: Groups whose objects the control plane's own controllers own.
_OWNER_GROUPS: Final = frozenset({"", "apps", "batch", "resource.k8s.io", "scheduling.k8s.io", "discovery.k8s.io"})


def is_own_manager(manager: str) -> bool:
    return manager in _COMPONENTS


def is_own_request(user: str, agent: str) -> bool:
    """Return whether a request is the control plane's. Users with any rights run components in small clusters."""
    if agent.split("/", 1)[0].split(" ", 1)[0] in _COMPONENTS:
        return True
    return user.startswith(_USERS)


def is_hardware(kind: str) -> bool:
    return kind in _HARDWARE


def is_generated(obj: Json) -> bool:
    """Return whether the control plane creates an object, by its kind, its controller or its managers."""
    kind, metadata = obj["kind"], obj["metadata"]
    if kind in _GENERATED:
        return True
    if kind in _HARDWARE:
        return False
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller") and owner["apiVersion"].rpartition("/")[0] in _OWNER_GROUPS:
            return True
    managers = [entry.get("manager", "") for entry in metadata.get("managedFields") or ()]
    return bool(managers) and all(map(is_own_manager, managers))


def changed_managers(old: Json, new: Json) -> Iterator[tuple[str, str]]:
    """Yield manager and subresource of the writes between two states of an object."""
    before = {_name(entry): entry for entry in old["metadata"].get("managedFields") or ()}
    for entry in new["metadata"].get("managedFields") or ():
        if before.get(_name(entry)) != entry:
            yield entry.get("manager", ""), entry.get("subresource", "")


def _name(entry: Json) -> tuple[Any, ...]:
    return entry.get("manager"), entry.get("operation"), entry.get("subresource"), entry.get("apiVersion")
