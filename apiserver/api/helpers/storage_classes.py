"""The storage class of claims and volumes, and the default mark of a storage class.

Facts: pkg/apis/core/helper, pkg/apis/storage/util.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json

__all__ = ["CLASS_ANNOTATION", "class_of", "is_default_class"]


#: The annotation that preceded the field. If set, it takes precedence.
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def class_of(obj: Json) -> str | None:
    """Return the class name of a claim or volume: "" for no class, None if unset."""
    annotated: str | None = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    return obj["spec"].get("storageClassName") if annotated is None else annotated


def is_default_class(storage_class: Json) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in _DEFAULT)
