"""The spec of claims and of claims in templates (api.md 4.1, 4.2), and what classes share with it: selectors and
configuration.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from apiserver.api import cel
from apiserver.api.codec import raw_size
from apiserver.api.fielderrors import (
    FieldError,
    Named,
    Path,
    forbidden,
    internal,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.api.names import label_key, label_value
from apiserver.api.types.resource.v1 import TYPES
from apiserver.resources.devices import names
from apiserver.resources.devices.lists import bounded_list, bounded_set
from apiserver.resources.equality import semantic_equal
from apiserver.resources.internal import internal as shown

if TYPE_CHECKING:
    from apiserver.api.features import Features
    from apiserver.registry.context import Context

__all__ = [
    "SPEC",
    "RequestNames",
    "consumer",
    "request_names",
    "request_reference",
    "spec_is_immutable",
    "validate_configuration",
    "validate_selectors",
    "validate_spec",
]

Json = dict[str, Any]
#: Sub-request names by request name; None for a request without alternatives.
RequestNames = dict[str, frozenset[str] | None]

SPEC: Final = Path("spec")
REQUESTS_LIMIT: Final = 32
ALTERNATIVES_LIMIT: Final = 8
SELECTORS_LIMIT: Final = 32
CONSTRAINTS_LIMIT: Final = 32
CONFIG_LIMIT: Final = 32
PARAMETERS_LIMIT: Final = 10240

_ONE_WAY: Final = "exactly one of `exactly` or `firstAvailable` is required"
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")


def spec_is_immutable(spec: Json, old: Json, kind: Any = TYPES.ResourceClaimSpec) -> list[FieldError]:
    """A changed spec, shown whole."""
    if semantic_equal(kind, spec, old):
        return []
    return [invalid(SPEC, shown(kind, spec), "field is immutable")]


def request_names(spec: Json) -> RequestNames:
    """What constraints, configuration and results may refer to."""
    return {
        request.get("name", ""): (
            frozenset(sub.get("name", "") for sub in request["firstAvailable"])
            if request.get("firstAvailable")
            else None
        )
        for request in (spec.get("devices") or {}).get("requests") or ()
    }


def validate_spec(ctx: Context, spec: Json, path: Path) -> list[FieldError]:
    devices = spec.get("devices") or {}
    at = path / "devices"
    features = ctx.features
    errors = bounded_set(
        at / "requests",
        devices.get("requests"),
        REQUESTS_LIMIT,
        lambda p, request: _request(features, p, request),
        _name,
    )
    constraints, config = devices.get("constraints"), devices.get("config")
    if constraints or config:
        known = request_names(spec)
        errors += bounded_list(
            at / "constraints", constraints, CONSTRAINTS_LIMIT, lambda p, item: _constraint(features, p, item, known)
        )
        errors += bounded_list(
            at / "config", config, CONFIG_LIMIT, lambda p, item: _claim_configuration(p, item, known)
        )
    if spec.get("reservedFor") is not None:
        errors += consumer(path / "reservedFor", spec["reservedFor"])
    return errors


def consumer(path: Path, reference: Json) -> list[FieldError]:
    """A user of the claim: one that a status lists, or the one for which the spec reserves it. Group and resource may
    be any.
    """
    return [required(path / field) for field in ("resource", "name", "uid") if not reference.get(field)]


def _name(item: Json) -> str:
    name: str = item.get("name", "")
    return name


def _same(item: Any) -> Any:
    return item


def _request(features: Features, path: Path, request: Json) -> list[FieldError]:
    errors = names.label(path / "name", request.get("name", ""))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        errors.append(invalid(path, None, f"{_ONE_WAY}, but multiple fields are set"))
    elif exactly is not None:
        errors += _way(features, path / "exactly", exactly)
    elif alternatives:
        errors += bounded_set(
            path / "firstAvailable",
            alternatives,
            ALTERNATIVES_LIMIT,
            lambda p, sub: names.label(p / "name", sub.get("name", "")) + _way(features, p, sub),
            _name,
        )
    else:
        errors.append(required(path, _ONE_WAY))
    return errors


def _way(features: Features, path: Path, way: Json) -> list[FieldError]:
    """What `exactly` and each alternative have in common."""
    class_name = way.get("deviceClassName", "")
    errors = (
        names.class_name(path / "deviceClassName", class_name) if class_name else [required(path / "deviceClassName")]
    )
    if way.get("selectors"):
        errors += validate_selectors(features, path / "selectors", way["selectors"])
    mode, count = way.get("allocationMode", ""), way.get("count", 0)
    if mode == "ExactCount":
        if count <= 0:
            errors.append(invalid(path / "count", count, "must be greater than zero"))
    elif mode == "All":
        if count:
            errors.append(invalid(path / "count", count, "must not be specified when allocationMode is 'All'"))
    else:
        errors.append(not_supported(path / "allocationMode", Named(mode), ("All", "ExactCount")))
    for index, toleration in enumerate(way.get("tolerations") or ()):
        errors += _toleration((path / "tolerations")[index], toleration)
    return errors


def _toleration(path: Path, toleration: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    key, operator, value, effect = (toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
    if key:
        errors += [invalid(path / "key", key, text) for text in label_key(key)]
    if operator == "Exists":
        if value:
            errors.append(invalid(path / "value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += [invalid(path / "value", value, text) for text in label_value(value)]
    elif not operator:
        errors.append(required(path / "operator"))
    else:
        errors.append(not_supported(path / "operator", Named(operator), ("Equal", "Exists")))
    if effect and effect not in _TAINT_EFFECTS:
        errors.append(not_supported(path / "effect", Named(effect), _TAINT_EFFECTS))
    return errors


# --- selectors
# ----------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _environment(features: Features, stored: bool) -> cel.Environment:
    return cel.device_environment(features.release, features, stored)


def validate_selectors(
    features: Features, path: Path, selectors: list[Json] | None, stored: bool = False
) -> list[FieldError]:
    """CEL selectors. `stored` ones were accepted before, so everything that is known may be used in them."""
    return bounded_list(path, selectors, SELECTORS_LIMIT, lambda p, item: _selector(features, p, item, stored))


def _selector(features: Features, path: Path, selector: Json, stored: bool) -> list[FieldError]:
    if selector.get("cel") is None:
        return [required(path / "cel")]
    expression = selector["cel"].get("expression", "")
    if len(expression) > cel.MAX_EXPRESSION_LENGTH or (
        not expression.isascii() and len(expression.encode()) > cel.MAX_EXPRESSION_LENGTH
    ):
        return [too_long(path / "cel" / "expression", cel.MAX_EXPRESSION_LENGTH)]
    program = cel.compile(expression, _environment(features, stored))
    if isinstance(program, cel.CompileError):
        at = path / "cel" / "expression"
        return [internal(at, program.text) if program.internal else invalid(at, expression, program.text)]
    if program.max_cost > cel.COST_LIMIT:
        return [forbidden(path / "cel" / "expression", cel.TOO_EXPENSIVE)]
    return []


# --- constraints and configuration
# ----------------------------------------------------------------------------------------------------------


def request_reference(path: Path, name: str, known: RequestNames) -> list[FieldError]:
    """`request` or `request/alternative` of this claim."""
    segments = name.split("/")
    if len(segments) > 2:
        return [invalid(path, name, _REFERENCE)]
    errors = [error for segment in segments for error in names.label(path, segment)]
    found = segments[0] in known
    if found and len(segments) == 2:
        found = segments[1] in (known[segments[0]] or ())
    return errors if found else [*errors, invalid(path, name, _REFERENCE)]


def references(path: Path, listed: list[str] | None, known: RequestNames) -> list[FieldError]:
    return bounded_set(path, listed, REQUESTS_LIMIT, lambda p, name: request_reference(p, name, known), _same)


def _constraint(features: Features, path: Path, constraint: Json, known: RequestNames) -> list[FieldError]:
    errors = references(path / "requests", constraint.get("requests"), known)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        errors += names.fully_qualified_name(path / "matchAttribute", match)
    elif distinct is not None:
        errors += names.fully_qualified_name(path / "distinctAttribute", distinct)
    elif features.enabled("DRAConsumableCapacity"):
        # The text is upstream's, although nothing is set here.
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        errors.append(required(path, detail))
    else:
        errors.append(required(path / "matchAttribute"))
    return errors


def _claim_configuration(path: Path, config: Json, known: RequestNames) -> list[FieldError]:
    return references(path / "requests", config.get("requests"), known) + validate_configuration(path, config)


def validate_configuration(path: Path, config: Json, stored: bool = False) -> list[FieldError]:
    """Driver configuration. `stored` parameters were accepted before, so their size is not looked at."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(path / "opaque")]
    errors = names.driver_name(path / "opaque" / "driver", opaque.get("driver", ""))
    return errors + raw_object(path / "opaque" / "parameters", opaque.get("parameters"), PARAMETERS_LIMIT, stored)


def raw_object(path: Path, value: Any, limit: int, stored: bool = False) -> list[FieldError]:
    """A raw extension that must be a JSON object of limited size, as it was written."""
    if value is None:
        return [required(path)]
    if not stored and raw_size(value) > limit:
        return [too_long(path, limit)]
    return [] if isinstance(value, dict) else [invalid(path, "<value omitted>", "must be a valid JSON object")]
