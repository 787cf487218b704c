"""Validate containers: name, ports, environment, mounts, probes, resources.

Facts: pkg/apis/core/validation, validateContainerCommon and around it.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

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
from apiserver.api.schema.language import Struct
from apiserver.api.types.core.containers import (
    Container,
    ContainerPort,
    ContainerResizePolicy,
    EphemeralContainer,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
)
from apiserver.api.types.core.security import SecurityContext
from apiserver.api.validation.compile import At, known_values
from apiserver.api.validation.formats import FORMATS
from apiserver.api.values.names import dns_label
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.resource_names import (
    HUGEPAGES,
    is_extended,
    is_hugepage,
    is_native,
    is_overcommit_allowed,
    is_standard_for_containers,
    quantity_value,
    resource_name,
)
from apiserver.resources.pods.environment import env_from
from apiserver.resources.pods.gates import PodGates
from apiserver.resources.pods.mounts import validate_devices, validate_mounts
from apiserver.resources.pods.security import CONTAINER_SECURITY

__all__ = [
    "PodFacts",
    "container_resource_name",
    "validate_container",
    "validate_lifecycle",
    "validate_probes",
    "validate_resources",
    "validate_restart_policy",
]

_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_WINDOWS_SIGNALS: Final = ("SIGKILL", "SIGTERM")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


class PodFacts:
    """Facts about the whole pod for the rules of its parts.

    `volumes` are the mountable volumes by name, set once they are validated.
    """

    __slots__ = ("claims", "gates", "grace_period", "host_users", "metadata", "restart_policy", "spec", "volumes")

    def __init__(self, spec: Json, metadata: Json, gates: PodGates) -> None:
        self.spec, self.metadata, self.gates = spec, metadata, gates
        self.volumes: dict[str, Json] = {}
        self.claims = {claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")}
        self.grace_period: int = spec.get("terminationGracePeriodSeconds", 0)
        self.restart_policy: str = spec.get("restartPolicy", "")
        self.host_users = spec.get("hostUsers") is not False


def validate_container(path: Path, container: Json, facts: PodFacts, kind: Struct = Container) -> list[FieldError]:
    """Validate the fields that all kinds of containers have."""
    return RULES.of(kind).errors(path, container, facts)


def _ports(at: At) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(at.value.get("ports") or ()):
        here, name = RULES.of(ContainerPort).at((at.path / "ports")[index], port), port.get("name", "")
        wrong = here.field("name")
        if not wrong and name in names:
            wrong = [duplicate(here.path / "name", name)]
        if name:
            names.add(name)
        errors += wrong + here.fields("containerPort", "hostPort", "protocol")
    return errors


def _env_from(at: At) -> list[FieldError]:
    return env_from(at.path / "envFrom", at.value["envFrom"])


def _mounts(at: At) -> list[FieldError]:
    return validate_mounts(at.path / "volumeMounts", at.value, at.env.volumes)


def _devices(at: At) -> list[FieldError]:
    return validate_devices(at.path / "volumeDevices", at.value, at.env.volumes)


def _resources(at: At) -> list[FieldError]:
    return validate_resources(at.path / "resources", at.value["resources"], at.env.claims)


# --- probes and hooks
# ----------------------------------------------------------------------------------------------------------------------


def _http(at: At) -> list[FieldError]:
    """Validate an HTTP probe. The path of header errors is the list, as upstream's is."""
    errors = at.fields("path", "port", "scheme")
    for header in at.value.get("httpHeaders") or ():
        errors += FORMATS["http-header-name"].errors(at.path / "httpHeaders", header.get("name", ""))
    return errors


def _sleep(at: At) -> list[FieldError]:
    """Limit a sleep to the pod's grace period."""
    seconds, most = at.value.get("seconds", 0), at.env.grace_period
    if 0 <= seconds <= most:
        return []
    return [invalid(at.path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({most})")]


def _handler(at: At) -> list[FieldError]:
    """Require exactly one kind of action."""
    errors: list[FieldError] = []
    chosen = [name for name in _ACTIONS if at.value.get(name) is not None]
    for position, name in enumerate(chosen):
        if position:
            errors.append(forbidden(at.path / name, "may not specify more than 1 handler type"))
        else:
            errors += at.field(name)
    return errors if chosen else [required(at.path, "must specify a handler type")]


def validate_probes(path: Path, container: Json, facts: PodFacts) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        at = path / name
        errors += RULES.of(Probe).errors(at, probe, facts)
        if name == "readinessProbe":
            if probe.get("terminationGracePeriodSeconds") is not None:
                own = probe["terminationGracePeriodSeconds"]
                errors.append(invalid(at / "terminationGracePeriodSeconds", own, "must not be set for readinessProbes"))
        elif probe.get("successThreshold", 0) != 1:
            errors.append(invalid(at / "successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def validate_lifecycle(path: Path, lifecycle: Json, facts: PodFacts, operating_system: str) -> list[FieldError]:
    at = RULES.of(Lifecycle).at(path, lifecycle, facts)
    errors = at.fields("postStart", "preStop")
    signal = lifecycle.get("stopSignal")
    if signal is None:
        return errors
    if not operating_system:
        errors.append(forbidden(path / "stopSignal", "may not be set for containers with empty `spec.os.name`"))
    elif operating_system == "windows":
        if signal not in _WINDOWS_SIGNALS:
            errors.append(not_supported(path / "stopSignal", Named(signal), _WINDOWS_SIGNALS))
    elif operating_system == "linux":
        errors += at.field("stopSignal")
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
    """Require whole pages."""
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES)).value()
    except ValueError:
        size = 0
    if size > 0 and Quantity.parse(text).value() % size == 0:
        return []
    return [invalid(path, text, f"{text} is not positive integer multiple of {name}")]


def validate_resources(path: Path, resources: Json, claims: set[str], *, pod_level: bool = False) -> list[FieldError]:
    """Validate requests and limits by name, and references to the pod's claims.

    `pod_level`: the resources of the whole pod, which supports fewer names than containers do.
    """
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
    """Validate references to the pod's claims, whole or by request, without duplicates."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    parts: Counter[str] = Counter()  # requests per claim
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
            elif request:
                parts[name] += 1
            else:
                errors += [duplicate(at, name)] * parts[name]
            seen.add(key)
        if name not in known:
            listed = ": " + ", ".join(sorted(known)) if known else " which is empty"
            errors.append(not_found(at, name, f"must be one of the names in pod.spec.resourceClaims{listed}"))
    return errors


def _resize_policy(at: At) -> list[FieldError]:
    """Validate resize policies, one per resource.

    All errors but duplicates have the path of the list, as upstream's do.
    """
    errors: list[FieldError] = []
    seen: set[str] = set()
    path = at.path / "resizePolicy"
    resources, ways = (known_values(ContainerResizePolicy, name) for name in ("resourceName", "restartPolicy"))
    for index, policy in enumerate(at.value.get("resizePolicy") or ()):
        name, how = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(path[index], Named(name)))
        seen.add(name)
        if name not in resources:
            errors.append(not_supported(path, Named(name), resources) if name else required(path))
        if how not in ways:
            errors.append(not_supported(path, Named(how), ways) if how else required(path))
        if at.env.restart_policy == "Never" and how != "NotRequired":
            errors.append(invalid(path, Named(how), "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return errors


# --- restarts
# ----------------------------------------------------------------------------------------------------------------------


def validate_restart_policy(path: Path, container: Json, *, init: bool = False) -> list[FieldError]:
    """Validate a container's restart policy and its rules by exit code.

    The rules of an init container without a policy are not validated.
    """
    policy = container.get("restartPolicy")
    if policy is None and not container.get("restartPolicyRules"):
        return []
    at = RULES.of(Container).at(path, container)
    errors = at.field("restartPolicy")
    if policy is None:
        errors.append(required(path / "restartPolicy", "must specify restartPolicy when restart rules are used"))
        if init:
            return errors
    return errors + at.field("restartPolicyRules")


_CONTAINER: Final = (
    "name", "image", "terminationMessagePolicy", ("ports", _ports), "env", ("envFrom", _env_from),
    ("volumeMounts", _mounts), ("volumeDevices", _devices), "imagePullPolicy", ("resources", _resources),
    ("resizePolicy", _resize_policy), "securityContext",
)  # fmt: skip
#: Validated by the rules of the owning spec, because they depend on the kind of container.
_BY_RULES: Final = (
    "restartPolicy", "restartPolicyRules", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"
)  # fmt: skip
RULES.set(ContainerPort, by_rules=("name", "containerPort", "hostPort", "protocol"))
RULES.set(HTTPGetAction, _http, by_rules=("path", "port", "scheme"))
RULES.set(SleepAction, _sleep)
RULES.set(LifecycleHandler, _handler, by_rules=_ACTIONS)
RULES.set(Lifecycle, by_rules=("postStart", "preStop", "stopSignal"))
RULES.set(Probe, _handler, *_PROBE_NUMBERS, "terminationGracePeriodSeconds", by_rules=_ACTIONS)
RULES.set(SecurityContext, *CONTAINER_SECURITY)
RULES.set(Container, *_CONTAINER, by_rules=_BY_RULES)
RULES.set(EphemeralContainer, *_CONTAINER, by_rules=_BY_RULES)
