"""One container: name, ports, environment, mounts, probes, resources (pkg/apis/core/validation, validateContainerCommon
and around it).
"""

from __future__ import annotations

from typing import Any, Final

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
    too_many,
)
from apiserver.api.names import dns_label, http_header_name, port_name
from apiserver.api.quantity import Quantity
from apiserver.resources.pods.environment import validate_env, validate_env_from
from apiserver.resources.pods.mounts import validate_devices, validate_mounts
from apiserver.resources.pods.security import validate_container_security
from apiserver.resources.resource_names import (
    HUGEPAGES,
    is_extended,
    is_hugepage,
    is_native,
    is_overcommit_allowed,
    is_standard_for_containers,
    quantity_value,
    resource_name,
)

__all__ = [
    "PodFacts",
    "container_resource_name",
    "port_number",
    "validate_container",
    "validate_lifecycle",
    "validate_probes",
    "validate_resources",
    "validate_restart_policy",
]

Json = dict[str, Any]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_NEGATIVE: Final = "must be greater than or equal to 0"
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


class PodFacts:
    """What a container's rules must know of its pod: volumes by name, names of claims, the grace period, how pods
    restart, whose users they have.
    """

    __slots__ = ("claims", "grace_period", "host_users", "restart_policy", "volumes")

    def __init__(self, spec: Json, volumes: dict[str, Json]) -> None:
        self.volumes = volumes
        self.claims = {claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")}
        self.grace_period: int = spec.get("terminationGracePeriodSeconds", 0)
        self.restart_policy: str = spec.get("restartPolicy", "")
        self.host_users = spec.get("hostUsers") is not False


def validate_container(path: Path, container: Json, facts: PodFacts) -> list[FieldError]:
    """What containers of every kind have in common."""
    name = container.get("name", "")
    errors = [invalid(path / "name", name, text) for text in dns_label(name)] if name else [required(path / "name")]
    if not container.get("image"):
        errors.append(required(path / "image"))
    policy = container.get("terminationMessagePolicy", "")
    if not policy:
        errors.append(required(path / "terminationMessagePolicy"))
    elif policy not in _MESSAGE_POLICIES:
        errors.append(not_supported(path / "terminationMessagePolicy", Named(policy), _MESSAGE_POLICIES))
    if container.get("ports"):
        errors += _ports(path / "ports", container["ports"])
    if container.get("env"):
        errors += validate_env(path / "env", container["env"])
    if container.get("envFrom"):
        errors += validate_env_from(path / "envFrom", container["envFrom"])
    if container.get("volumeMounts"):
        errors += validate_mounts(path / "volumeMounts", container, facts.volumes)
    if container.get("volumeDevices"):
        errors += validate_devices(path / "volumeDevices", container, facts.volumes)
    pull = container.get("imagePullPolicy", "")
    if not pull:
        errors.append(required(path / "imagePullPolicy"))
    elif pull not in _PULL_POLICIES:
        errors.append(not_supported(path / "imagePullPolicy", Named(pull), _PULL_POLICIES))
    if container.get("resources"):
        errors += validate_resources(path / "resources", container["resources"], facts.claims)
    if container.get("resizePolicy"):
        errors += _resize_policy(path / "resizePolicy", container["resizePolicy"], facts.restart_policy)
    if container.get("securityContext"):
        errors += validate_container_security(
            path / "securityContext", container["securityContext"], host_users=facts.host_users
        )
    return errors


def port_number(path: Path, number: int) -> list[FieldError]:
    return [] if 1 <= number <= 65535 else [invalid(path, number, "must be between 1 and 65535, inclusive")]


def _port(path: Path, port: Any) -> list[FieldError]:
    """A port by number or name."""
    if isinstance(port, str):
        return [invalid(path, port, text) for text in port_name(port)]
    return port_number(path, port or 0)


def _ports(path: Path, ports: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = path[index]
        name, protocol = port.get("name", ""), port.get("protocol", "")
        if name:
            texts = port_name(name)
            errors += [invalid(at / "name", name, text) for text in texts]
            if not texts and name in names:
                errors.append(duplicate(at / "name", name))
            names.add(name)
        errors += (
            port_number(at / "containerPort", port["containerPort"])
            if port.get("containerPort")
            else [required(at / "containerPort")]
        )
        if port.get("hostPort"):
            errors += port_number(at / "hostPort", port["hostPort"])
        if not protocol:
            errors.append(required(at / "protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(at / "protocol", Named(protocol), _PROTOCOLS))
    return errors


# --- probes and hooks
# ----------------------------------------------------------------------------------------------------------------------


def _http(path: Path, action: Json) -> list[FieldError]:
    errors = [] if action.get("path") else [required(path / "path")]
    errors += _port(path / "port", action.get("port"))
    scheme = action.get("scheme", "")
    if scheme not in ("HTTP", "HTTPS"):
        errors.append(not_supported(path / "scheme", Named(scheme), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        errors += [
            invalid(path / "httpHeaders", header.get("name", ""), text)
            for text in http_header_name(header.get("name", ""))
        ]
    return errors


def _sleep(path: Path, action: Json, grace_period: int) -> list[FieldError]:
    seconds = action.get("seconds", 0)
    if 0 <= seconds <= grace_period:
        return []
    return [
        invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})")
    ]


def _handler(path: Path, handler: Json, grace_period: int) -> list[FieldError]:
    """Exactly one kind of action."""
    errors: list[FieldError] = []
    chosen = 0
    for name in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        action = handler.get(name)
        if action is None:
            continue
        chosen += 1
        if chosen > 1:
            errors.append(forbidden(path / name, "may not specify more than 1 handler type"))
        elif name == "exec":
            errors += [] if action.get("command") else [required(path / name / "command")]
        elif name == "httpGet":
            errors += _http(path / name, action)
        elif name == "sleep":
            errors += _sleep(path / name, action, grace_period)
        else:
            errors += _port(path / name / "port", action.get("port"))
    return errors if chosen else [*errors, required(path, "must specify a handler type")]


def _probe(path: Path, probe: Json, grace_period: int) -> list[FieldError]:
    errors = _handler(path, probe, grace_period)
    errors += [invalid(path / field, probe[field], _NEGATIVE) for field in _PROBE_NUMBERS if probe.get(field, 0) < 0]
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        errors.append(invalid(path / "terminationGracePeriodSeconds", own, "must be greater than 0"))
    return errors


def validate_probes(path: Path, container: Json, facts: PodFacts) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        at = path / name
        errors += _probe(at, probe, facts.grace_period)
        if name == "readinessProbe":
            if probe.get("terminationGracePeriodSeconds") is not None:
                own = probe["terminationGracePeriodSeconds"]
                errors.append(invalid(at / "terminationGracePeriodSeconds", own, "must not be set for readinessProbes"))
        elif probe.get("successThreshold", 0) != 1:
            errors.append(invalid(at / "successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def validate_lifecycle(path: Path, lifecycle: Json, facts: PodFacts, operating_system: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            errors += _handler(path / name, lifecycle[name], facts.grace_period)
    if lifecycle.get("stopSignal") is not None and not operating_system:
        errors.append(forbidden(path / "stopSignal", "may not be set for containers with empty `spec.os.name`"))
    return errors


# --- resources
# ----------------------------------------------------------------------------------------------------------------------


def container_resource_name(path: Path, name: str) -> list[FieldError]:
    errors = resource_name(path, name)
    if "/" not in name:
        if not is_standard_for_containers(name):
            errors.append(invalid(path, Named(name), "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, Named(name), "doesn't follow extended resource name standard"))
    return errors


def _pod_resource(path: Path, name: str) -> list[FieldError]:
    errors = resource_name(path, name)
    if errors or name in ("cpu", "memory") or is_hugepage(name):
        return errors
    return [not_supported(path, Named(name), ("cpu", HUGEPAGES, "memory"))]


def _huge_page(path: Path, name: str, text: str) -> list[FieldError]:
    """Whole pages only."""
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES)).value()
    except ValueError:
        size = 0
    if size > 0 and Quantity.parse(text).value() % size == 0:
        return []
    return [invalid(path, text, f"{text} is not positive integer multiple of {name}")]


def validate_resources(path: Path, resources: Json, claims: set[str], *, pod_level: bool = False) -> list[FieldError]:
    """Requests and limits by name, and references to the pod's claims. A pod's own may be fewer than a container's."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    known = _pod_resource if pod_level else container_resource_name
    errors: list[FieldError] = []
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            at = (path / part).key(name)
            errors += known(at, name) + quantity_value(at, name, text)
            if part == "requests":
                errors += _against_limit(path, name, text, limits.get(name))
            if is_hugepage(name):
                errors += _huge_page(at, name, text)
    named = limits.keys() | requests.keys()
    if any(map(is_hugepage, named)) and not named & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors + _claims(path / "claims", resources.get("claims") or [], claims)


def _against_limit(path: Path, name: str, text: str, limit: str | None) -> list[FieldError]:
    shared = is_overcommit_allowed(name)
    if limit is None:
        return [] if shared else [required(path / "limits", "Limit must be set for non overcommitable resources")]
    order = 0 if text == limit else Quantity.parse(text).compare(Quantity.parse(limit))
    if order and not shared:
        return [invalid(path / "requests", text, f"must be equal to {name} limit of {limit}")]
    if order > 0:
        return [invalid(path / "requests", text, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _claims(path: Path, claims: list[Json], known: set[str]) -> list[FieldError]:
    """References to the pod's claims, as a whole or by request, each once."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        at = path[index]
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(at))
            continue
        if name in seen:
            errors.append(duplicate(at, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                errors += [invalid(at / "request", request, text) for text in dns_label(request)]
            if key in seen:
                errors.append(duplicate(at, key))
            elif not request:
                errors += [duplicate(at, name) for other in seen if other.partition("/")[0] == name and "/" in other]
            seen.add(key)
        if name not in known:
            listed = ": " + ", ".join(sorted(known)) if known else " which is empty"
            errors.append(not_found(at, name, f"must be one of the names in pod.spec.resourceClaims{listed}"))
    return errors


def _resize_policy(path: Path, policies: list[Json], restart_policy: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for policy in policies:
        name, how = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(path, Named(name)))
        seen.add(name)
        if name not in ("cpu", "memory"):
            errors.append(not_supported(path, Named(name), ("cpu", "memory")) if name else required(path))
        if how not in ("NotRequired", "RestartContainer"):
            errors.append(
                not_supported(path, Named(how), ("NotRequired", "RestartContainer")) if how else required(path)
            )
        if restart_policy == "Never" and how != "NotRequired":
            errors.append(invalid(path, Named(how), "must be 'NotRequired' when `restartPolicy` is 'Never'"))
    return errors


# --- restarts
# ----------------------------------------------------------------------------------------------------------------------


def validate_restart_policy(path: Path, container: Json) -> list[FieldError]:
    """A container's own restart policy and its rules by exit code."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    errors: list[FieldError] = []
    if policy is None:
        if not rules:
            return []
        errors.append(required(path / "restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy not in ("Always", "Never", "OnFailure"):
        errors.append(not_supported(path / "restartPolicy", Named(policy), ("Always", "Never", "OnFailure")))
    if len(rules) > 20:
        errors.append(too_many(path / "restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        at = (path / "restartPolicyRules")[index]
        action, codes = rule.get("action", ""), rule.get("exitCodes")
        if action not in ("Restart", "RestartAllContainers"):
            errors.append(not_supported(at / "action", Named(action), ("Restart", "RestartAllContainers")))
        if codes is None:
            errors.append(required(at / "exitCodes", "must be specified"))
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            errors.append(
                not_supported(at / "exitCodes" / "operator", Named(codes.get("operator", "")), ("In", "NotIn"))
            )
        if len(codes.get("values") or ()) > 255:
            errors.append(too_many(at / "exitCodes" / "values", len(codes["values"]), 255))
    return errors
