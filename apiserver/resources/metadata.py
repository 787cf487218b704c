"""Metadata inside of a spec (templates): labels and annotations by the rules of an object's own."""

from __future__ import annotations

from typing import Any

from apiserver.api.fielderrors import FieldError, Path, invalid, too_long
from apiserver.api.names import label_key, label_value

__all__ = ["validate_labels_and_annotations"]

Json = dict[str, Any]
_ANNOTATIONS_LIMIT = 256 * 1024


def validate_labels_and_annotations(metadata: Json, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        errors += [invalid(path / "annotations", key, text) for text in label_key(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        errors.append(too_long(path / "annotations", _ANNOTATIONS_LIMIT))
    for key, value in (metadata.get("labels") or {}).items():
        errors += [invalid(path / "labels", key, text) for text in label_key(key)]
        errors += [invalid(path / "labels", value, text) for text in label_value(value)]
    return errors
