"""Selectors on devices: the variable `device`, its type and bounds in every release, and its values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.quantity import Quantity
from apiserver.api.values.semver import Semver
from apiserver.cel.cost.estimate import Bounds
from apiserver.cel.engine import Language, build_language
from apiserver.cel.language.declarations import function, method
from apiserver.cel.language.types import ANY, BOOL, DYN, STRING, Type, map_of, struct
from apiserver.cel.language.values import CelError, OpenMap
from apiserver.cel.library.kubernetes import QUANTITY
from apiserver.cel.library.lists import includes

if TYPE_CHECKING:
    from apiserver.cel import Device

DEVICE: Final = "kubernetes.DRADevice"
_MAX_NAME: Final = 63
_MAX_ID: Final = 32
_MAX_ENTRIES: Final = 32
_MAX_VALUE: Final = 64
NEWEST: Final = (99, 0)


def _bounds() -> Bounds:
    def by_domain(element: Bounds, *, named: bool) -> Bounds:
        inner = Bounds(_MAX_ENTRIES, key=Bounds(_MAX_ID), element=element, named=named)
        return Bounds(_MAX_ENTRIES, key=Bounds(_MAX_NAME), element=inner)

    return Bounds(
        fields={
            "driver": Bounds(_MAX_NAME),
            "attributes": by_domain(Bounds(_MAX_VALUE), named=True),
            "capacity": by_domain(Bounds(), named=False),
            "allowMultipleAllocations": Bounds(1),
        }
    )


@lru_cache(maxsize=32)
def device_language(compatible: tuple[int, int], *, consumable: bool, list_values: bool, stored: bool) -> Language:
    """Return the language of selectors. `compatible` is the oldest release that must understand new expressions."""
    release = NEWEST if stored else compatible
    value: Type = DYN if list_values else ANY
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, value)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if consumable or stored:
        fields["allowMultipleAllocations"] = BOOL
    extra = []
    if list_values or stored:
        extra.append(function("includes", method("dra_includes_dyn_dyn", (DYN, DYN), BOOL, includes)))
    return build_language(
        release, {"device": struct(DEVICE)}, {DEVICE: fields}, {"device": _bounds()}, extra, bindings=True
    )


@remembered(4096)
def _quantity(text: str) -> Quantity:
    return Quantity.parse(text)


def _semver(text: str) -> Semver:
    try:
        return Semver.parse(text)
    except ValueError as error:
        raise CelError(f"parse semantic version: {error}") from None


def _attribute_value(attribute: Mapping[str, Any], *, list_values: bool) -> Any:
    if list_values:
        for name in ("ints", "bools", "strings"):
            if attribute.get(name) is not None:
                return list(attribute[name])
        if attribute.get("versions") is not None:
            return [_semver(text) for text in attribute["versions"]]
    for name in ("int", "bool", "string"):
        if attribute.get(name) is not None:
            return attribute[name]
    if attribute.get("version") is not None:
        return _semver(attribute["version"])
    raise CelError("unsupported attribute value")


def bind(device: Device, *, list_values: bool) -> dict[str, Any] | str:
    """Return the value of `device`, or an error text if an attribute has no value that expressions can use."""
    driver = device.driver
    values: OpenMap = OpenMap()
    for name, attribute in device.attributes.items():
        domain, slash, identifier = name.partition("/")
        try:
            value = _attribute_value(attribute, list_values=list_values)
        except CelError as error:
            return f"attribute {name}: {error}"
        if not slash:
            domain, identifier = driver, name
        values.setdefault(domain, {})[identifier] = value
    amounts: OpenMap = OpenMap()
    for name, entry in device.capacity.items():
        domain, slash, identifier = name.partition("/")
        if not slash:
            domain, identifier = driver, name
        amounts.setdefault(domain, {})[identifier] = _quantity(str(entry["value"]))
    return {
        "driver": driver,
        "attributes": values,
        "capacity": amounts,
        "allowMultipleAllocations": device.allow_multiple_allocations,
    }
