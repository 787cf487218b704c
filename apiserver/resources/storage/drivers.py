"""Define CSIDrivers: the facts that Kubernetes needs about a CSI driver."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, duplicate, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types.storage import CSIDriver, CSIDriverSpec, TokenRequest
from apiserver.api.validation.changes import changes
from apiserver.api.validation.items import each_unique
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import count_generation

_CHANGES: Final = changes(CSIDriverSpec)
_SPEC: Final = Path("spec")
_TOKENS_IN_THE_OPEN: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible"
    " logging of tokens in volume attributes"
)


def _tokens(requests: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    for path, request, is_repeated in each_unique(_SPEC / "tokenRequests", requests, "audience"):
        if is_repeated:
            errors.append(duplicate(path / "audience", request.get("audience", "")))
        else:
            errors += RULES.of(TokenRequest).errors(path, request)
    return errors


RULES.set(
    CSIDriverSpec,
    by_rules=("fsGroupPolicy", "tokenRequests", "volumeLifecycleModes", "nodeAllocatableUpdatePeriodSeconds"),
)


class CSIDriverStrategy(Strategy):
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        self._prepare(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        self._prepare(ctx, obj, old)
        count_generation(CSIDriverSpec, obj, old)

    def _prepare(self, ctx: Context, obj: Json, old: Json | None) -> None:
        """Drop fields of disabled gates, and set the default of the newest field if its gate is enabled."""
        if ctx.features.enabled("VolumeLimitScaling"):
            obj["spec"].setdefault("preventPodSchedulingIfMissing", False)
        drop_disabled(ctx, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        here, in_secrets = RULES.of(CSIDriverSpec).at(_SPEC, spec), spec.get("serviceAccountTokenInSecrets")
        errors = here.field("fsGroupPolicy") + _tokens(spec.get("tokenRequests") or [])
        errors += here.fields("volumeLifecycleModes", "nodeAllocatableUpdatePeriodSeconds")
        if in_secrets is not None and not spec.get("tokenRequests"):
            detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid(_SPEC / "serviceAccountTokenInSecrets", in_secrets, detail))
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + _CHANGES.errors(_SPEC, obj["spec"], old["spec"])

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        spec = obj["spec"]
        open_tokens = spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None
        return [_TOKENS_IN_THE_OPEN] if open_tokens and ctx.features.enabled("CSIServiceAccountTokenSecrets") else []

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        changed = (obj["spec"].get("tokenRequests") or []) != (old["spec"].get("tokenRequests") or [])
        return self.warnings_on_create(ctx, obj) if changed else []


def _audiences(obj: Json) -> str:
    requests = obj["spec"].get("tokenRequests")
    return "<unset>" if requests is None else ",".join(request.get("audience", "") for request in requests)


def _flag(field: str) -> Any:
    return lambda obj: obj["spec"].get(field, CSIDriverSpec.fields[field].fills)


CSI_DRIVERS: Final = Resource(
    group="storage.k8s.io",
    kind="CSIDriver",
    plural="csidrivers",
    singular="csidriver",
    namespaced=False,
    versions=(Version(name="v1", schema=CSIDriver),),
    strategy=CSIDriverStrategy(),
    storage_prefix="csidrivers",
    columns=name_and_age(
        Column(
            name="AttachRequired",
            cell=_flag("attachRequired"),
            type="boolean",
            description="Whether volumes must be attached before use.",
        ),
        Column(
            name="PodInfoOnMount",
            cell=_flag("podInfoOnMount"),
            type="boolean",
            description="Whether the driver receives pod information.",
        ),
        Column(
            name="StorageCapacity",
            cell=_flag("storageCapacity"),
            type="boolean",
            description="Whether the scheduler considers storage capacity.",
        ),
        Column(name="TokenRequests", cell=_audiences, description="Audiences of the driver's tokens."),
        Column(
            name="RequiresRepublish",
            cell=_flag("requiresRepublish"),
            type="boolean",
            description="Whether volumes are republished periodically.",
        ),
        Column(
            name="Modes",
            cell=lambda obj: ",".join(obj["spec"].get("volumeLifecycleModes") or ()) or "<none>",
            description="Volume lifecycle modes.",
        ),
    ),
    unconditional_update=False,
    delete_returns_object=True,
)
