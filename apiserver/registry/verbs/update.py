"""PUT, and updates by the server itself. The steps of a write are in `apiserver.registry.verbs.pipeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.objects import Hub, UpdateFunc
from apiserver.registry.body.decode import decode_body
from apiserver.registry.definition.metadata import check_identity, check_name, deduplicate_owners, manager_name
from apiserver.registry.definition.options import NO_OPTIONS, WriteOptions, write_options
from apiserver.registry.store.results import Result
from apiserver.registry.verbs.pipeline import Mutation, admit_object, read_stored, store_object

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request

__all__ = ["update", "update_object"]


async def update(store: Store, ctx: Context, request: Request) -> Result:
    """Update the object or ctx.subresource by a PUT. Raise StatusError."""
    options = write_options(request, "UpdateOptions") if request.query else NO_OPTIONS
    ctx.manager = manager_name(options.field_manager, request.headers.get("user-agent", ""))
    ctx.dry_run, ctx.options = options.dry_run, options
    obj = _decode(store, ctx, request, options)
    mutation = Mutation(store, ctx, options)
    mutation.uid = obj["metadata"].get("uid")
    mutation.creates = store.resource.create_on_update and not ctx.subresource
    while True:
        await read_stored(mutation, copy=False)
        mutation.obj = obj
        await admit_object(mutation)
        result = await store_object(mutation)
        if result is not None:
            return result
        again = ctx.of_object(ctx.namespace, ctx.name)
        again.warnings = []  # The first attempt has added the warnings of the body.
        obj = _decode(store, again, request, options)


def _decode(store: Store, ctx: Context, request: Request, options: WriteOptions) -> Hub:
    expected = store.bodies[ctx.version, ctx.subresource]
    obj = decode_body(ctx, expected, store.registry.kinds, request, options.field_validation)
    check_identity(obj["metadata"], ctx.namespace, ctx.name)
    check_name(ctx.name)
    deduplicate_owners(obj["metadata"], ctx.warnings)
    return obj


async def update_object(store: Store, ctx: Context, change: UpdateFunc, *, dry_run: bool = False) -> Result:
    """Update ctx.name, or its ctx.subresource, to the result of `change`. Raise StatusError."""
    mutation = Mutation(store, ctx, WriteOptions(dry_run=dry_run))
    while True:
        await read_stored(mutation)
        mutation.obj = change(mutation.obj)
        await admit_object(mutation)
        result = await store_object(mutation)
        if result is not None:
            return result
