"""Define ReplicationControllers.

Rules: pkg/registry/core/replicationcontroller, pkg/apis/core/validation (ValidateReplicationController).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.schema.markers import If, Required, is_set
from apiserver.api.types.core.replication import (
    ReplicationController,
    ReplicationControllerSpec,
    ReplicationControllerStatus,
)
from apiserver.api.validation.compile import At
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.apps.rules import Env, always_runs, template
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.scales import SCALE_BY_LABELS
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.common.workloads import (
    counted,
    hostname_warnings,
    mismatch,
    status_errors,
    template_columns,
)
from apiserver.resources.pods.dropping import drop_disabled_in_template
from apiserver.resources.pods.gates import pod_gates
from apiserver.resources.pods.template import (
    default_template,
    template_to_hub,
    template_warnings,
)

_SPEC: Final = Path("spec")
_TEMPLATE: Final = _SPEC / "template"


def _selects_template(at: At) -> bool:
    labels = at.value["template"]["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (at.value.get("selector") or {}).items())


RULES.set(
    ReplicationControllerStatus, "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas",
    "observedGeneration", *counted("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
)  # fmt: skip
RULES.set(
    ReplicationControllerSpec, "minReadySeconds", "selector", "replicas",
    If(
        is_set("template"),
        (If(_selects_template, (), otherwise=(mismatch,)), template, *always_runs("ReplicationController")),
        otherwise=(Required("template"),),
    ),
    by_rules=("template",),
)  # fmt: skip


def _default_labels(obj: Json) -> None:
    """Default the labels to those of the template."""
    template, metadata = obj["spec"].get("template"), obj["metadata"]
    if template is not None and template["metadata"].get("labels") and not metadata.get("labels"):
        metadata["labels"] = dict(template["metadata"]["labels"])


def default(obj: Json, now: datetime) -> None:
    """Default selector and labels to the labels of the template."""
    spec = obj["spec"]
    template = spec.get("template")
    labels = template["metadata"].get("labels") if template is not None else None
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)
    _default_labels(obj)
    if template is not None:
        default_template(template)


def to_hub(obj: Json) -> Json:
    if obj["spec"].get("template") is not None:
        template_to_hub(obj["spec"]["template"])
    return obj


def _warnings(obj: Json) -> list[str]:
    template = obj["spec"].get("template")
    return [] if template is None else template_warnings(_TEMPLATE, template)


class ReplicationControllerStrategy(StatusStrategy):
    new_status: ClassVar[Json] = {"replicas": 0}
    spec_type = ReplicationControllerSpec
    checks_generate_name = False
    revalidates_metadata = False
    status_reset_fields = ("spec",)
    garbage_collection = "orphan"

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        drop_disabled_in_template(ctx, obj, old, "spec", "template")

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        _default_labels(obj)  # of the stored object, whose defaults are set when it is read

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return self._errors(ctx, obj["spec"], None)

    def _errors(self, ctx: Context, spec: Json, old: Json | None) -> list[FieldError]:
        gates = pod_gates(ctx, ((old or {}).get("template") or {}).get("spec"))
        return RULES.of(ReplicationControllerSpec).errors(_SPEC, spec, Env(gates))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self._errors(ctx, obj["spec"], old["spec"])

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return status_errors(ReplicationControllerStatus, obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return hostname_warnings(obj) + _warnings(obj)

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        """Return warnings about the stored template, as upstream does."""
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
        return _warnings(old) if changed else []


def _template(obj: Json) -> Json:
    template: Json = obj["spec"].get("template") or {"spec": {}}
    return template


def _count(field: str) -> Any:
    return lambda obj: (obj.get("status") or {}).get(field, 0)


REPLICATION_CONTROLLERS: Final = Resource(
    group="",
    kind="ReplicationController",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    namespaced=True,
    short_names=("rc",),
    categories=("all",),
    versions=(Version(name="v1", schema=ReplicationController, default=default, to_hub=to_hub),),
    strategy=ReplicationControllerStrategy(),
    storage_prefix="controllers",
    columns=(
        NAME,
        Column(
            name="Desired",
            cell=lambda obj: obj["spec"].get("replicas", 0),
            type="integer",
            description="Desired number of pods.",
        ),
        Column(name="Current", cell=_count("replicas"), type="integer", description="Current number of pods."),
        Column(name="Ready", cell=_count("readyReplicas"), type="integer", description="Number of ready pods."),
        AGE,
        *template_columns(_template, lambda obj: {"matchLabels": obj["spec"].get("selector") or {}}),
    ),
    subresources=(SCALE_BY_LABELS, Subresource(name="status")),
    field_labels={"status.replicas": lambda obj: str((obj.get("status") or {}).get("replicas", 0))},
    field_error_style="plain",
)
