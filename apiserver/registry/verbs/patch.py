"""PATCH in the request's content type, and server-side apply: what the patch makes of the object is written as by a
PUT, from `apiserver.registry.verbs.update` on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.objects import Hub, UpdateFunc
from apiserver.api.status import conflict
from apiserver.registry.body.options import patch_options
from apiserver.registry.body.patch import APPLY, patch_func, patch_type
from apiserver.registry.metadata import ensure_namespace, manager_name
from apiserver.registry.results import Result
from apiserver.registry.verbs.update import check_name, update_object

if TYPE_CHECKING:
    from apiserver.messages import Request
    from apiserver.registry.context import Context
    from apiserver.registry.store import Store

__all__ = ["patch"]


async def patch(store: Store, ctx: Context, request: Request) -> Result:
    """PATCH of an object or of ctx.subresource; an apply makes it when it is missing. Raises StatusError."""
    media = patch_type(request.headers.get("content-type", ""), custom=store.resource.custom)
    apply = media == APPLY
    options = patch_options(request, apply=apply)
    ctx.manager = manager_name(options.field_manager, request.headers.get("user-agent", ""))
    ctx.dry_run, ctx.options = options.dry_run, options
    expected = store.bodies[ctx.version, ctx.subresource]
    projector = store.projectors.get((ctx.version, ctx.subresource))
    about = ctx if projector is None else projector.context(ctx)
    if apply:
        from apiserver.registry.fields.apply import apply_func

        forms, resets = store.forms, store.strategy.reset_fields_of(ctx.subresource)
        if projector is not None:
            forms, resets = projector.forms, ()
        patched: UpdateFunc = apply_func(forms, resets, about, expected, request.body, options)
    else:
        patched = patch_func(about, expected, media, request.body, options)

    def update(old: Hub | None) -> Hub:
        obj = patched(old)
        metadata = obj["metadata"]
        if old is None and metadata.get("uid"):
            cause = (
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            )
            raise conflict(store.resource.plural, store.resource.group, ctx.name, cause)
        ensure_namespace(metadata, ctx.namespace)
        check_name(ctx, metadata)
        return obj

    return await update_object(store, ctx, update, options, create=apply, tracked=apply)
