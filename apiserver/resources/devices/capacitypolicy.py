"""Validate the request policies of shared capacities (pkg/apis/resource/validation)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, duplicate, forbidden, invalid, required, too_many
from apiserver.api.objects import Json
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.compile import At, most_items
from apiserver.api.values.quantity import Quantity

__all__ = ["validate_capacity"]


_MOST_VALUES: Final = most_items(TYPES.CapacityRequestPolicy, "validValues")
_BOTH: Final = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'


def validate_capacity(whole: At) -> list[FieldError]:
    """Validate a device's capacity. `env.shared`: several claims may share the device."""
    capacity = whole.value
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    at = whole.path / "requestPolicy"
    if not whole.env.shared:
        return [forbidden(at, "allowMultipleAllocations must be true")]
    values, bounds, default = policy.get("validValues"), policy.get("validRange"), policy.get("default")
    if values and bounds is not None:
        return [forbidden(at, _BOTH)]
    if not values and bounds is None:
        return []
    if default is None:
        return [required(at / "default", f"required when {'validValues' if values else 'validRange'} is defined")]
    total, wanted = Quantity.parse(capacity.get("value", "0")), Quantity.parse(default)
    if values:
        return _values(at / "validValues", [Quantity.parse(value) for value in values], wanted, total)
    return _range(at / "validRange", bounds, wanted, total)


def _values(path: Path, values: list[Quantity], default: Quantity, total: Quantity) -> list[FieldError]:
    errors = [
        invalid(path[index], str(value), "values must be sorted in ascending order")
        for index, value in enumerate(values) if index and values[index - 1] > value
    ]  # fmt: skip

    if len(values) > _MOST_VALUES:
        errors.append(too_many(path, len(values), _MOST_VALUES))
    else:
        for index, value in enumerate(values):
            if value > total:
                errors.append(invalid(path[index], str(value), f"option is larger than capacity value: {total}"))
        errors += _duplicates(path, [str(value.value()) for value in values])
    if len(values) > _MOST_VALUES or default not in values:
        errors.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))
    return errors


def _duplicates(path: Path, values: list[str]) -> list[FieldError]:
    """Report duplicates. Quantities are compared as integers, as upstream does."""
    return [duplicate(path[index], value) for index, value in enumerate(values) if value in values[:index]]


def _range(path: Path, bounds: Json, default: Quantity, total: Quantity) -> list[FieldError]:
    if bounds.get("min") is None:
        return [required(path / "min", "required when validRange is defined")]
    least = Quantity.parse(bounds["min"])
    most = Quantity.parse(bounds["max"]) if bounds.get("max") is not None else None
    errors: list[FieldError] = []
    if least > total:
        errors.append(invalid(path / "min", str(least), f"min is larger than capacity value: {total}"))
    if default < least:
        errors.append(invalid(path / "min", str(default), f"default is less than min: {least}"))
    if most is not None:
        if least > most:
            errors.append(invalid(path / "max", str(least), f"min is larger than max: {most}"))
        if most > total:
            errors.append(invalid(path / "max", str(most), f"max is larger than capacity value: {total}"))
        if default > most:
            errors.append(invalid(path / "max", str(default), f"default is more than max: {most}"))
    if bounds.get("step") is not None:
        errors += _step(
            path / "step", Quantity.parse(bounds["step"]), least, total, [default] if most is None else [default, most]
        )
    return errors


def _step(path: Path, step: Quantity, least: Quantity, total: Quantity, values: list[Quantity]) -> list[FieldError]:
    """Require that values are the minimum plus whole steps, in integers.

    Upstream fails with a server error if a step rounds to zero; here only the minimum is then a valid multiple.
    """
    errors: list[FieldError] = []
    first = least.add(step)
    if first > total:
        errors.append(invalid(path, str(step), f"one step {first} is larger than capacity value: {total}"))
    width = step.value()
    for value in values:
        distance = value.value() - least.value()
        if distance % width if width else distance:
            errors.append(invalid(path, str(value), f"value is not a multiple of a given step ({step}) from ({least})"))
    return errors
