"""The spec of claims and of claims in templates (api.md 4.1, 4.2), and what classes share with it: selectors and
configuration. What each field may be is said in its type; here is what crosses fields.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from apiserver.api import cel
from apiserver.api.fielderrors import FieldError, Named, Path, forbidden, internal, invalid, not_supported, required
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.compile import At, Rules
from apiserver.api.validation.formats import FORMATS

if TYPE_CHECKING:
    from apiserver.api.features import Features
    from apiserver.registry.context import Context

__all__ = [
    "RULES",
    "SPEC",
    "Env",
    "RequestNames",
    "configuration",
    "references",
    "request_reference",
    "validate_spec",
]

Json = dict[str, Any]
#: Sub-request names by request name; None for a request without alternatives.
RequestNames = dict[str, frozenset[str] | None]

SPEC: Final = Path("spec")
#: Checks of claims, templates and classes.
RULES: Final = Rules()

_ONE_WAY: Final = "exactly one of `exactly` or `firstAvailable` is required"
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


class Env:
    """What rules know besides a value: gates, the claim's `spec`, whether the claim is being `deleted`, and whether the
    value was `stored` before, when everything that is known may be used in it and sizes are not looked at.
    """

    __slots__ = ("_known", "deleted", "features", "spec", "stored")

    def __init__(self, features: Features, spec: Json, *, stored: bool = False, deleted: bool = False) -> None:
        self.features, self.spec, self.stored, self.deleted = features, spec, stored, deleted
        self._known: RequestNames | None = None

    @property
    def known(self) -> RequestNames:
        """What constraints, configuration and results may refer to."""
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


def _one_way(at: At) -> list[FieldError]:
    """A request names one way in which it can be satisfied, or several."""
    exactly, alternatives = at.value.get("exactly"), at.value.get("firstAvailable")
    if exactly is not None and alternatives:
        return [invalid(at.path, None, f"{_ONE_WAY}, but multiple fields are set")]
    if exactly is None and not alternatives:
        return [required(at.path, _ONE_WAY)]
    return at.field("exactly" if exactly is not None else "firstAvailable")


def _count(at: At) -> list[FieldError]:
    mode, count = at.value.get("allocationMode", ""), at.value.get("count", 0)
    if mode == "ExactCount":
        return [] if count > 0 else [invalid(at.path / "count", count, "must be greater than zero")]
    if mode == "All":
        detail = "must not be specified when allocationMode is 'All'"
        return [invalid(at.path / "count", count, detail)] if count else []
    return [not_supported(at.path / "allocationMode", Named(mode), TYPES.DeviceAllocationMode.enum)]


def _operator(at: At) -> list[FieldError]:
    """A toleration's operator and the value that it wants."""
    value, path = at.value.get("value", ""), at.path / "value"
    errors = at.field("operator")
    if errors:
        return errors
    if at.value["operator"] == "Exists":
        return [invalid(path, value, "must be empty for operator `Exists`")] if value else []
    return FORMATS["label-value"].errors(path, value)


# --- selectors
# ----------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _environment(features: Features, stored: bool) -> cel.Environment:
    return cel.device_environment(features.release, features, stored)


def _selector(at: At) -> list[FieldError]:
    """A CEL selector. What was stored was accepted before, so everything that is known may be used in it."""
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


def request_reference(path: Path, name: str, known: RequestNames) -> list[FieldError]:
    """`request` or `request/alternative` of this claim."""
    segments = name.split("/")
    if len(segments) > 2:
        return [invalid(path, name, _REFERENCE)]
    label = FORMATS["dns-label"]
    errors = [error for segment in segments if not label.fits(segment) for error in label.errors(path, segment)]
    found = segments[0] in known
    if found and len(segments) == 2:
        found = segments[1] in (known[segments[0]] or ())
    return errors if found else [*errors, invalid(path, name, _REFERENCE)]


def references(at: At) -> list[FieldError]:
    """The requests that constraints and configuration are for."""
    if not at.value.get("requests"):
        return []
    known = at.env.known
    return at.items("requests", lambda path, name: request_reference(path, name, known))


def _attribute(at: At) -> list[FieldError]:
    """A constraint is about one attribute."""
    for name in ("matchAttribute", "distinctAttribute"):
        if at.value.get(name) is not None:
            return at.field(name)
    if at.env.features.enabled("DRAConsumableCapacity"):
        # The text is upstream's, although nothing is set here.
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [required(at.path, detail)]
    return [required(at.path / "matchAttribute")]


def configuration(at: At) -> list[FieldError]:
    """Driver configuration."""
    return [required(at.path / "opaque")] if at.value.get("opaque") is None else at.field("opaque")


def _parameters(at: At) -> list[FieldError]:
    """Parameters. Those that were stored were accepted before, so their size is not looked at."""
    value = at.value.get("parameters")
    if not at.env.stored or value is None:
        return at.field("parameters")
    if isinstance(value, dict):
        return []
    return [invalid(at.path / "parameters", "<value omitted>", "must be a valid JSON object")]


RULES.set(TYPES.DeviceRequest, "name", _one_way, by_rules=("exactly", "firstAvailable"))
RULES.set(TYPES.ExactDeviceRequest, "deviceClassName", "selectors", _count, "tolerations", by_rules=("allocationMode",))
RULES.set(
    TYPES.DeviceSubRequest, "name", "deviceClassName", "selectors", _count, "tolerations", by_rules=("allocationMode",)
)
RULES.set(TYPES.DeviceToleration, "key", _operator, "effect", by_rules=("operator",))
RULES.set(TYPES.DeviceSelector, _selector, by_rules=("cel",))
RULES.set(TYPES.DeviceConstraint, references, _attribute, by_rules=("requests", "matchAttribute", "distinctAttribute"))
RULES.set(TYPES.DeviceClaimConfiguration, references, configuration, by_rules=("requests", "opaque"))
RULES.set(TYPES.DeviceClassConfiguration, configuration, by_rules=("opaque",))
RULES.set(TYPES.OpaqueDeviceConfiguration, "driver", _parameters, by_rules=("parameters",))
