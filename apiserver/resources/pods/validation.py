"""Validate a pod's whole spec (pkg/apis/core/validation, ValidatePodCreate and ValidatePodSpec).

The other modules of the package validate its parts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Forbidden, Invalid, Required, Union, UntilError, equals, is_unset
from apiserver.api.types.core.containers import EphemeralContainer
from apiserver.api.types.core.pods import HostAlias, PodDNSConfig, PodOS, PodResourceClaim, PodSchedulingGroup, PodSpec
from apiserver.api.types.core.security import PodSecurityContext
from apiserver.api.validation.compile import At, known_values
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.networks import legacy_ip
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.resource_names import is_hugepage
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
from apiserver.resources.pods.gates import PodGates, pod_gates
from apiserver.resources.pods.scheduling import validate_gates, validate_spread
from apiserver.resources.pods.security import POD_SECURITY
from apiserver.resources.pods.systems import host_processes, host_users, system_rules
from apiserver.resources.pods.validspecs import MIRROR, VALID_SPECS
from apiserver.resources.pods.volumes import validate_volumes

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["validate_pod", "validate_pod_annotations", "validate_pod_spec"]


_SPEC: Final = Path("spec")
_ANNOTATIONS: Final = Path("metadata.annotations")
_MOST_NAMESERVERS: Final = 3
_MOST_SEARCHES: Final = 32
#: Limit of all search paths, joined by spaces.
_MOST_CHARACTERS: Final = 2048
_TWO_CLAIMS: Final = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
_NO_CLAIM: Final = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
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
    """Validate a new pod, or the rules that also apply to an update of `old`."""
    metadata, spec = obj["metadata"], obj["spec"]
    errors = validate_pod_annotations(metadata.get("annotations") or {}, spec)
    errors += validate_pod_spec(spec, metadata, gates=pod_gates(ctx, None if old is None else old["spec"]))
    if not spec.get("serviceAccountName"):
        errors += [
            forbidden(at / "serviceAccountToken", "must not be specified when serviceAccountName is not set")
            for path, volume in each_item(_SPEC / "volumes", spec.get("volumes"))
            for at, source in each_item(path / "projected" / "sources", (volume.get("projected") or {}).get("sources"))
            if source.get("serviceAccountToken") is not None
        ]
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
    """Validate the annotations that have a meaning for pods."""
    errors: list[FieldError] = []
    if MIRROR in annotations and not spec.get("nodeName"):
        errors.append(
            invalid(path.key(MIRROR), annotations[MIRROR], "must set spec.nodeName if mirror pod annotation is set")
        )
    cost = annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
    if not re.fullmatch("0|[1-9][0-9]{0,9}|-[0-9]{1,10}", cost) or not -(1 << 31) <= int(cost) < 1 << 31:
        errors.append(invalid(path.key("controller.kubernetes.io/pod-deletion-cost"), cost, "must be a 32bit integer"))
    return errors


def validate_pod_spec(spec: Json, metadata: Json, root: Path = _SPEC, *, gates: PodGates) -> list[FieldError]:
    """Validate a spec at the path `root`, in a pod or in a template (with empty `metadata`).

    `gates` is the result of `pod_gates`. Valid specs are cached.
    """
    facts = PodFacts(spec, metadata, gates)
    return VALID_SPECS.judged(spec, metadata, gates, lambda: RULES.of(PodSpec).errors(root, spec, facts))


def _volumes(at: At) -> list[FieldError]:
    volumes = at.value.get("volumes")
    if not volumes:
        return []
    metadata = at.env.metadata
    at.env.volumes, errors = validate_volumes(
        at.path / "volumes", volumes, metadata.get("name", ""), in_pod=bool(metadata)
    )
    return errors


def _gates(at: At) -> list[FieldError]:
    return validate_gates(at.path / "schedulingGates", at.value.get("schedulingGates") or [])


def _spread(at: At) -> list[FieldError]:
    return validate_spread(at.path / "topologySpreadConstraints", at.value.get("topologySpreadConstraints") or [])


def _file_volumes(at: At) -> list[FieldError]:
    return validate_file_volumes(at.path, at.value)


# --- containers
# ----------------------------------------------------------------------------------------------------------------------


def _containers(at: At) -> list[FieldError]:
    if not at.value.get("containers"):
        return at.field("containers")
    spec, facts, path = at.value, at.env, at.path / "containers"
    errors: list[FieldError] = []
    system = (spec.get("os") or {}).get("name", "")
    for here, container, is_repeated in each_unique(path, spec["containers"], "name"):
        errors += validate_container(here, container, facts)
        if is_repeated:
            errors.append(duplicate(here / "name", container["name"]))
        if container.get("lifecycle") is not None:
            errors += validate_lifecycle(here / "lifecycle", container["lifecycle"], facts, system)
        errors += validate_probes(here, container, facts) + validate_restart_policy(here, container)
    return errors + _host_ports(path, spec["containers"]) + _host_network(spec, at.path, facts)


def _host_ports(path: Path, listed: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for here, container in each_item(path, listed):
        for at, port in each_item(here / "ports", container.get("ports")):
            if port.get("hostPort"):
                shown = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if shown in taken:
                    errors.append(duplicate(at / "hostPort", shown))
                taken.add(shown)
    return errors


def _host_network(spec: Json, root: Path, facts: PodFacts) -> list[FieldError]:
    """Require the container's own ports. In templates a missing one is allowed, because pods default it."""
    if not spec.get("hostNetwork"):
        return []
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(((root / "containers")[index] / "ports")[position] / "hostPort", port.get("hostPort", 0), detail)
        for index, container in enumerate(spec["containers"])
        for position, port in enumerate(container.get("ports") or ())
        if (facts.metadata or port.get("hostPort", 0)) and port.get("hostPort", 0) != port.get("containerPort", 0)
    ]  # fmt: skip


def _init_containers(at: At) -> list[FieldError]:
    spec, facts, path = at.value, at.env, at.path / "initContainers"
    errors: list[FieldError] = []
    names = {container.get("name", "") for container in spec.get("containers") or ()}
    system = (spec.get("os") or {}).get("name", "")
    for here, container in each_item(path, spec.get("initContainers")):
        errors += validate_container(here, container, facts) + validate_restart_policy(here, container, init=True)
        if container.get("name", "") in names:
            errors.append(duplicate(here / "name", container.get("name", "")))
        names.add(container.get("name", ""))
        errors += _host_ports(path, [container])
        if container.get("restartPolicy") == "Always":
            if container.get("lifecycle") is not None:
                errors += validate_lifecycle(here / "lifecycle", container["lifecycle"], facts, system)
            errors += validate_probes(here, container, facts)
            continue
        errors += [
            forbidden(here / field, _NOT_SIDECAR)
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            if container.get(field) is not None
        ]
        for policy_path, policy in each_item(here / "resizePolicy", container.get("resizePolicy")):
            if policy.get("restartPolicy") == "RestartContainer":
                detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.append(invalid(policy_path / "restartPolicy", Named("RestartContainer"), detail))
    return errors


def _ephemeral_containers(at: At) -> list[FieldError]:
    spec, facts, path = at.value, at.env, at.path / "ephemeralContainers"
    errors: list[FieldError] = []
    others = {container.get("name", "") for container in containers(spec, ephemeral=False)}
    names = set(others)
    for here, container in each_item(path, spec.get("ephemeralContainers")):
        errors += validate_container(here, container, facts, EphemeralContainer)
        if container.get("name", "") in names:
            errors.append(duplicate(here / "name", container.get("name", "")))
        names.add(container.get("name", ""))
        target = container.get("targetContainerName", "")
        if target and target not in others:
            errors.append(not_found(here / "targetContainerName", target))
        errors += [
            forbidden(here / field, _EPHEMERAL)
            for field in _EPHEMERAL_FORBIDDEN
            if (container.get(field) if field == "resources" else container.get(field) is not None)
        ]
        errors += [
            forbidden(mount_path / field, _EPHEMERAL)
            for mount_path, mount in each_item(here / "volumeMounts", container.get("volumeMounts"))
            for field in ("subPath", "subPathExpr")
            if mount.get(field)
        ]
    return errors


def _pod_resources(at: At) -> list[FieldError]:
    spec, path, resources = at.value, at.path / "resources", at.value["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors = (
        [forbidden(path / "claims", "claims may not be set for Resources at pod-level")]
        if resources.get("claims")
        else []
    )
    errors += validate_resources(path, resources, at.env.claims, pod_level=True)
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
                here = (path / "containers")[index].key(name) / "limits"
                errors.append(invalid(here, text, f"must be less than or equal to pod limits of {limits[name]}"))
    return errors


# --- claims
# ----------------------------------------------------------------------------------------------------------------------


def _resource_claims(at: At) -> list[FieldError]:
    claims, checks = at.value.get("resourceClaims"), RULES.of(PodResourceClaim)
    if MIRROR in (at.env.metadata.get("annotations") or {}):
        return [forbidden(Path("[]"), "static pods do not support resource claims") for _ in claims or ()]
    errors: list[FieldError] = []
    for path, claim, is_repeated in each_unique(at.path / "resourceClaims", claims, "name"):
        if is_repeated and claim.get("name"):
            errors.append(duplicate(path / "name", claim["name"]))
        else:
            errors += checks.at(path, claim).field("name")
        errors += checks.errors(path, claim)
    return errors


# --- other fields
# ----------------------------------------------------------------------------------------------------------------------


def _dns_config(at: At) -> list[FieldError]:
    path, servers, searches = at.path, at.value.get("nameservers") or [], at.value.get("searches") or []
    errors = []
    if len(servers) > _MOST_NAMESERVERS:
        detail = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        errors.append(invalid(path / "nameservers", servers, detail))
    for index, server in enumerate(servers):
        errors += legacy_ip((path / "nameservers")[index], server, at.env.gates.strict)
    if len(searches) > _MOST_SEARCHES:
        errors.append(invalid(path / "searches", searches, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > _MOST_CHARACTERS:
        detail = f"must not have more than {_MOST_CHARACTERS} characters (including spaces) in the search list"
        errors.append(invalid(path / "searches", searches, detail))
    errors += at.field("searches")
    return errors + [
        required((path / "options")[index], "must not be empty")
        for index, option in enumerate(at.value.get("options") or ())
        if not option.get("name")
    ]


def _alias_address(at: At) -> list[FieldError]:
    return legacy_ip(at.path / "ip", at.value.get("ip", ""), at.env.gates.strict)


def _overhead(at: At) -> list[FieldError]:
    amounts = at.value.get("overhead")
    return validate_resources(at.path / "overhead", {"limits": amounts}, set()) if amounts else []


def _system(at: At) -> list[FieldError]:
    """Validate the operating system. The path of an unknown name is the object, as upstream's is."""
    name, known = at.value.get("name", ""), known_values(PodOS, "name")
    if not name:
        return [required(at.path / "name")]
    return [] if name in known else [not_supported(at.path, Named(name), known)]


def _named_system(at: At) -> list[FieldError]:
    return at.field("os") or system_rules(at.value, at.path)


_CLAIM_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")
RULES.set(
    PodResourceClaim,
    Union(_CLAIM_SOURCES, none=Invalid("", _NO_CLAIM), many=Invalid("", _TWO_CLAIMS)),
    *_CLAIM_SOURCES, by_rules=("name",),
)  # fmt: skip
RULES.set(PodDNSConfig, _dns_config, by_rules=("nameservers", "searches"))
RULES.set(HostAlias, ("ip", _alias_address), "hostnames")
RULES.set(PodOS, _system, by_rules=("name",))
RULES.set(
    PodSchedulingGroup,
    Invalid("podGroupName", "must specify one of: `podGroupName`", when=is_unset("podGroupName"), shown=None),
    "podGroupName",
)
#: The DNS policy None requires nameservers, because it has no other source of them.
_DNS: Final = UntilError((
    Required("dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None", when=equals("dnsPolicy", "None")),
    Required(
        "dnsConfig.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None",
        when=equals("dnsPolicy", "None"),
    ),
    "dnsConfig",
))  # fmt: skip
#: Only a pod with its own network namespace can override its host name.
_HOSTNAME: Final = tuple(
    Forbidden("hostnameOverride", f"may not be specified when {field} is true", when=equals(field, True))
    for field in ("setHostnameAsFQDN", "hostNetwork")
)
RULES.set(PodSecurityContext, *POD_SECURITY, by_rules=("sysctls",))
RULES.set(
    PodSpec,
    "terminationGracePeriodSeconds", ("volumes", _volumes), ("resourceClaims", _resource_claims), _containers,
    ("initContainers", _init_containers), ("ephemeralContainers", _ephemeral_containers), ("resources", _pod_resources),
    "restartPolicy", "dnsPolicy", "nodeSelector", "securityContext", "affinity", _DNS, "readinessGates",
    ("schedulingGates", _gates), ("topologySpreadConstraints", _spread),
    host_processes, host_users, "serviceAccountName", "nodeName",
    "activeDeadlineSeconds", "hostname", "subdomain", "tolerations", "hostAliases", "priorityClassName",
    "runtimeClassName", *_HOSTNAME, "hostnameOverride", "preemptionPolicy", ("overhead", _overhead),
    ("os", _named_system), "schedulingGroup", _file_volumes,
    by_rules=("containers",),
)  # fmt: skip
