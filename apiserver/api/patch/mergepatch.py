"""JSON merge patch (RFC 7386) with the deviations of upstream's library.

Nulls are removed from added objects and kept in lists. The keys of every object that the patch changes are sorted; raw
extensions show it.
"""

from __future__ import annotations

from typing import Any

import orjson

from apiserver.api.patch.errors import PatchError

__all__ = ["merge_patch"]


def merge_patch(document: Any, patch: Any) -> Any:
    """Return the merged document. A list as patch replaces it.

    Raises:
        PatchError: A patch is neither object nor list, or there is no document.
    """
    if not isinstance(patch, dict):
        if isinstance(patch, list):
            return [_drop_nulls(item) for item in patch]
        raise PatchError("Invalid JSON Patch", 400)
    if document is None:
        raise PatchError("Invalid JSON Document", 500)
    if not isinstance(document, dict):
        return _drop_nulls(patch)
    out = dict(document)
    for key, value in patch.items():
        present = out.get(key)
        if value is None:
            out.pop(key, None)
        elif not isinstance(value, dict | list):
            out[key] = value
        elif present is None:
            out[key] = _drop_nulls(value)
        elif isinstance(value, dict):
            out[key] = merge_patch(present, value)
        else:
            out[key] = value if isinstance(present, dict) else _drop_nulls(value)
    return dict(sorted(out.items()))


def _drop_nulls(value: Any) -> Any:
    """Return a copy with sorted keys, without nulls in objects. Nulls in lists stay."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return _prune(value) if text.find(b"null") >= 0 else orjson.loads(text)


def _prune(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _prune(value[key]) for key in sorted(value) if value[key] is not None}
    return [_prune(item) for item in value] if isinstance(value, list) else value
