"""Define LimitRanges. Rules: pkg/apis/core/validation (ValidateLimitRange).

The admission plugin LimitRanger applies them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from apiserver.api.errors.field_errors import FieldError, Named, Path, duplicate, forbidden, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.core.quotas import LimitRange
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import label_key
from apiserver.api.values.quantity import Quantity
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import NAME
from apiserver.resources.common.resource_names import is_overcommit_allowed, resource_name
from apiserver.resources.pods.containervalidation import container_resource_name
from apiserver.resources.pods.defaults import round_amounts

_LIMITS: Final = Path("spec.limits")
_TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
#: Ratios of smaller quantities are computed in thousandths.
_MILLI_LIMIT: Final = (1 << 63) // 1000


def default(obj: Json, now: datetime) -> None:
    for limit in obj["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            _complete(limit)
        for field in _AMOUNTS:
            if limit.get(field):
                round_amounts(limit[field])


def _complete(limit: Json) -> None:
    """Derive missing defaults of a container from the other bounds."""
    limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
    for field, amounts in (("default", limits), ("defaultRequest", requests)):
        if amounts:
            limit[field] = amounts


def _type(path: Path, kind: str) -> list[FieldError]:
    if texts := label_key(kind):
        return [invalid(path, Named(kind), text) for text in texts]
    return (
        []
        if "/" in kind or kind in _TYPES
        else [invalid(path, Named(kind), "must be a standard limit type or fully qualified")]
    )


def _names(path: Path, limit: Json, fields: tuple[str, ...]) -> Iterator[FieldError]:
    check = container_resource_name if limit.get("type") in ("Pod", "Container") else resource_name
    for field in fields:
        for name in limit.get(field) or ():
            yield from check((path / field).key(name), name)


def _limit(path: Path, limit: Json) -> list[FieldError]:
    kind = limit.get("type", "")
    errors = list(_names(path, limit, ("max", "min")))
    if kind == "Pod":
        errors += [
            forbidden(path / field, "may not be specified when `type` is 'Pod'")
            for field in ("default", "defaultRequest")
            if limit.get(field)
        ]
    else:
        errors += _names(path, limit, ("default", "defaultRequest"))
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(field) or {}) for field in ("min", "max")):
        errors.append(
            required(path / "limits", "either minimum or maximum storage value is required, but neither was provided")
        )
    errors += _names(path, limit, ("maxLimitRequestRatio",))
    ignored = ("default", "defaultRequest") if kind == "Pod" else ()
    amounts = {field: {} if field in ignored else limit.get(field) or {} for field in _AMOUNTS}
    for name in dict.fromkeys(name for field in _AMOUNTS for name in amounts[field]):
        errors += _bounds(
            path,
            name,
            *(Quantity.parse(amounts[field][name]) if name in amounts[field] else None for field in _AMOUNTS),
        )
    return errors


def _bounds(
    path: Path,
    name: str,
    most: Quantity | None,
    least: Quantity | None,
    limit: Quantity | None,
    request: Quantity | None,
    ratio: Quantity | None,
) -> list[FieldError]:
    """Validate the relation of the bounds of one resource.

    Two of upstream's texts name other values than they show.
    """
    found: list[tuple[str, Quantity, str]] = []
    if least is not None and most is not None and most < least:
        found.append(("min", least, f"min value {least} is greater than max value {most}"))
    if request is not None and least is not None and request < least:
        found.append(("defaultRequest", request, f"min value {least} is greater than default request value {request}"))
    if request is not None and most is not None and most < request:
        found.append(("defaultRequest", request, f"default request value {request} is greater than max value {most}"))
    if request is not None and limit is not None and limit < request:
        found.append(
            ("defaultRequest", request, f"default request value {request} is greater than default limit value {limit}")
        )
    if limit is not None and least is not None and limit < least:
        found.append(("default", least, f"min value {least} is greater than default value {limit}"))
    if limit is not None and most is not None and most < limit:
        found.append(("default", most, f"default value {limit} is greater than max value {most}"))
    if ratio is not None and ratio < Quantity.of(1):
        found.append(("maxLimitRequestRatio", ratio, f"ratio {ratio} is less than 1"))
    if ratio is not None and least is not None and most is not None and (text := _ratio(ratio, least, most)):
        found.append(("maxLimitRequestRatio", ratio, text))
    if limit is not None and request is not None and limit != request and not is_overcommit_allowed(name):
        found.append(
            ("defaultRequest", request, f"default value {limit} must equal to defaultRequest value {request} in {name}")
        )
    return [invalid((path / field).key(name), Named(str(value)), text) for field, value, text in found]


def _ratio(ratio: Quantity, least: Quantity, most: Quantity) -> str:
    """Return the problem of a ratio that exceeds max/min; "" if there is none."""
    small = all(amount.value() < _MILLI_LIMIT for amount in (ratio, least, most))
    allowed, low, high = (
        (ratio.value(-3) / 1000, least.value(-3), most.value(-3))
        if small
        else (float(ratio.value()), least.value(), most.value())
    )
    bound = high / low if low else float("inf")
    return f"ratio {ratio} is greater than max/min = {bound:f}" if allowed > bound else ""


class LimitRangeStrategy(Strategy):
    compares_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        """Give a LimitRange without a name a UUID as name.

        The UUID is derived from the uid, so that a fixed seed gives the same names again.
        """
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = str(uuid5(UUID(metadata["uid"]), "name"))

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        for path, limit, is_repeated in each_unique(_LIMITS, obj["spec"].get("limits"), "type"):
            kind = limit.get("type", "")
            errors += _type(path / "type", kind)
            if is_repeated:
                errors.append(duplicate(path / "type", Named(kind)))
            errors += _limit(path, limit)
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj)


LIMIT_RANGES: Final = Resource(
    group="",
    kind="LimitRange",
    plural="limitranges",
    singular="limitrange",
    namespaced=True,
    short_names=("limits",),
    versions=(Version(name="v1", schema=LimitRange, default=default),),
    strategy=LimitRangeStrategy(),
    storage_prefix="limitranges",
    columns=(
        NAME,
        Column(
            name="Created At",
            cell=lambda obj: obj["metadata"].get("creationTimestamp"),
            type="date",
            description="Creation time of the object.",
        ),
    ),
    create_on_update=True,
)
