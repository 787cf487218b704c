"""JSON merge patch (RFC 7386) as upstream's library does it: nulls vanish from objects that are added, but stay in
lists; the keys of every object that the patch touches are sorted (raw extensions show it)."""

from __future__ import annotations

from typing import Any

from apiserver.api.nesting import Folded
from apiserver.api.patch.errors import PatchError

__all__ = ["merge_patch"]


Json = dict[str, Any]


def merge_patch(document: Any, patch: Any) -> Any:
    """The merged document. A list as patch replaces the document, anything else that is no object is no patch."""
    if isinstance(patch, list):
        return [_without_nulls(item) for item in patch]
    if not isinstance(patch, dict):
        raise PatchError("Invalid JSON Patch", 400)
    if document is None:
        raise PatchError("Invalid JSON Document", 500)
    return _merged(document, patch)


def _merged(document: Any, patch: Json) -> Any:
    """Without recursion: both may be nested deep."""
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
            have = out.get(key)
            if isinstance(value, Folded):
                value = value.unfold()
            if isinstance(have, Folded):
                have = have.unfold()
            if value is None:
                out.pop(key, None)
            elif have is not None and isinstance(value, dict):
                below.append((key, have, value))
            else:
                out[key] = value if isinstance(have, dict) else _without_nulls(value)
        made = holder[place] = {key: out[key] for key in sorted(out)}
        todo += [(made, key, have, value) for key, have, value in below]
    return whole[""]


def _without_nulls(value: Any) -> Any:
    """A copy of any depth; nulls go from objects, those of lists stay."""
    made = _pruned(value)
    todo = [made] if isinstance(made, dict | list) else []
    while todo:
        node = todo.pop()
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(item, dict | list | Folded):
                below = node[key] = _pruned(item)
                todo.append(below)
    return made


def _pruned(value: Any) -> Any:
    """A copy of the uppermost level alone."""
    if isinstance(value, Folded):
        value = value.unfold()
    if isinstance(value, dict):
        return {key: value[key] for key in sorted(value) if value[key] is not None}
    return list(value) if isinstance(value, list) else value
