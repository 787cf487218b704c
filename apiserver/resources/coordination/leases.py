"""Leases (coordination.k8s.io). Rules: pkg/apis/coordination/validation."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types.coordination import Lease, LeaseSpec
from apiserver.api.values.names import label_key
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES

_SPEC: Final = Path("spec")


class LeaseStrategy(Strategy):
    checks_finalizer_names = False
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        drop_disabled(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        drop_disabled(ctx, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        errors = RULES.of(LeaseSpec).errors(_SPEC, spec)
        strategy = spec.get("strategy")
        if strategy is not None:
            errors += lease_strategy(strategy, _SPEC / "strategy")
        if spec.get("preferredHolder") and not strategy:
            errors.append(forbidden(_SPEC / "preferredHolder", "may only be specified if `strategy` is defined"))
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj)


def lease_strategy(strategy: str, path: Path) -> list[FieldError]:
    """Require a known strategy or a qualified custom one.

    The path names the field twice, as upstream's does.
    """
    at = path / "strategy"
    if "/" in strategy:
        return [invalid(at, Named(strategy), text) for text in label_key(strategy)]
    return (
        [] if strategy == "OldestEmulationVersion" else [not_supported(at, Named(strategy), ["OldestEmulationVersion"])]
    )


def _holder(obj: Json) -> str:
    holder: str = obj["spec"].get("holderIdentity") or ""
    return holder


LEASES = Resource(
    group="coordination.k8s.io", kind="Lease", plural="leases", singular="lease", namespaced=True,
    versions=(Version(name="v1", schema=Lease),),
    strategy=LeaseStrategy(), storage_prefix="leases",
    columns=name_and_age(Column(name="Holder", cell=_holder, description="Identity of the holder.")),
    unconditional_update=False, create_on_update=True,
)  # fmt: skip
