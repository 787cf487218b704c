"""The usage that annotations of pods and nodes set, because emulated containers use nothing.

On a Pod, `kubedra.dev/usage.RESOURCE` is its usage and `kubedra.dev/usage.RESOURCE.CONTAINER` that of one container.
The usage of a Node is its annotation, or the sum of its pods. RESOURCE is cpu or memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.quantity import Format, Quantity

__all__ = ["RESOURCES", "container_usage", "node_usage"]

RESOURCES: Final = ("cpu", "memory")
_PREFIX: Final = "kubedra.dev/usage."
_ZERO: Final = Quantity.of(0)
Amounts = dict[str, Quantity]


def container_usage(pod: Mapping[str, Json]) -> dict[str, Amounts]:
    """Return the usage by container; empty if no annotation sets one. Invalid quantities are ignored.

    The usage of the pod that no container has belongs to the first container without an annotation.
    """
    names = [container["name"] for container in pod["spec"]["containers"]]
    found: dict[str, Amounts] = {name: {} for name in names}
    for resource in RESOURCES:
        own = {name: amount for name in names if (amount := _annotated(pod, f"{resource}.{name}")) is not None}
        whole = _annotated(pod, resource)
        if whole is not None:
            rest = whole.sub(_sum(own.values()))
            first = next((name for name in names if name not in own), names[0])
            own[first] = own.get(first, _ZERO).add(rest) if rest.sign > 0 else own.get(first, _ZERO)
        for name, amount in own.items():
            found[name][resource] = amount
    if not any(found.values()):
        return {}
    return {name: {resource: amounts.get(resource, _ZERO) for resource in RESOURCES} for name, amounts in found.items()}


def node_usage(node: Mapping[str, Json], pods: Iterable[Mapping[str, Json]]) -> Amounts:
    """Return the usage of a node on which these pods run."""
    used = [amounts for pod in pods for amounts in container_usage(pod).values()]
    return {
        resource: _sum(each[resource] for each in used) if (own := _annotated(node, resource)) is None else own
        for resource in RESOURCES
    }


def _annotated(obj: Mapping[str, Json], name: str) -> Quantity | None:
    text = (obj["metadata"].get("annotations") or {}).get(f"{_PREFIX}{name}")
    if text is None:
        return None
    try:
        found = Quantity.parse(str(text))
    except ValueError:
        return None
    return found if found.sign >= 0 else None


def _sum(amounts: Iterable[Quantity]) -> Quantity:
    total: Quantity | None = None
    for amount in amounts:
        total = amount if total is None else total.add(amount)
    return total or Quantity.of(0, Format.DECIMAL_SI)
