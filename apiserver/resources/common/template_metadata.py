"""Validate metadata inside a spec (templates): labels and annotations follow the rules of an object's own."""

from __future__ import annotations

from apiserver.api.errors.field_errors import FieldError, Path, invalid, too_long
from apiserver.api.objects import Json
from apiserver.api.values.names import label_key, label_value

__all__ = ["validate_annotations", "validate_labels", "validate_labels_and_annotations"]

_ANNOTATIONS_LIMIT = 256 * 1024


def validate_labels_and_annotations(metadata: Json, path: Path) -> list[FieldError]:
    errors = validate_annotations(metadata.get("annotations") or {}, path / "annotations")
    return errors + validate_labels(metadata.get("labels") or {}, path / "labels")


def validate_annotations(annotations: Json, path: Path) -> list[FieldError]:
    errors = [invalid(path, key, text) for key in annotations for text in label_key(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        errors.append(too_long(path, _ANNOTATIONS_LIMIT))
    return errors


def validate_labels(labels: Json, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid(path, key, text) for text in label_key(key)]
        errors += [invalid(path, value, text) for text in label_value(value)]
    return errors
