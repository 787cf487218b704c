"""The checks that the level restricted adds to baseline: pod hardening."""

from __future__ import annotations

from typing import Final

from apiserver.admission.podsecurity import baseline
from apiserver.admission.podsecurity.subjects import Finding, PodToCheck, count, named, quoted, setters

__all__ = [
    "allow_privilege_escalation",
    "capabilities",
    "run_as_non_root",
    "run_as_user",
    "seccomp",
    "volumes",
]

_VOLUMES: Final = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    }
)  # fmt: skip
#: Other volume sources. The first is reported.
_OTHER_VOLUMES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def allow_privilege_escalation(pod: PodToCheck) -> Finding | None:
    names = [name for name, _, security in pod.containers() if security.get("allowPrivilegeEscalation") is not False]
    if not names:
        return None
    text = f"{named('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", text)


def capabilities(pod: PodToCheck) -> Finding | None:
    bad: set[str] = set()
    keeping, adding = [], []
    for name, _, security in pod.containers():
        given = security.get("capabilities") or {}
        if "ALL" not in (given.get("drop") or ()):
            keeping.append(name)
        more = set(given.get("add") or ()) - {"NET_BIND_SERVICE"}
        if more:
            bad |= more
            adding.append(name)
    details = []
    if keeping:
        details.append(f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        text = f"must not include {quoted(sorted(bad))} in securityContext.capabilities.add"
        details.append(f"{named('container', adding)} {text}")
    return Finding("unrestricted capabilities", "; ".join(details)) if details else None


def volumes(pod: PodToCheck) -> Finding | None:
    wrong = [
        volume
        for volume in pod.spec.get("volumes") or ()
        if not any(volume.get(source) is not None for source in _VOLUMES)
    ]
    if not wrong:
        return None
    kinds = {
        next((source for source in _OTHER_VOLUMES if volume.get(source) is not None), "unknown") for volume in wrong
    }
    use = "uses" if len(wrong) == 1 else "use"
    what = count("restricted volume type", len(kinds))
    text = f"{named('volume', [volume['name'] for volume in wrong])} {use} {what} {quoted(sorted(kinds))}"
    return Finding("restricted volume types", text)


def run_as_non_root(pod: PodToCheck) -> Finding | None:
    found = setters(pod, lambda security: security.get("runAsNonRoot") is False)
    if found:
        text = f"{' and '.join(found)} must not set securityContext.runAsNonRoot=false"
        return Finding("runAsNonRoot != true", text)
    if pod.security.get("runAsNonRoot"):
        return None
    names = [name for name, _, security in pod.containers() if security.get("runAsNonRoot") is None]
    if not names:
        return None
    text = f"pod or {named('container', names)} must set securityContext.runAsNonRoot=true"
    return Finding("runAsNonRoot != true", text)


def run_as_user(pod: PodToCheck) -> Finding | None:
    found = setters(pod, lambda security: security.get("runAsUser") == 0)
    return Finding("runAsUser=0", f"{' and '.join(found)} must not set runAsUser=0") if found else None


def seccomp(pod: PodToCheck) -> Finding | None:
    found = baseline.seccomp(pod)
    if found is not None or pod.security.get("seccompProfile") is not None:
        return found
    names = [name for name, _, security in pod.containers() if security.get("seccompProfile") is None]
    if not names:
        return None
    text = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding("seccompProfile", f"pod or {named('container', names)} {text}")
