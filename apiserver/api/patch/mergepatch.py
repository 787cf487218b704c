"""JSON merge patch (RFC 7386) as upstream's library does it: nulls vanish from objects that are added, but stay in
lists; the keys of every object that the patch touches are sorted (raw extensions show it)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from apiserver.api.errors.nesting import Folded
from apiserver.api.patch.errors import PatchError

__all__ = ["merge_patch"]


Json = dict[str, Any]
_NESTED: Final = (dict, list, Folded)


def merge_patch(document: Any, patch: Any) -> Any:
    """The merged document. A list as patch replaces the document, anything else that is no object is no patch."""
    if isinstance(patch, list):
        return [_without_nulls(item) for item in patch]
    if not isinstance(patch, dict):
        raise PatchError("Invalid JSON Patch", 400)
    if document is None:
        raise PatchError("Invalid JSON Document", 500)
    # Without recursion: both may be nested deep.
    whole: Json = {}
    todo = [(whole, "", document, patch)]
    while todo:
        holder, place, current, change = todo.pop()
        if not isinstance(current, dict):
            holder[place] = _without_nulls(change)
            continue
        out = dict(current)
        below = []
        for key, value in change.items():
            if value is None:
                out.pop(key, None)
            elif not isinstance(value, _NESTED):
                out[key] = value
            else:
                have = out.get(key)
                if have is None:
                    out[key] = _without_nulls(value)
                else:
                    below.append((key, have, value))
        made = holder[place] = dict(sorted(out.items()))
        for key, have, value in below:
            if isinstance(have, Folded):
                have = have.unfold()
            if isinstance(value, Folded):
                value = value.unfold()
            if isinstance(value, dict):
                todo.append((made, key, have, value))
            else:
                made[key] = value if isinstance(have, dict) else _without_nulls(value)
    return whole[""]


def _without_nulls(value: Any) -> Any:
    """A copy of any depth; nulls go from objects, those of lists stay."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = b""  # too deep
    if text and text.find(b"null") < 0:
        return orjson.loads(text)
    made = _pruned(value)
    todo = [made] if isinstance(made, dict | list) else []
    while todo:
        node = todo.pop()
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(item, _NESTED):
                below = node[key] = _pruned(item)
                todo.append(below)
    return made


def _pruned(value: Any) -> Any:
    """A copy of the uppermost level alone."""
    value = _unfolded(value)
    if isinstance(value, dict):
        return {key: value[key] for key in sorted(value) if value[key] is not None}
    return value.copy() if isinstance(value, list) else value


def _unfolded(value: Any) -> Any:
    return value.unfold() if isinstance(value, Folded) else value
