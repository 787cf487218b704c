"""LimitRanger: containers, pods and volume claims keep to the LimitRanges of their namespace.

Containers without requests and limits get the defaults.
Facts: plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from apiserver.api.helpers.pod_requests import Quantities, pod_quantities, quantities
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["LimitRanger"]


ANNOTATION: Final = "kubernetes.io/limit-ranger"
_RANGES: Final = ("", "limitranges")
_KINDS: Final = (("", "pods"), ("", "persistentvolumeclaims"))
_POD_LEVEL: Final = "PodLevelResources"
_MILLI: Final = -3
#: The largest amount that is compared in thousandths.
_MAX_MILLI: Final = ((1 << 63) - 1) // 1000


class LimitRanger(Plugin):
    name = "LimitRanger"
    operations = frozenset({"CREATE", "UPDATE"})
    configured_by = _RANGES

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) in _KINDS

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.plural == "pods" and _is_limited(attributes):
            assert attributes.obj is not None
            for limits in _ranges(attributes):
                _default(attributes.obj, limits)

    def validate(self, attributes: Attributes) -> None:
        if not _is_limited(attributes):
            return
        assert attributes.obj is not None
        for limits in _ranges(attributes):
            found = list(_problems(attributes, limits))
            problems = list(dict.fromkeys(found))
            if problems:
                text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
                raise forbidden(attributes, text)


def _is_limited(attributes: Attributes) -> bool:
    """Return whether the limits apply: to new objects, changed claims and resizes, but not during a deletion."""
    if attributes.obj is None or (attributes.old or {}).get("metadata", {}).get("deletionTimestamp"):
        return False
    pods, update = attributes.resource.plural == "pods", attributes.operation == "UPDATE"
    if attributes.subresource:
        return pods and update and attributes.subresource == "resize"
    return not (pods and update)


def _ranges(attributes: Attributes) -> Iterator[list[Json]]:
    """Yield the limits of each LimitRange of the namespace."""
    for found in attributes.ctx.all_of(*_RANGES):
        if found["metadata"].get("namespace") == attributes.namespace:
            yield found["spec"].get("limits") or []


def _default(pod: Json, limits: list[Json]) -> None:
    """Set the default requests and limits of containers, and record them in an annotation of the pod."""
    requests: Json = {}
    most: Json = {}
    for limit in limits:
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            most.update(limit.get("default") or {})
    done: list[str] = []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field) or ():
            added = []
            for part, defaults, word in (("limits", most, "limit"), ("requests", requests, "request")):
                given = (container.get("resources") or {}).get(part) or {}
                names = sorted(defaults.keys() - given.keys())
                if names:
                    resources = container.setdefault("resources", {})
                    resources[part] = {**given, **{name: defaults[name] for name in names}}
                    added.append(f"{', '.join(names)} {word} for {what} {container['name']}")
            done += reversed(added)
    if done:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(done)}"}


def _problems(attributes: Attributes, limits: list[Json]) -> Iterator[str]:
    obj = attributes.obj or {}
    for limit in limits:
        kind = limit.get("type", "")
        if attributes.resource.plural != "pods":
            if kind == "PersistentVolumeClaim":
                asked = quantities((obj["spec"].get("resources") or {}).get("requests"))
                yield from _check_bounds(limit, kind, asked, {}, "min", _check_min)
                yield from _check_bounds(limit, kind, asked, {}, "max", _check_max_request)
            continue
        if kind == "Container":
            for container in (*(obj["spec"].get("containers") or ()), *(obj["spec"].get("initContainers") or ())):
                resources = container.get("resources") or {}
                yield from _check_limit(
                    limit, kind, quantities(resources.get("requests")), quantities(resources.get("limits"))
                )
        elif kind == "Pod":
            of = partial(pod_quantities, obj["spec"], pod_level=attributes.ctx.features.enabled(_POD_LEVEL))
            yield from _check_limit(limit, kind, of("requests"), of("limits"))


def _check_limit(limit: Json, kind: str, requests: Quantities, most: Quantities) -> Iterator[str]:
    yield from _check_bounds(limit, kind, requests, most, "min", _check_min)
    yield from _check_bounds(limit, kind, requests, most, "max", _check_max)
    yield from _check_bounds(limit, kind, requests, most, "maxLimitRequestRatio", _check_ratio)


_Rule = Callable[[str, str, Quantity, Quantity | None, Quantity | None], str]


def _check_bounds(
    limit: Json, kind: str, requests: Quantities, most: Quantities, part: str, rule: _Rule
) -> Iterator[str]:
    bounds: Mapping[str, str] = limit.get(part) or {}
    for name in sorted(bounds):
        text = rule(name, kind, Quantity.parse(str(bounds[name])), requests.get(name), most.get(name))
        if text:
            yield text


def _values(*amounts: Quantity | None) -> list[int]:
    """Return amounts in a common unit: in thousandths if all of them fit, else whole."""
    whole = [0 if amount is None else amount.value() for amount in amounts]
    if all(value <= _MAX_MILLI for value in whole):
        return [0 if amount is None else amount.value(_MILLI) for amount in amounts]
    return whole


def _check_min(name: str, kind: str, bound: Quantity, asked: Quantity | None, most: Quantity | None) -> str:
    least, request, limit = _values(bound, asked, most)
    start = f"minimum {name} usage per {kind} is {bound}"
    if asked is None:
        return f"{start}.  No request is specified"
    if request < least:
        return f"{start}, but request is {asked}"
    return f"{start}, but limit is {most}" if most is not None and limit < least else ""


def _check_max(name: str, kind: str, bound: Quantity, asked: Quantity | None, most: Quantity | None) -> str:
    top, request, limit = _values(bound, asked, most)
    start = f"maximum {name} usage per {kind} is {bound}"
    if most is None:
        return f"{start}.  No limit is specified"
    if limit > top:
        return f"{start}, but limit is {most}"
    return f"{start}, but request is {asked}" if asked is not None and request > top else ""


def _check_max_request(name: str, kind: str, bound: Quantity, asked: Quantity | None, most: Quantity | None) -> str:
    top, request = _values(bound, asked)
    start = f"maximum {name} usage per {kind} is {bound}"
    if asked is None:
        return f"{start}.  No request is specified"
    return f"{start}, but request is {asked}" if request > top else ""


def _check_ratio(name: str, kind: str, bound: Quantity, asked: Quantity | None, most: Quantity | None) -> str:
    _, request, limit = _values(bound, asked, most)
    start = f"{name} max limit to request ratio per {kind} is {bound}"
    if asked is None or not request:
        return f"{start}, but no request is specified or request is 0"
    if most is None or not limit:
        return f"{start}, but no limit is specified or limit is 0"
    ratio = limit / request
    fine = bound.value() <= _MAX_MILLI
    over = ratio * 1000 > bound.value(_MILLI) if fine else ratio > bound.value()
    return f"{start}, but provided ratio is {ratio:f}" if over else ""
