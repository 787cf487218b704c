"""Fields that a disabled feature gate drops. Which these are is said in the types; what is dropped is noted in the
context, so that a user can be told.
"""

from __future__ import annotations

from typing import Any

from apiserver.api import dropping
from apiserver.api.dropping import keep_hidden
from apiserver.registry.context import Context
from apiserver.registry.dropped import DroppedField

__all__ = ["drop_disabled"]


def drop_disabled(ctx: Context, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Takes from an object what disabled gates forbid; `old` is the stored one, None when the object is new. Its spec
    and status may be other objects afterwards.
    """
    schema = ctx.resource.hub_schema
    if old is not None:
        keep_hidden(schema, obj, old)
    dropped = dropping.drop_disabled(schema, ctx.features, obj, old)
    if dropped:
        ctx.dropped += [DroppedField(path, gate) for path, gate in dropped]
