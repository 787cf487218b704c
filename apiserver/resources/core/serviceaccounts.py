"""Define service accounts. Rules: pkg/registry/core/serviceaccount."""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from apiserver.api.types.authentication import TokenRequest
from apiserver.api.types.core.configuration import ServiceAccount
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.core.tokenrequests import request_token

_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"
_DEPRECATED: Final = (
    f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted"
    " secrets"
)


class ServiceAccountStrategy(Strategy):
    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        """Reduce references to secrets to their names."""
        if secrets := obj.get("secrets"):
            obj["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        self.prepare_for_create(ctx, obj)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return [_DEPRECATED] if _MOUNTABLE in (obj["metadata"].get("annotations") or ()) else []

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return [] if _MOUNTABLE in (old["metadata"].get("annotations") or ()) else self.warnings_on_create(ctx, obj)


SERVICE_ACCOUNTS = Resource(
    group="",
    kind="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    namespaced=True,
    short_names=("sa",),
    versions=(Version(name="v1", schema=ServiceAccount),),
    strategy=ServiceAccountStrategy(),
    storage_prefix="serviceaccounts",
    columns=name_and_age(),
    delete_returns_object=True,
    subresources=(
        Subresource(
            name="token",
            verbs=("create",),
            kind="TokenRequest",
            group="authentication.k8s.io",
            version="v1",
            schema=TokenRequest,
            create=request_token,
        ),
    ),
)
