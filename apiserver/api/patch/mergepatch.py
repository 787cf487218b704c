"""JSON merge patch (RFC 7386) as upstream's library does it: nulls vanish from objects that are added, but stay in
lists; the keys of every object that the patch touches are sorted (raw extensions show it)."""

from __future__ import annotations

from typing import Any

from apiserver.api.patch.errors import PatchError

__all__ = ["merge_patch"]


def merge_patch(document: Any, patch: Any) -> Any:
    """The merged document. A list as patch replaces the document, anything else that is no object is no patch."""
    if isinstance(patch, list):
        return [_without_nulls(item) for item in patch]
    if not isinstance(patch, dict):
        raise PatchError("Invalid JSON Patch", 400)
    if document is None:
        raise PatchError("Invalid JSON Document", 500)
    return _merged(document, patch)


def _merged(current: Any, patch: Any) -> Any:
    if not isinstance(current, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    out = dict(current)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif out.get(key) is None:
            out[key] = _without_nulls(value)
        else:
            out[key] = _merged(out[key], value)
    return {key: out[key] for key in sorted(out)}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(value[key]) for key in sorted(value) if value[key] is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
