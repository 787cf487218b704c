"""Validate specs of claims and templates, selectors and configuration of classes, and the status of claims.

The types define the rules of single fields; this module has the rules across fields. Facts:
pkg/apis/resource/validation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from apiserver import cel
from apiserver.api.errors.field_errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    internal,
    invalid,
    required,
)
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.markers import Required
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.compile import At, Rules
from apiserver.api.validation.formats import FORMATS
from apiserver.api.validation.internal_values import internal as internal_form
from apiserver.api.values.networks import canonical_interface
from apiserver.api.values.times import has_truncated
from apiserver.resources.common.conditions import validate_conditions
from apiserver.resources.common.node_selectors import validate_node_selector
from apiserver.resources.devices.bindingconditions import BINDING_CONDITIONS

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.registry.definition.context import Context

__all__ = [
    "RULES",
    "SPEC",
    "STATUS_CHECKS",
    "Env",
    "RequestNames",
    "device_identity",
    "results_of",
    "validate_spec",
]

#: Subrequest names by request name; None for a request without alternatives.
RequestNames = dict[str, frozenset[str] | None]
Identity = tuple[str, str, str, str]

SPEC: Final = Path("spec")
#: Checks of claims, templates and classes.
RULES: Final = Rules()

_DELETED: Final = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


class Env:
    """Context of the rules: gates, the claim's `spec`, and whether the claim is being `deleted`.

    `stored`: the value was stored before, so it may use all known CEL functions and its size is not limited.
    """

    __slots__ = ("_known", "deleted", "features", "spec", "stored")

    def __init__(self, features: Features, spec: Json, *, stored: bool = False, deleted: bool = False) -> None:
        self.features, self.spec, self.stored, self.deleted = features, spec, stored, deleted
        self._known: RequestNames | None = None

    @property
    def known(self) -> RequestNames:
        """Return the request names that constraints, configuration and results may refer to."""
        if self._known is None:
            self._known = {
                request.get("name", ""): (
                    frozenset(sub.get("name", "") for sub in request["firstAvailable"])
                    if request.get("firstAvailable")
                    else None
                )
                for request in (self.spec.get("devices") or {}).get("requests") or ()
            }
        return self._known


def validate_spec(ctx: Context, spec: Json, path: Path) -> list[FieldError]:
    return RULES.of(TYPES.ResourceClaimSpec).errors(path, spec, Env(ctx.features, spec))


# --- selectors
# ----------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _environment(features: Features, stored: bool) -> cel.Environment:
    return cel.device_environment(features.release, features, stored)


def _selector(at: At) -> list[FieldError]:
    """Compile a CEL selector. A stored selector was accepted before, so it may use every known function."""
    if at.value.get("cel") is None:
        return [required(at.path / "cel")]
    if errors := at.field("cel"):
        return errors
    expression = at.value["cel"].get("expression", "")
    program = cel.compile(expression, _environment(at.env.features, at.env.stored))
    path = at.path / "cel" / "expression"
    if isinstance(program, cel.CompileError):
        return [internal(path, program.text) if program.internal else invalid(path, expression, program.text)]
    return [forbidden(path, cel.TOO_EXPENSIVE)] if program.max_cost > cel.COST_LIMIT else []


# --- constraints and configuration
# ----------------------------------------------------------------------------------------------------------------------


def _request_reference(path: Path, name: str, known: RequestNames) -> list[FieldError]:
    """Require `request` or `request/subrequest` of this claim."""
    segments = name.split("/")
    if len(segments) > 2:
        return [invalid(path, name, _REFERENCE)]
    label = FORMATS["dns-label"]
    errors = [error for segment in segments if not label.fits(segment) for error in label.errors(path, segment)]
    found = segments[0] in known
    if found and len(segments) == 2:
        found = segments[1] in (known[segments[0]] or ())
    return errors if found else [*errors, invalid(path, name, _REFERENCE)]


def _references(at: At) -> list[FieldError]:
    """Validate the requests that a constraint or configuration refers to."""
    if not at.value.get("requests"):
        return []
    known = at.env.known
    return at.items("requests", lambda path, name: _request_reference(path, name, known))


def _attribute(at: At) -> list[FieldError]:
    """Require exactly one attribute per constraint."""
    for name in ("matchAttribute", "distinctAttribute"):
        if at.value.get(name) is not None:
            return at.field(name)
    if at.env.features.enabled("DRAConsumableCapacity"):
        # Upstream uses this text although no field is set.
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [required(at.path, detail)]
    return [required(at.path / "matchAttribute")]


def _parameters(at: At) -> list[FieldError]:
    """Validate the parameters. Stored parameters were accepted before, so their size is not limited."""
    value = at.value.get("parameters")
    if not at.env.stored or value is None:
        return at.field("parameters")
    if isinstance(value, dict):
        return []
    return [invalid(at.path / "parameters", "<value omitted>", "must be a valid JSON object")]


RULES.set(TYPES.DeviceSelector, _selector, by_rules=("cel",))
RULES.set(TYPES.DeviceConstraint, _references, _attribute, by_rules=("requests", "matchAttribute", "distinctAttribute"))
RULES.set(TYPES.DeviceClaimConfiguration, _references, Required("opaque"), "opaque", by_rules=("requests",))
RULES.set(TYPES.DeviceClassConfiguration, Required("opaque"), "opaque")
RULES.set(TYPES.OpaqueDeviceConfiguration, "driver", _parameters, by_rules=("parameters",))


# --- the status
# ----------------------------------------------------------------------------------------------------------------------


def device_identity(device: Json) -> Identity:
    """Return the identity of an allocated device: driver, pool, device and share."""
    return device.get("driver", ""), device.get("pool", ""), device.get("device", ""), device.get("shareID") or ""


def results_of(status: Json) -> list[Json]:
    """Return the allocated devices."""
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def _devices(at: At) -> list[FieldError]:
    """Require that reports refer to allocated devices, each once."""
    devices = at.value["devices"]
    seen = set()
    errors = at.field("devices", frozenset(map(device_identity, results_of(at.value))))
    for index, device in enumerate(devices):
        identity = device_identity(device)
        if identity in seen:
            errors.append(duplicate((at.path / "devices")[index], _shown_identity(device)))
        seen.add(identity)
    return errors


def _reservations(at: At) -> list[FieldError]:
    reserved = at.value["reservedFor"]
    if not reserved:
        return []
    if at.value.get("allocation") is None:
        return [forbidden(at.path / "reservedFor", "may not be specified when `allocated` is not set")]
    known = (at.old or {}).get("reservedFor") or []
    adds = at.env.deleted and any(entry not in known for entry in reserved)
    return [forbidden(at.path / "reservedFor", _DELETED)] if adds else []


def _allocation(at: At) -> list[FieldError]:
    """Validate a new allocation, and reject changes of an existing one."""
    allocation, before = at.value.get("allocation"), (at.old or {}).get("allocation")
    if allocation is None:
        return []
    if before is None:
        return at.field("allocation")
    changed = not semantic_equal(TYPES.AllocationResult, allocation, before)
    if changed or has_truncated(allocation.get("allocationTimestamp")):
        return [
            invalid(at.path / "allocation", internal_form(TYPES.AllocationResult, allocation), "field is immutable")
        ]
    return []


def _shown_identity(device: Json) -> Json:
    driver, pool, name, share = device_identity(device)
    return {"Driver": driver, "Pool": pool, "Device": name, "ShareID": share}


def _allocated(at: At) -> list[FieldError]:
    """Require an allocated device. `env` are the allocated devices."""
    if device_identity(at.value) in at.env:
        return []
    return [invalid(at.path, _shown_identity(at.value), "must be an allocated device in the claim")]


def _conditions(at: At) -> list[FieldError]:
    return at.field("conditions") + validate_conditions(at.path / "conditions", at.value.get("conditions"))


def _addresses(at: At) -> list[FieldError]:
    return at.items("ips", canonical_interface)


def _node_selector(at: At) -> list[FieldError]:
    return validate_node_selector(at.path / "nodeSelector", at.value["nodeSelector"])


def _request(at: At) -> list[FieldError]:
    return _request_reference(at.path / "request", at.value.get("request", ""), at.env.known)


RULES.set(
    TYPES.ResourceClaimStatus,
    "reservedFor", ("devices", _devices), ("reservedFor", _reservations), _allocation,
    by_rules=("allocation",),
)  # fmt: skip
RULES.set(
    TYPES.AllocatedDeviceStatus,
    "driver", "pool", "device", "shareID", _allocated, _conditions, "data", "networkData",
    by_rules=("conditions",),
)  # fmt: skip
RULES.set(TYPES.NetworkDeviceData, "interfaceName", "hardwareAddress", _addresses, by_rules=("ips",))
RULES.set(TYPES.AllocationResult, "devices", ("nodeSelector", _node_selector))
RULES.set(
    TYPES.DeviceRequestAllocationResult,
    _request, "driver", "pool", "device", *BINDING_CONDITIONS, "shareID",
    by_rules=("tolerations",),
)  # fmt: skip
RULES.set(
    TYPES.DeviceAllocationConfiguration, "source", _references, Required("opaque"), "opaque", by_rules=("requests",)
)


STATUS_CHECKS: Final = RULES.of(TYPES.ResourceClaimStatus)
