"""Scale of custom resources: where the numbers are, a definition says. Facts: pkg/registry/customresource/etcd.go."""

from __future__ import annotations

from typing import Any

from apiserver.api.status import bad_request, internal_error
from apiserver.registry.resource import Subresource
from apiserver.resources.customresources.strategy import Misplaced, nested
from apiserver.resources.scales import CUSTOM_SCALE, scale_subresource, shown_metadata

__all__ = ["scale_of"]

Json = dict[str, Any]


def scale_of(paths: Json) -> Subresource:
    """The subresource of a version; `paths` is its `subresources.scale`."""
    wanted = paths["specReplicasPath"]

    def show(obj: Json) -> Json:
        try:
            replicas = nested(obj, wanted, "int64")
            present = nested(obj, paths["statusReplicasPath"], "int64") or 0
            path = paths.get("labelSelectorPath")
            selector = (nested(obj, path, "string") if path else None) or ""
        except Misplaced as error:
            raise bad_request(str(error)) from None
        status: Json = {"replicas": present} | ({"selector": selector} if selector else {})
        return {"metadata": shown_metadata(obj), "spec": {"replicas": replicas} if replicas else {}, "status": status}

    def there(obj: Json) -> None:
        try:
            if nested(obj, wanted, "int64") is None:
                raise internal_error(f'the spec replicas field "{wanted}" does not exist')
        except Misplaced as error:
            raise bad_request(str(error)) from None

    # What a changed scale says is judged by the object's own rules, which have an object of any scope.
    return scale_subresource(wanted.removeprefix("."), show, there, lambda _: [], CUSTOM_SCALE)
