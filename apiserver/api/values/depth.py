"""The deepest accepted nesting of a value: 200 levels of objects and lists.

Upstream reads 10,000 levels, but no client sends more than a few dozen. Below this limit Python's recursion and orjson
(254 levels written, 1024 read) need no special care. Every decoder checks the limit, so no other code has to.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["MAX_DEPTH", "TOO_DEEP", "is_too_deep"]

MAX_DEPTH: Final = 200
TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
_NESTED: Final = (dict, list)


def is_too_deep(value: Any) -> bool:
    """Return whether a value has more than `MAX_DEPTH` levels. Works for values of any depth."""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(MAX_DEPTH):
        level = [
            item
            for node in level
            for item in (node.values() if isinstance(node, dict) else node)
            if isinstance(item, _NESTED)
        ]
        if not level:
            return False
    return bool(level)
