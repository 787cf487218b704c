"""CSIDrivers: what Kubernetes must know of a CSI driver."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, duplicate, invalid, not_supported
from apiserver.api.types.storage import CSIDriver, CSIDriverSpec
from apiserver.api.validation.changes import changes
from apiserver.registry.context import Context
from apiserver.registry.resource import Column, Resource, Version
from apiserver.registry.strategy import Strategy
from apiserver.resources.columns import name_and_age
from apiserver.resources.gating import drop_disabled
from apiserver.resources.workloads import count_generation

Json = dict[str, Any]

_CHANGES: Final = changes(CSIDriverSpec)
_SPEC: Final = Path("spec")
_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES: Final = ("Persistent", "Ephemeral")
_LEAST_UPDATE_PERIOD: Final = 10
_LEAST_TOKEN_SECONDS: Final = 600
_MOST_TOKEN_SECONDS: Final = 1 << 32
_TOKENS_IN_THE_OPEN: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible"
    " logging of tokens in volume attributes"
)


def _tokens(requests: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        path, audience, seconds = (
            (_SPEC / "tokenRequests")[index],
            request.get("audience", ""),
            request.get("expirationSeconds"),
        )
        if audience in audiences:
            errors.append(duplicate(path / "audience", audience))
            continue
        audiences.add(audience)
        if seconds is not None and seconds < _LEAST_TOKEN_SECONDS:
            errors.append(
                invalid(path / "expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
            )
        if seconds is not None and seconds > _MOST_TOKEN_SECONDS:
            errors.append(
                invalid(path / "expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
            )
    return errors


class CSIDriverStrategy(Strategy):
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        self._prepare(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        self._prepare(ctx, obj, old)
        count_generation(CSIDriverSpec, obj, old)

    def _prepare(self, ctx: Context, obj: Json, old: Json | None) -> None:
        """Fields by their gates; the youngest has its default only with its gate."""
        if ctx.features.enabled("VolumeLimitScaling"):
            obj["spec"].setdefault("preventPodSchedulingIfMissing", False)
        drop_disabled(ctx, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        if spec["fsGroupPolicy"] not in _GROUP_POLICIES:
            errors.append(not_supported(_SPEC / "fsGroupPolicy", Named(spec["fsGroupPolicy"]), _GROUP_POLICIES))
        errors += _tokens(spec.get("tokenRequests") or [])
        errors += [
            not_supported(_SPEC / "volumeLifecycleModes", Named(mode), _LIFECYCLES)
            for mode in spec.get("volumeLifecycleModes") or () if mode not in _LIFECYCLES
        ]  # fmt: skip
        period, in_secrets = spec.get("nodeAllocatableUpdatePeriodSeconds"), spec.get("serviceAccountTokenInSecrets")
        if period is not None and period < _LEAST_UPDATE_PERIOD:
            at = _SPEC / "nodeAllocatableUpdatePeriodSeconds"
            errors.append(invalid(at, period, f"must be greater than or equal to {_LEAST_UPDATE_PERIOD} seconds"))
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
            description="Whether volumes must be attached first.",
        ),
        Column(
            name="PodInfoOnMount",
            cell=_flag("podInfoOnMount"),
            type="boolean",
            description="Whether the driver is told about the pod.",
        ),
        Column(
            name="StorageCapacity",
            cell=_flag("storageCapacity"),
            type="boolean",
            description="Whether the scheduler asks for its capacity.",
        ),
        Column(name="TokenRequests", cell=_audiences, description="Audiences of the tokens that it gets."),
        Column(
            name="RequiresRepublish",
            cell=_flag("requiresRepublish"),
            type="boolean",
            description="Whether volumes are published again and again.",
        ),
        Column(
            name="Modes",
            cell=lambda obj: ",".join(obj["spec"].get("volumeLifecycleModes") or ()) or "<none>",
            description="Lives of its volumes.",
        ),
    ),
    unconditional_update=False,
    delete_returns_object=True,
)
