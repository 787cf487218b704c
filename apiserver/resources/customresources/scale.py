"""Define the scale subresource of custom resources by the paths in a definition.

Facts: pkg/registry/customresource/etcd.go.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.errors.status import bad_request, internal_error
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Subresource
from apiserver.resources.common.scales import CUSTOM_SCALE, scale_subresource, shown_metadata
from apiserver.resources.customresources.strategy import Misplaced, nested

__all__ = ["scale_of"]


#: The placeholder for missing replicas in the Scale that an update starts from.
_MISSING: Final = -(2**31)


def scale_of(paths: Json) -> Subresource:
    """Build the subresource of a version. `paths` is its `subresources.scale`."""
    wanted = paths["specReplicasPath"]

    def show(obj: Json) -> Json:
        try:
            replicas = nested(obj, wanted, "int64")
            present = nested(obj, paths["statusReplicasPath"], "int64") or 0
            path = paths.get("labelSelectorPath")
            selector = (nested(obj, path, "string") if path else None) or ""
        except Misplaced as error:
            raise bad_request(str(error)) from None
        replicas = _MISSING if replicas is None else replicas
        status: Json = {"replicas": present} | ({"selector": selector} if selector else {})
        return {"metadata": shown_metadata(obj), "spec": {"replicas": replicas} if replicas else {}, "status": status}

    def there(obj: Json) -> None:
        try:
            if nested(obj, wanted, "int64") is None:
                raise internal_error(f'the spec replicas field "{wanted}" does not exist')
        except Misplaced as error:
            raise bad_request(str(error)) from None

    def given(scale: Json) -> list[FieldError]:
        """Require replicas in a changed Scale. The object's own rules validate the rest."""
        if scale["spec"].get("replicas") == _MISSING:
            raise bad_request(f'the spec replicas field "{wanted}" cannot be empty')
        return []

    return scale_subresource(wanted.removeprefix("."), show, there, given, CUSTOM_SCALE)
