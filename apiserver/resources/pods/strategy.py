"""Prepare and validate pods before they are stored. Rules: pkg/registry/core/pod/strategy.go, pkg/api/pod/util.go."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.core.pods import PodSpec
from apiserver.api.values.names import dns_label
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.pods import qos
from apiserver.resources.pods.conditions import set_condition
from apiserver.resources.pods.dropping import drop_disabled_in_pod

_HOSTNAME: Final = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is"
    " recommended: "
)


class PodStrategy(Strategy):
    reset_fields = ("status",)
    status_reset_fields = ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")
    grace_period = 30

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1
        given = (obj.get("status") or {}).get("qosClass")  # as upstream, a class that the client sends stays
        obj["status"] = {"phase": "Pending", "qosClass": given or qos.compute(obj["spec"])}
        drop_disabled_in_pod(ctx, obj, None)
        spec = obj["spec"]
        if spec.get("schedulingGates"):
            set_condition(
                obj["status"], "PodScheduled", "False", timestamp(ctx.now), reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            )  # fmt: skip
        if spec.get("affinity"):
            _merge_label_keys_of_affinity(spec["affinity"], obj["metadata"].get("labels") or {})
        for constraint in spec.get("topologySpreadConstraints") or ():
            _merge_label_keys(constraint, obj["metadata"].get("labels") or {})

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        drop_disabled_in_pod(ctx, obj, old)
        _count_generation(obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        obj["metadata"].pop("deletionTimestamp", None)
        _keep_metadata(obj, old, "ownerReferences")
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        _keep_observed_generation(status, before)
        drop_disabled_in_pod(ctx, obj, old)

    def prepare_for_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> None:
        """Restrict ephemeralcontainers and resize to their own fields."""
        if subresource == "ephemeralcontainers":
            spec: Json | None = _ephemeral_spec(obj["spec"], old["spec"])
        else:
            from apiserver.resources.pods.resize import POD_LEVEL, resized_spec

            spec = resized_spec(obj["spec"], old["spec"], ctx.features.enabled(POD_LEVEL))
        if spec is None:
            return
        managed = obj["metadata"].get("managedFields")
        obj["metadata"] = dict(old["metadata"])
        obj["metadata"].pop("resourceVersion", None)
        if managed is not None:
            obj["metadata"]["managedFields"] = managed
        obj["spec"], obj["status"] = spec, old.get("status", {})
        drop_disabled_in_pod(ctx, obj, old)
        _count_generation(obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        from apiserver.resources.pods.validation import validate_pod

        return validate_pod(ctx, obj, None)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        from apiserver.resources.pods.updates import validate_pod_update

        return validate_pod_update(ctx, obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        from apiserver.resources.pods.status import validate_pod_status_update

        return validate_pod_status_update(ctx, obj, old)

    def validate_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> list[FieldError]:
        if subresource == "ephemeralcontainers":
            from apiserver.resources.pods.updates import validate_ephemeral_containers_update

            return validate_ephemeral_containers_update(ctx, obj, old)
        from apiserver.resources.pods.resize import validate_resize

        return validate_resize(ctx, obj, old) if subresource == "resize" else []

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        from apiserver.resources.pods.warnings import pod_warnings

        texts = dns_label(obj["metadata"]["name"])
        hostname = [f"{_HOSTNAME}[{' '.join(texts)}]"] if texts else []
        return hostname + pod_warnings(obj)

    def warnings_on_status_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        from apiserver.resources.pods.warnings import status_warnings

        return status_warnings(obj.get("status") or {})

    def deletion_grace(self, ctx: Context, obj: Json, requested: int | None) -> int | None:
        """Return the grace period in seconds; 0 for finished pods and pods without a node."""
        period = requested if requested is not None else obj["spec"].get("terminationGracePeriodSeconds", 0)
        if not obj["spec"].get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            period = 0
        return 1 if period < 0 else period


def _keep_metadata(obj: Json, old: Json, field: str) -> None:
    metadata = obj["metadata"]
    metadata.pop(field, None)
    if field in old["metadata"]:
        metadata[field] = old["metadata"][field]


def _count_generation(obj: Json, old: Json) -> None:
    if not semantic_equal(PodSpec, obj["spec"], old["spec"]):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _keep_observed_generation(status: Json, before: Json) -> None:
    """Keep an observedGeneration that a client leaves out, in the status and per condition."""
    if not status.get("observedGeneration") and before.get("observedGeneration"):
        status["observedGeneration"] = before["observedGeneration"]
    known: dict[str, list[int]] = {}
    for condition in before.get("conditions") or ():
        known.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        generations = known.get(condition.get("type", ""))
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def _merge_label_keys(term: Json, labels: Json, mismatch: bool = False) -> None:
    """Merge matchLabelKeys into the selector, with the values of the pod's own labels."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))[: 2 if mismatch else 1]:
        for key in term.get(field) or ():
            if key in labels:
                selector.setdefault("matchExpressions", []).append(
                    {"key": key, "operator": operator, "values": [labels[key]]}
                )


def _merge_label_keys_of_affinity(affinity: Json, labels: Json) -> None:
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        for weighted in part.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_label_keys(weighted.get("podAffinityTerm") or {}, labels, mismatch=True)
        for term in part.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_label_keys(term, labels, mismatch=True)


def _ephemeral_spec(new: Json, old: Json) -> Json:
    spec = dict(old)
    spec.pop("ephemeralContainers", None)
    if new.get("ephemeralContainers"):
        spec["ephemeralContainers"] = new["ephemeralContainers"]
    return spec
