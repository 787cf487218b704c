"""Warn the authors of new pods (pkg/api/pod/warnings.go)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import Path, go_quote
from apiserver.api.objects import Json
from apiserver.api.values.networks import is_plain_ipv4
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.addresses import address_warnings
from apiserver.resources.pods.volumepaths import volume_path_warnings

__all__ = ["NEW_LABELS", "OLD_LABELS", "pod_warnings", "status_warnings"]


_POD: Final = Path()
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"
#: Node labels with a successor, and the release that deprecated them.
_RENAMED: Final = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"), "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
}  # fmt: skip
#: The warning about each deprecated label, and the successor to use.
OLD_LABELS: Final = {
    label: f'deprecated since {release}; use "{successor}" instead' for label, (release, successor) in _RENAMED.items()
}
NEW_LABELS: Final = {label: successor for label, (_, successor) in _RENAMED.items()}
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_OLD_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SHOWN_VOLUMES: Final = {"storageos": "storageOS"}
_POD_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_FIELD: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_BYTES: Final = ("memory", "ephemeral-storage")


def pod_warnings(obj: Json, path: Path = _POD) -> list[str]:
    """Return the warnings about a pod, or about the pod template at `path`."""
    spec, annotations = obj["spec"], obj["metadata"].get("annotations") or {}
    root = path / "spec"
    warnings = [
        f"{(root / 'nodeSelector').key(key)}: {OLD_LABELS[key]}"
        for key in spec.get("nodeSelector") or ()
        if key in OLD_LABELS
    ]
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at = (root / "topologySpreadConstraints")[index]
        if constraint.get("topologyKey") in OLD_LABELS:
            warnings.append(
                f"{at / 'topologyKey'}: {constraint['topologyKey']} is {OLD_LABELS[constraint['topologyKey']]}"
            )
        if constraint.get("labelSelector") is None:
            warnings.append(f"{at / 'labelSelector'}: {_NULL_SELECTOR}")
    warnings += [
        f"{(path / 'metadata' / 'annotations').key(key)}: {text}"
        for key, text in _OLD_ANNOTATIONS.items()
        if key in annotations
    ]
    for index, volume in enumerate(spec.get("volumes") or ()):
        at = (root / "volumes")[index]
        warnings += [
            f"{at / _SHOWN_VOLUMES.get(name, name)}: {text}"
            for name, text in _OLD_VOLUMES.items()
            if volume.get(name) is not None
        ]
    warnings += volume_path_warnings(spec.get("volumes") or [])
    warnings += _repeated(spec, "hostAliases", "ip", root) + _repeated(spec, "imagePullSecrets", "name", root)
    warnings += [
        f'{(root / "imagePullSecrets")[index] / "name"}: invalid empty name ""'
        for index, secret in enumerate(spec.get("imagePullSecrets") or ())
        if not secret.get("name")
    ]
    containers = _with_paths(spec, root)
    if annotations:
        warnings += _old_seccomp(spec, annotations, path)
    for at, container in containers:
        if annotations:
            warnings += _old_profiles(spec, container, annotations, path)
        warnings += _fractions(at, container) + _hidden_variables(at, container)
    warnings += _ports(containers)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        warnings.append(
            f"{root / 'terminationGracePeriodSeconds'}: must be >= 0; negative values are invalid and will be treated"
            " as 1"
        )
    if spec.get("affinity"):
        warnings += _affinity(spec["affinity"], root)
    return warnings + _odd_addresses(spec, root)


def _odd_addresses(spec: Json, root: Path) -> list[str]:
    """Warn of addresses in ambiguous notations."""
    servers, aliases = (spec.get("dnsConfig") or {}).get("nameservers") or (), spec.get("hostAliases") or ()
    warnings = []
    for index, server in enumerate(servers):
        warnings += address_warnings((root / "dnsConfig" / "nameservers")[index], server)
    for index, alias in enumerate(aliases):
        warnings += address_warnings((root / "hostAliases")[index] / "ip", alias.get("ip", ""))
    return warnings


def status_warnings(status: Json) -> list[str]:
    """Warn of the addresses in a pod's status."""
    return [
        warning
        for field in ("podIPs", "hostIPs")
        for index, address in enumerate(status.get(field) or ())
        if not is_plain_ipv4(address.get("ip", ""))
        for warning in address_warnings((Path("status") / field)[index] / "ip", address.get("ip", ""))
    ]


def _old_seccomp(spec: Json, annotations: Json, path: Path) -> list[str]:
    """Warn of seccomp profiles by annotation without the field that replaced it."""
    if (spec.get("securityContext") or {}).get("seccompProfile") is not None or _POD_SECCOMP not in annotations:
        return []
    return [f"{(path / 'metadata' / 'annotations').key(_POD_SECCOMP)}: {_SECCOMP_FIELD}"]


def _old_profiles(spec: Json, container: Json, annotations: Json, path: Path) -> list[str]:
    """Warn of a container's profiles by annotation. AppArmor profiles are reported for templates only."""
    context, at, name = (
        container.get("securityContext") or {},
        path / "metadata" / "annotations",
        container.get("name", ""),
    )
    warnings: list[str] = []
    seccomp, armor = _CONTAINER_SECCOMP + name, _APP_ARMOR + name
    if seccomp in annotations and context.get("seccompProfile") is None:
        warnings.append(f"{at.key(seccomp)}: {_SECCOMP_FIELD}")
    if path.text and armor in annotations and context.get("appArmorProfile") is None:
        whole = (spec.get("securityContext") or {}).get("appArmorProfile")
        if whole is None or whole != _armor_profile(annotations[armor]):
            warnings.append(f'{at.key(armor)}: deprecated since v1.30; use the "appArmorProfile" field instead')
    return warnings


def _armor_profile(annotation: str) -> Json | None:
    """Return the profile that an annotation defines."""
    if annotation.startswith("localhost/"):
        name = annotation.removeprefix("localhost/").strip()
        return {"type": "Localhost", "localhostProfile": name} if name else None
    kind = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}.get(annotation)
    return None if kind is None else {"type": kind}


def _with_paths(spec: Json, root: Path) -> list[tuple[Path, Json]]:
    fields = ("initContainers", "containers", "ephemeralContainers")
    return [
        ((root / field)[index], container) for field in fields for index, container in enumerate(spec.get(field) or ())
    ]


def _repeated(spec: Json, field: str, name: str, root: Path) -> list[str]:
    warnings: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(spec.get(field) or ()):
        value = item.get(name, "")
        at = (root / field)[index] / name
        if value in seen:
            warnings.append(f"{at}: duplicate {name} {go_quote(value)}")
        seen.add(value)
    return warnings


def _fractions(path: Path, container: Json) -> list[str]:
    """Warn of fractional bytes."""
    resources = container.get("resources") or {}
    return [
        f"{(path / 'resources' / part).key(name)}: fractional byte value {go_quote(amount)} is invalid, must be an"
        " integer"
        for name in _BYTES
        for part in ("limits", "requests")
        if (amount := (resources.get(part) or {}).get(name)) is not None and Quantity.parse(amount).value(-3) % 1000
    ]


def _hidden_variables(path: Path, container: Json) -> list[str]:
    """Warn of variables that are redefined, unless the new value refers to the old one."""
    warnings: list[str] = []
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == reference or reference not in value):
            at = (path / "env")[index]
            warnings.append(
                f"{at}: hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            )
        seen.add(name)
    return warnings


def _shown_port(port: Json) -> str:
    """Format a port as Go prints the struct."""
    names = (
        ("Name", "name", ""),
        ("HostPort", "hostPort", 0),
        ("ContainerPort", "containerPort", 0),
        ("Protocol", "protocol", ""),
        ("HostIP", "hostIP", ""),
    )
    return "{" + " ".join(f"{shown}:{port.get(field, empty)}" for shown, field, empty in names) + "}"


def _ports(containers: list[tuple[Path, Json]]) -> list[str]:
    warnings: list[str] = []
    named: dict[str, Path] = {}
    known: dict[tuple[int, str], list[tuple[Path, Json]]] = {}
    late: list[str] = []
    for path, container in containers:
        for index, port in enumerate(container.get("ports") or ()):
            at = (path / "ports")[index]
            if port.get("hostIP") and not port.get("hostPort"):
                warnings.append(f"{at}: hostIP set without hostPort: {_shown_port(port)}")
            others = known.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
            warnings += [text for other, before in others if (text := _clash(at, port, other, before))]
            others.append((at, port))
            name = port.get("name", "")
            if name and name in named:
                first = named[name]
                late.append(
                    f"{at}: duplicate port name {go_quote(name)} with {first}, services and probes that select ports by"
                    f" name will use {first}"
                )
            elif name:
                named[name] = at
    return warnings + late


def _clash(at: Path, port: Json, other: Path, before: Json) -> str:
    """Return how two definitions of a container port collide; "" if they do not."""
    address, other_address = port.get("hostIP", ""), before.get("hostIP", "")
    host, other_host = port.get("hostPort", 0), before.get("hostPort", 0)
    if (address, host) == (other_address, other_host):
        return f"{at}: duplicate port definition with {other}"
    if not host or not other_host:
        return f"{at}: overlapping port definition with {other}"
    if host == other_host and bool(address) != bool(other_address):
        return f"{at}: dangerously ambiguous port definition with {other}"
    return ""


def _affinity(affinity: Json, root: Path) -> list[str]:
    warnings: list[str] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        part, at = affinity.get(kind) or {}, root / "affinity" / kind
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(part.get(field) or ()):
            if term.get("labelSelector") is None:
                warnings.append(f"{(at / field)[index] / 'labelSelector'}: {_NULL_SELECTOR}")
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        for index, weighted in enumerate(part.get(field) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                warnings.append(f"{(at / field)[index] / 'podAffinityTerm' / 'labelSelector'}: {_NULL_SELECTOR}")
    return warnings
