"""Classify and validate names of node resources: cpu, memory, hugepages-2Mi, example.com/gpu.

The classes of names are wire facts of pkg/apis/core/helper and pkg/apis/core/v1/helper.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid
from apiserver.api.values.names import label_key
from apiserver.api.values.quantity import Quantity

__all__ = [
    "NATIVE_PREFIX",
    "is_extended",
    "is_hugepage",
    "is_integer",
    "is_native",
    "is_overcommit_allowed",
    "is_standard_for_containers",
    "nonnegative",
    "quantity_value",
    "resource_name",
]

NATIVE_PREFIX: Final = "kubernetes.io/"
HUGEPAGES: Final = "hugepages-"
_REQUESTS: Final = "requests."

_STANDARD: Final = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)

NEGATIVE: Final = "must be greater than or equal to 0"
NOT_INTEGER: Final = "must be an integer"


def is_hugepage(name: str) -> bool:
    return name.startswith(HUGEPAGES)


def is_standard(name: str) -> bool:
    return name in _STANDARD or is_hugepage(name) or name.startswith("requests." + HUGEPAGES)


def is_standard_for_containers(name: str) -> bool:
    return name in _CONTAINER or is_hugepage(name)


def is_native(name: str) -> bool:
    """Return whether a resource is Kubernetes' own: without a domain, or with one of Kubernetes' domains."""
    return "/" not in name or NATIVE_PREFIX in name


def is_extended(name: str) -> bool:
    """Return whether a resource has a custom domain and is counted in integers."""
    return not is_native(name) and not name.startswith(_REQUESTS) and not label_key(_REQUESTS + name)


def is_integer(name: str) -> bool:
    return name in _INTEGER or is_extended(name)


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_hugepage(name)


def nonnegative(path: Path, value: Quantity) -> list[FieldError]:
    return [invalid(path, str(value), NEGATIVE)] if value.sign < 0 else []


def quantity_value(path: Path, name: str, text: str) -> list[FieldError]:
    """Validate a quantity: not negative, and an integer for resources counted in integers."""
    value = Quantity.parse(text)
    errors = nonnegative(path, value)
    if is_integer(name) and value.value(-3) % 1000:
        errors.append(invalid(path, Named(text), NOT_INTEGER))
    return errors


def resource_name(path: Path, name: str) -> list[FieldError]:
    """Validate the syntax of a name, and that a name without a domain is known."""
    if texts := label_key(name):
        return [invalid(path, Named(name), text) for text in texts]
    if "/" not in name and not is_standard(name):
        return [invalid(path, Named(name), "must be a standard resource type or fully qualified")]
    return []
