"""Semantic equality of two values of a type.

Absent, null, an empty list and an empty map are equal. Quantities are compared by amount. The schema is only walked
if the dicts differ.
"""

from __future__ import annotations

from typing import Any

from apiserver.api.schema.language import ListOf, MapOf, Struct, Type
from apiserver.api.values.quantity import Quantity

__all__ = ["semantic_equal"]


def semantic_equal(kind: Type, left: Any, right: Any) -> bool:
    """Compare two decoded values by upstream's semantic deep equality."""
    if left == right and isinstance(left, bool) == isinstance(right, bool):
        return True
    if isinstance(kind, ListOf):
        left, right = left or [], right or []
        return len(left) == len(right) and all(
            semantic_equal(kind.item, a, b) for a, b in zip(left, right, strict=True)
        )
    if isinstance(kind, MapOf):
        left, right = left or {}, right or {}
        return left.keys() == right.keys() and all(
            semantic_equal(kind.value, value, right[key]) for key, value in left.items()
        )
    if left is None or right is None:
        return False
    if isinstance(kind, Struct):
        return all(semantic_equal(field.type, left.get(name), right.get(name)) for name, field in kind.fields.items())
    return kind.name == "quantity" and Quantity.parse(left) == Quantity.parse(right)
