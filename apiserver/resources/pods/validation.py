"""A pod's spec as a whole (pkg/apis/core/validation, ValidatePodCreate and ValidatePodSpec); its parts are in the
modules beside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apiserver.api.fielderrors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
)
from apiserver.api.internal import internal
from apiserver.api.names import dns_label, dns_subdomain, dns_subdomain_with_underscore, label_key, label_value
from apiserver.api.quantity import Quantity
from apiserver.api.types.core.pods import PodResourceClaim
from apiserver.resources.networks import legacy_ip
from apiserver.resources.pods import qos
from apiserver.resources.pods.containervalidation import (
    PodFacts,
    validate_container,
    validate_lifecycle,
    validate_probes,
    validate_resources,
    validate_restart_policy,
)
from apiserver.resources.pods.defaults import containers
from apiserver.resources.pods.environment import validate_file_volumes
from apiserver.resources.pods.scheduling import validate_affinity, validate_gates, validate_spread, validate_tolerations
from apiserver.resources.pods.security import validate_pod_security
from apiserver.resources.pods.volumes import validate_volumes
from apiserver.resources.resource_names import is_hugepage

if TYPE_CHECKING:
    from apiserver.registry.context import Context

__all__ = ["validate_pod", "validate_pod_annotations", "validate_pod_spec"]

Json = dict[str, Any]

_SPEC: Final = Path("spec")
_ANNOTATIONS: Final = Path("metadata.annotations")
MIRROR: Final = "kubernetes.io/config.mirror"
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_EPHEMERAL_FORBIDDEN: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_NOT_SIDECAR: Final = "may not be set for init containers without restartPolicy=Always"


def validate_pod(ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
    """A new pod, or (`old`) the rules that an updated one is held to as well."""
    metadata, spec = obj["metadata"], obj["spec"]
    errors = validate_pod_annotations(metadata.get("annotations") or {}, spec)
    errors += validate_pod_spec(spec, metadata)
    for index, volume in enumerate(spec.get("volumes") or ()):
        if not spec.get("serviceAccountName"):
            for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    at = ((_SPEC / "volumes")[index] / "projected" / "sources")[position] / "serviceAccountToken"
                    errors.append(forbidden(at, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        errors += _images(_SPEC / field, spec.get(field) or ())
    if old is None:
        if spec.get("ephemeralContainers"):
            errors.append(forbidden(_SPEC / "ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            errors.append(forbidden(_SPEC / "nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def _images(path: Path, listed: Any) -> list[FieldError]:
    return [
        invalid(path[index] / "image", container["image"], "must not have leading or trailing whitespace")
        for index, container in enumerate(listed) if container.get("image", "") != container.get("image", "").strip()
    ]  # fmt: skip


def validate_pod_annotations(annotations: Json, spec: Json, path: Path = _ANNOTATIONS) -> list[FieldError]:
    """Annotations that mean something to pods."""
    errors: list[FieldError] = []
    if MIRROR in annotations and not spec.get("nodeName"):
        errors.append(
            invalid(path.key(MIRROR), annotations[MIRROR], "must set spec.nodeName if mirror pod annotation is set")
        )
    cost = annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
    if not cost.removeprefix("-").isdigit() or not -(1 << 31) <= int(cost) < 1 << 31:
        errors.append(invalid(path.key("controller.kubernetes.io/pod-deletion-cost"), cost, "must be a 32bit integer"))
    return errors


def validate_pod_spec(spec: Json, metadata: Json, root: Path = _SPEC) -> list[FieldError]:
    """`root` is where the spec stands: in a pod, or in the template of one (whose `metadata` says nothing)."""
    errors: list[FieldError] = []
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(root / "terminationGracePeriodSeconds"))
    volumes, found = (
        validate_volumes(root / "volumes", spec["volumes"], metadata.get("name", ""))
        if spec.get("volumes")
        else ({}, [])
    )
    errors += found
    if spec.get("resourceClaims"):
        errors += _resource_claims(
            root / "resourceClaims", spec["resourceClaims"], MIRROR in (metadata.get("annotations") or {})
        )
    facts = PodFacts(spec, volumes)
    errors += _containers(spec, facts, root)
    if spec.get("initContainers"):
        errors += _init_containers(spec, facts, root)
    if spec.get("ephemeralContainers"):
        errors += _ephemeral_containers(spec, facts, root)
    if spec.get("resources") is not None:
        errors += _pod_resources(spec, root, facts.claims)
    errors += _policies(spec, root)
    for key, value in (spec.get("nodeSelector") or {}).items():
        errors += [invalid(root / "nodeSelector", key, text) for text in label_key(key)]
        errors += [invalid(root / "nodeSelector", value, text) for text in label_value(value)]
    if spec.get("securityContext"):
        errors += validate_pod_security(root / "securityContext", spec["securityContext"], spec)
    if spec.get("affinity") is not None:
        errors += validate_affinity(root / "affinity", spec["affinity"])
    errors += _dns(spec, root)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        errors += [invalid((root / "readinessGates")[index] / "conditionType", kind, text) for text in label_key(kind)]
    if spec.get("schedulingGates"):
        errors += validate_gates(root / "schedulingGates", spec["schedulingGates"])
    if spec.get("topologySpreadConstraints"):
        errors += validate_spread(root / "topologySpreadConstraints", spec["topologySpreadConstraints"])
    return errors + _names(spec, root) + _rest(spec, root) + validate_file_volumes(root, spec)


# --- containers
# ----------------------------------------------------------------------------------------------------------------------


def _containers(spec: Json, facts: PodFacts, root: Path) -> list[FieldError]:
    path = root / "containers"
    if not spec.get("containers"):
        return [required(path)]
    errors: list[FieldError] = []
    names: set[str] = set()
    system = (spec.get("os") or {}).get("name", "")
    for index, container in enumerate(spec["containers"]):
        at = path[index]
        errors += validate_container(at, container, facts)
        if container.get("name", "") in names:
            errors.append(duplicate(at / "name", container["name"]))
        names.add(container.get("name", ""))
        if container.get("lifecycle") is not None:
            errors += validate_lifecycle(at / "lifecycle", container["lifecycle"], facts, system)
        errors += validate_probes(at, container, facts) + validate_restart_policy(at, container)
    return errors + _host_ports(path, spec["containers"]) + _host_network(spec, root)


def _host_ports(path: Path, listed: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(listed):
        for position, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                shown = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if shown in taken:
                    errors.append(duplicate((path[index] / "ports")[position] / "hostPort", shown))
                taken.add(shown)
    return errors


def _host_network(spec: Json, root: Path) -> list[FieldError]:
    if not spec.get("hostNetwork"):
        return []
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(((root / "containers")[index] / "ports")[position] / "hostPort", port.get("hostPort", 0), detail)
        for index, container in enumerate(spec["containers"])
        for position, port in enumerate(container.get("ports") or ())
        if port.get("hostPort", 0) != port.get("containerPort", 0)
    ]  # fmt: skip


def _init_containers(spec: Json, facts: PodFacts, root: Path) -> list[FieldError]:
    path = root / "initContainers"
    errors: list[FieldError] = []
    names = {container.get("name", "") for container in spec.get("containers") or ()}
    system = (spec.get("os") or {}).get("name", "")
    for index, container in enumerate(spec["initContainers"]):
        at = path[index]
        errors += validate_container(at, container, facts) + validate_restart_policy(at, container)
        if container.get("name", "") in names:
            errors.append(duplicate(at / "name", container.get("name", "")))
        names.add(container.get("name", ""))
        errors += _host_ports(path, [container])
        if container.get("restartPolicy") == "Always":
            if container.get("lifecycle") is not None:
                errors += validate_lifecycle(at / "lifecycle", container["lifecycle"], facts, system)
            errors += validate_probes(at, container, facts)
            continue
        errors += [
            forbidden(at / field, _NOT_SIDECAR)
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            if container.get(field) is not None
        ]
        for position, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.append(
                    invalid((at / "resizePolicy")[position] / "restartPolicy", Named("RestartContainer"), detail)
                )
    return errors


def _ephemeral_containers(spec: Json, facts: PodFacts, root: Path) -> list[FieldError]:
    path = root / "ephemeralContainers"
    errors: list[FieldError] = []
    others = {container.get("name", "") for container in containers(spec, ephemeral=False)}
    names = set(others)
    for index, container in enumerate(spec["ephemeralContainers"]):
        at = path[index]
        errors += validate_container(at, container, facts)
        if container.get("name", "") in names:
            errors.append(duplicate(at / "name", container.get("name", "")))
        names.add(container.get("name", ""))
        target = container.get("targetContainerName", "")
        if target and target not in others:
            errors.append(not_found(at / "targetContainerName", target))
        said = [
            field
            for field in _EPHEMERAL_FORBIDDEN
            if (container.get(field) if field == "resources" else container.get(field) is not None)
        ]
        errors += [forbidden(at / field, _EPHEMERAL) for field in said]
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            errors += [
                forbidden((at / "volumeMounts")[position] / field, _EPHEMERAL)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
    return errors


def _pod_resources(spec: Json, root: Path, claims: set[str]) -> list[FieldError]:
    path, resources = root / "resources", spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors = (
        [forbidden(path / "claims", "claims may not be set for Resources at pod-level")]
        if resources.get("claims")
        else []
    )
    errors += validate_resources(path, resources, claims, pod_level=True)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in qos.aggregate(spec, "requests").items():
        if name in requests and amount.compare(Quantity.parse(requests[name])) > 0:
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            errors.append(invalid((path / "requests").key(name), requests[name], detail))
    for name, amount in qos.aggregate(spec, "limits").items():
        if is_hugepage(name) and name in limits and amount.compare(Quantity.parse(limits[name])) > 0:
            detail = f"must be greater than or equal to aggregate container limits of {amount}"
            errors.append(invalid((path / "limits").key(name), limits[name], detail))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and Quantity.parse(text).compare(Quantity.parse(limits[name])) > 0:
                at = (path / "containers")[index].key(name) / "limits"
                errors.append(invalid(at, text, f"must be less than or equal to pod limits of {limits[name]}"))
    return errors


# --- claims
# ----------------------------------------------------------------------------------------------------------------------


def _resource_claims(path: Path, claims: list[Json], mirror: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        at = path[index]
        if mirror:
            errors.append(forbidden(Path("[]"), "static pods do not support resource claims"))
            continue
        name, claim_name, template = (
            claim.get("name", ""),
            claim.get("resourceClaimName"),
            claim.get("resourceClaimTemplateName"),
        )
        if not name:
            errors.append(required(at / "name"))
        elif name in names:
            errors.append(duplicate(at / "name", name))
        else:
            errors += [invalid(at / "name", name, text) for text in dns_label(name)]
            names.add(name)
        if claim_name is not None and template is not None:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(at, internal(PodResourceClaim, claim), detail))
        if claim_name is None and template is None:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(at, internal(PodResourceClaim, claim), detail))
        for field, value in (("resourceClaimName", claim_name), ("resourceClaimTemplateName", template)):
            if value is not None:
                errors += [invalid(at / field, value, text) for text in dns_subdomain(value)]
    return errors


# --- the rest
# ----------------------------------------------------------------------------------------------------------------------


def _one_of(path: Path, value: str, supported: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if value in supported else [not_supported(path, Named(value), supported)]


def _policies(spec: Json, root: Path) -> list[FieldError]:
    return _one_of(root / "restartPolicy", spec.get("restartPolicy", ""), _RESTART_POLICIES) + _one_of(
        root / "dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES
    )


def _dns(spec: Json, root: Path) -> list[FieldError]:
    path, config = root / "dnsConfig", spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            return [required(path / "nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")]
    if config is None:
        return []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    errors = (
        [invalid(path / "nameservers", servers, "must not have more than 3 nameservers")] if len(servers) > 3 else []
    )
    for index, server in enumerate(servers):
        errors += legacy_ip((path / "nameservers")[index], server)
    if len(searches) > 32:
        errors.append(invalid(path / "searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        errors.append(
            invalid(
                path / "searches",
                searches,
                "must not have more than 2048 characters (including spaces) in the search list",
            )
        )
    for index, search in enumerate(searches):
        name = search.removesuffix(".")
        errors += (
            [invalid((path / "searches")[index], name, text) for text in dns_subdomain_with_underscore(name)]
            if search != "."
            else []
        )
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required((path / "options")[index], "must not be empty"))
    return errors


def _names(spec: Json, root: Path) -> list[FieldError]:
    """Fields that name something."""
    errors: list[FieldError] = []
    for field, check in (("serviceAccountName", dns_subdomain), ("nodeName", dns_subdomain)):
        errors += [invalid(root / field, spec[field], text) for text in check(spec[field])] if spec.get(field) else []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        errors.append(invalid(root / "activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    for field in ("hostname", "subdomain"):
        errors += (
            [invalid(root / field, spec[field], text) for text in dns_label(spec[field])] if spec.get(field) else []
        )
    if spec.get("tolerations"):
        errors += validate_tolerations(root / "tolerations", spec["tolerations"])
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        at = (root / "hostAliases")[index]
        errors += legacy_ip(at / "ip", alias.get("ip", ""))
        for position, name in enumerate(alias.get("hostnames") or ()):
            errors += [invalid((at / "hostnames")[position], name, text) for text in dns_subdomain(name)]
    if spec.get("priorityClassName"):
        errors += [
            invalid(root / "priorityClassName", spec["priorityClassName"], text)
            for text in dns_subdomain(spec["priorityClassName"])
        ]
    if spec.get("runtimeClassName") is not None:
        errors += [
            invalid(root / "runtimeClassName", spec["runtimeClassName"], text)
            for text in dns_subdomain(spec["runtimeClassName"])
        ]
    return errors


def _rest(spec: Json, root: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    override = spec.get("hostnameOverride")
    if override is not None:
        at = root / "hostnameOverride"
        if spec.get("setHostnameAsFQDN"):
            errors.append(forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
        if spec.get("hostNetwork"):
            errors.append(forbidden(at, "may not be specified when hostNetwork is true"))
        if len(override) > 64:
            errors.append(too_long(at, 64))
        errors += [invalid(at, override, text) for text in dns_subdomain(override)]
    if spec.get("preemptionPolicy") is not None:
        errors += _one_of(root / "preemptionPolicy", spec["preemptionPolicy"], ("PreemptLowerPriority", "Never"))
    if spec.get("overhead"):
        errors += validate_resources(root / "overhead", {"limits": spec["overhead"]}, set())
    system = spec.get("os")
    if system is not None:
        name = system.get("name", "")
        if not name:
            errors.append(required(root / "os" / "name"))
        elif name not in ("linux", "windows"):
            errors.append(not_supported(root / "os", Named(name), ("linux", "windows")))
    group = spec.get("schedulingGroup")
    if group is not None:
        name = group.get("podGroupName")
        at = root / "schedulingGroup" / "podGroupName"
        errors += (
            [invalid(at, None, "must specify one of: `podGroupName`")]
            if name is None
            else [invalid(at, name, text) for text in dns_subdomain(name)]
        )
    return errors
