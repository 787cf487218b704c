"""Fields that a disabled feature gate drops. Which these are is said in the types; what is dropped is noted in the
context, so that a user can be told.
"""

from __future__ import annotations

from typing import Any

from apiserver.api import dropping
from apiserver.registry.context import Context
from apiserver.registry.dropped import DroppedField

__all__ = ["drop_disabled"]


def drop_disabled(ctx: Context, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Takes from an object what disabled gates forbid; `old` is the stored one, None when the object is new. Its spec
    and status may be other objects afterwards.
    """
    dropped = dropping.drop_disabled(ctx.resource.hub_schema, ctx.features, obj, old)
    if dropped:
        ctx.dropped += [DroppedField(path, gate) for path, gate in dropped]
