"""Define DeviceTaintRules: taints for selected devices (pkg/apis/resource/validation)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.resource import v1alpha3, v1beta2
from apiserver.api.validation.compile import At
from apiserver.api.values.times import has_truncated, timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.metadata import keep_metadata_for_status
from apiserver.registry.definition.resource import Resource, Subresource, prerelease
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.conditions import validate_conditions
from apiserver.resources.devices.columns import TAINT_RULE_COLUMNS
from apiserver.resources.devices.devicevalidation import RULES, Env, effect_of_taint

_SPEC: Final = Path("spec")


def _validate_spec(spec: Json, old: Json | None) -> list[FieldError]:
    return RULES.of(v1alpha3.TYPES.DeviceTaintRuleSpec).errors(_SPEC, spec, Env(), old)


def _conditions(at: At) -> list[FieldError]:
    return validate_conditions(at.path / "conditions", at.value.get("conditions")) + at.field("conditions")


RULES.set(v1alpha3.TYPES.DeviceTaintRuleStatus, _conditions, by_rules=("conditions",))
RULES.set(v1alpha3.TYPES.DeviceTaint, "key", "value", effect_of_taint, by_rules=("effect",))


class DeviceTaintRuleStrategy(Strategy):
    revalidates_metadata = False
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {}
        obj["metadata"]["generation"] = 1

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _validate_spec(obj["spec"], None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        """Set the time of a taint with a new effect, unless the client sets another time."""
        obj["status"] = old.get("status", {})
        taint, before = obj["spec"]["taint"], old["spec"]["taint"]
        truncated = has_truncated(taint)
        if (
            taint.get("effect") != before.get("effect")
            and taint.get("timeAdded") == before.get("timeAdded")
            and not truncated
        ):
            taint["timeAdded"] = timestamp(ctx.now)
        if truncated or not semantic_equal(v1alpha3.TYPES.DeviceTaintRuleSpec, obj["spec"], old["spec"]):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _validate_spec(obj["spec"], old["spec"])

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        keep_metadata_for_status(obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return RULES.of(v1alpha3.TYPES.DeviceTaintRuleStatus).errors(Path("status"), obj.get("status") or {})


DEVICE_TAINT_RULES: Final = Resource(
    group="resource.k8s.io",
    kind="DeviceTaintRule",
    plural="devicetaintrules",
    singular="devicetaintrule",
    namespaced=False,
    versions=(
        prerelease("v1beta2", v1beta2.DeviceTaintRule, (1, 36)),
        prerelease("v1alpha3", v1alpha3.DeviceTaintRule, (1, 33)),
    ),
    strategy=DeviceTaintRuleStrategy(),
    storage_prefix="devicetaintrules",
    storage_version="resource.k8s.io/v1alpha3",
    columns=TAINT_RULE_COLUMNS,
    subresources=(Subresource(name="status", tables=False),),
    delete_returns_object=True,
)
