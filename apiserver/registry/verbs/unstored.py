"""What is posted and not stored as it is: reviews, bindings, evictions. `begin` is what happens to every posted object
before its kind looks at it; what the kind finds wrong is told before `judge` asks those who only say yes or no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.registry.admission import Attributes, admit, validate
from apiserver.registry.fields.managers import Manager
from apiserver.registry.metadata import ensure_namespace, wipe_system_fields

if TYPE_CHECKING:
    from apiserver.api.objects import Json
    from apiserver.registry.context import Context
    from apiserver.registry.store import Store

__all__ = ["begin", "judge"]


async def begin(store: Store, ctx: Context, body: Json) -> None:
    """Wipes what only the server may say, notes the manager, and lets admission change the object. Raises
    StatusError.
    """
    metadata = body["metadata"]
    wipe_system_fields(metadata)
    ensure_namespace(metadata, ctx.namespace if store.resource.namespaced else "")
    writer = Manager(ctx.manager, "Update", store.bodies[ctx.version, ""].api_version, "")
    store.tracker.created(body, writer, ctx.now)
    await admit(store.handlers("CREATE", ctx), _attributes(ctx, body))


async def judge(store: Store, ctx: Context, body: Json) -> None:
    """Asks validating admission. Raises StatusError."""
    await validate(store.handlers("CREATE", ctx), _attributes(ctx, body))


def _attributes(ctx: Context, body: Json) -> Attributes:
    return Attributes("CREATE", ctx, ctx.name or body["metadata"].get("name", ""), body)
