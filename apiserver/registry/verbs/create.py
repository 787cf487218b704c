"""POST. The steps of a write are in `apiserver.registry.verbs.pipeline`.

A kind without stored objects (a review, a binding, an eviction, a token) has a function that answers its POST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.codec.codec import decode_exactly, encode_exactly
from apiserver.api.errors.status import StatusError, already_exists, method_not_allowed
from apiserver.api.objects import Hub
from apiserver.registry.body.decode import check_media_type, decode_body
from apiserver.registry.definition.metadata import (
    deduplicate_owners,
    ensure_namespace,
    is_terminating,
    manager_name,
    wipe_system_fields,
)
from apiserver.registry.definition.options import NO_OPTIONS, write_options
from apiserver.registry.store.results import Result
from apiserver.registry.verbs.pipeline import Mutation, admit_object, store_object
from apiserver.registry.verbs.unstored import prepare_unstored

if TYPE_CHECKING:
    from apiserver.registry.body.convert import ExpectedBody
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request

__all__ = ["create"]

#: Number of further generated names after a conflict.
NAME_ATTEMPTS: Final = 8


async def create(store: Store, ctx: Context, request: Request) -> Result:
    """Create an object, or POST to ctx.subresource (binding, eviction, token). Raise StatusError."""
    check_media_type(request.headers.get("content-type", ""))
    options = write_options(request, "CreateOptions") if request.query else NO_OPTIONS
    ctx.manager = manager_name(options.field_manager, request.headers.get("user-agent", ""))
    ctx.dry_run, ctx.options = options.dry_run, options
    expected = store.bodies[ctx.version, ctx.subresource]
    obj = decode_body(ctx, expected, store.registry.kinds, request, options.field_validation)
    if expected.subresource is not None or store.resource.create is not None:
        return await _answer_unstored(store, ctx, expected, obj, options)
    return await _create_object(store, ctx, obj, options)


async def _answer_unstored(
    store: Store, ctx: Context, expected: ExpectedBody, obj: Hub, options: WriteOptions
) -> Result:
    serve = store.resource.create if expected.subresource is None else expected.subresource.create
    if serve is None:
        raise method_not_allowed()
    metadata = obj.setdefault("metadata", {})
    if expected.subresource is None:  # A subresource's function calls admission itself.
        await prepare_unstored(store, ctx, obj)
    elif store.resource.namespaced:
        ensure_namespace(metadata, ctx.namespace)
    return Result(None, created=True, body=await serve(store, ctx, obj, options))


async def _create_object(store: Store, ctx: Context, obj: Hub, options: WriteOptions) -> Result:
    metadata = obj["metadata"]
    wipe_system_fields(metadata)
    ensure_namespace(metadata, ctx.namespace)
    deduplicate_owners(metadata, ctx.warnings)
    if store.registry.shared:  # Admission reads other objects, which other servers may have just written.
        await store.registry.consistent()
    mutation = Mutation(store, ctx, options, "CREATE")
    mutation.obj, mutation.name = obj, ctx.name or metadata.get("name", "")
    await admit_object(mutation)
    attempts = NAME_ATTEMPTS if metadata.get("generateName") and not metadata.get("name") else 1
    # An attempt changes the object. A second attempt is rare.
    kept = encode_exactly(obj) if attempts > 1 else b""
    for attempt in range(attempts):
        if attempt:
            mutation.obj = Hub(decode_exactly(kept))
        result = await store_object(mutation)
        if result is not None:
            return result
    raise _exists(mutation)


def _exists(m: Mutation) -> StatusError:
    metadata, resource = m.obj["metadata"], m.resource
    error = already_exists(resource.plural, resource.group, metadata["name"])
    message, details = error.message, error.details or {}
    if metadata.get("generateName"):
        message += ", the server was not able to generate a unique name for the object"
        details = {**details, "retryAfterSeconds": 1}
    entry = m.store.cache.get(m.key)
    if entry is not None and b'"deletionTimestamp":' in entry.tail and is_terminating(entry.obj):
        message = f"object is being deleted: {message}"
    return StatusError(error.code, error.reason, message, details)
