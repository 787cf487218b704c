"""The class of an ingress, and the default mark of an ingress class (pkg/apis/networking/util)."""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json

__all__ = ["CLASS_ANNOTATION", "is_default_class"]


#: The annotation that preceded the field.
CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"


def is_default_class(obj: Json) -> bool:
    return (obj["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
