"""What a write to /status may not touch."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["keep_metadata_for_status"]

Json = dict[str, Any]

#: upstream's ResetObjectMetaForStatus; the rest of metadata is the server's anyway.
_KEPT: Final = ("deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences")


def keep_metadata_for_status(obj: Json, old: Json) -> None:
    metadata, before = obj["metadata"], old["metadata"]
    for field in filter(metadata.__contains__, _KEPT):
        if field not in before:
            del metadata[field]
    for field in filter(before.__contains__, _KEPT):
        metadata[field] = before[field]
