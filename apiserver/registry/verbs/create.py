"""POST.

    options → decoded, defaulted, in hub form → system fields wiped → managed fields → admit → [uid, time, name →
    reserved → prepare → validate → normalized → validating admission → append]; the part in brackets again, with
    another name, when a generated name is taken

What a body names that is not stored (a review, a binding, an eviction, a token) is answered by its own function.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from apiserver.api.codec.codec import decode_exactly, encode_exactly
from apiserver.api.errors.status import StatusError, already_exists, method_not_allowed
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.schema.objects import Hub, Json
from apiserver.api.values.numbers import parse_uint64
from apiserver.registry.body.convert import holds_empty
from apiserver.registry.body.decode import check_media_type, decode_body
from apiserver.registry.definition.metadata import (
    deduplicate_owners,
    ensure_namespace,
    fill_system_fields,
    generate_name,
    is_terminating,
    manager_name,
    validate_metadata,
    wipe_system_fields,
)
from apiserver.registry.definition.options import write_options
from apiserver.registry.fields.managers import Manager
from apiserver.registry.store.admission import Attributes, admit, validate
from apiserver.registry.store.results import Result, Unsaved
from apiserver.registry.verbs.unstored import begin
from apiserver.storage.log.types import KeyExists

if TYPE_CHECKING:
    from apiserver.registry.body.convert import ExpectedBody
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["create", "prepare_new"]

#: How often another generated name is tried.
NAME_ATTEMPTS: Final = 8


async def create(store: Store, ctx: Context, request: Request) -> Result:
    """POST of an object, or of ctx.subresource (binding, eviction, token). Raises StatusError."""
    check_media_type(request.headers.get("content-type", ""))
    options = write_options(request, "CreateOptions")
    ctx.manager = manager_name(options.field_manager, request.headers.get("user-agent", ""))
    ctx.dry_run, ctx.options = options.dry_run, options
    expected = store.bodies[ctx.version, ctx.subresource]
    obj = decode_body(ctx, expected, store.registry.kinds, request, options.field_validation)
    if expected.subresource is not None or store.resource.create is not None:
        return await _answer_unstored(store, ctx, expected, obj, options)
    metadata, entry = obj["metadata"], None
    try:
        entry = await _create_object(store, ctx, obj, options)
        return Result(entry, created=True)
    finally:
        if ctx.dropped:
            made = entry.key.rpartition("/")[2] if entry is not None else metadata.get("generateName", "")
            ctx.report_dropped(store.registry.dropped, ctx.name or metadata.get("name") or made)


async def _answer_unstored(
    store: Store, ctx: Context, expected: ExpectedBody, obj: Hub, options: WriteOptions
) -> Result:
    serve = store.resource.create if expected.subresource is None else expected.subresource.create
    if serve is None:
        raise method_not_allowed()
    metadata = obj.setdefault("metadata", {})
    if expected.subresource is None:  # a subresource's function asks for admission itself
        await begin(store, ctx, obj)
    elif store.resource.namespaced:
        ensure_namespace(metadata, ctx.namespace)
    return Result(None, created=True, body=await serve(store, ctx, obj, options))


async def _create_object(store: Store, ctx: Context, obj: Hub, options: WriteOptions) -> Entry:
    metadata = obj["metadata"]
    wipe_system_fields(metadata)
    ensure_namespace(metadata, ctx.namespace)
    deduplicate_owners(metadata, ctx.warnings)
    if store.registry.shared:  # admission asks for other objects, which other servers may just have written
        await store.registry.consistent()
    writer = Manager(ctx.manager, "Update", store.bodies[ctx.version, ""].api_version, ctx.subresource)
    store.tracker.created(obj, writer, ctx.now)
    handlers = store.handlers("CREATE", ctx)
    if handlers.admitting:
        await admit(handlers, Attributes("CREATE", ctx, ctx.name or metadata.get("name", ""), obj))
    deduplicate_owners(obj["metadata"], ctx.warnings, after_admission=True)
    if store.resource.guard is not None:
        store.resource.guard(store, ctx, obj, None)
    if not metadata.get("generateName") or metadata.get("name"):
        return await _insert(store, ctx, obj, options)
    # An attempt changes what it is given, and hardly ever is there a second.
    kept = encode_exactly(obj)
    for _ in range(NAME_ATTEMPTS - 1):
        try:
            return await _insert(store, ctx, obj, options)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        obj = Hub(decode_exactly(kept))
    return await _insert(store, ctx, obj, options)


async def _insert(store: Store, ctx: Context, obj: Hub, options: WriteOptions) -> Entry:
    metadata, registry = obj["metadata"], store.registry
    fill_system_fields(metadata, registry.new_uid(), ctx.now)
    generated = bool(metadata.get("generateName"))
    if generated and not metadata.get("name"):
        metadata["name"] = generate_name(metadata["generateName"], registry.new_suffix())
    if store.reservations is None:
        return await _insert_named(store, ctx, obj, options, generated=generated)
    held = await store.reservations.reserve(ctx, obj, None)
    try:
        entry = await _insert_named(store, ctx, obj, options, generated=generated)
    except BaseException:
        await held.settle(stored=False)
        raise
    await held.settle(stored=True)
    return entry


async def _insert_named(store: Store, ctx: Context, obj: Hub, options: WriteOptions, *, generated: bool) -> Entry:
    metadata, registry = obj["metadata"], store.registry
    prepare_new(store, ctx, obj)
    name = metadata["name"]
    handlers = store.handlers("CREATE", ctx)
    if handlers.validating:
        await validate(handlers, Attributes("CREATE", ctx, ctx.name or name, obj))
    if store.before_storing is not None:
        store.before_storing(ctx, obj)
    key = store.resource.key(metadata.get("namespace", ""), name)
    if key in registry.busy:
        await registry.free(key)
    if options.dry_run:
        if store.cache.get(key) is not None:
            raise _exists(store, key, name, generated)
        return Unsaved(key, obj, 0, metadata.get("resourceVersion", ""))
    # A new object has no resource version; 0 counts as none, and so does what is no number.
    version = metadata.pop("resourceVersion", "")
    with contextlib.suppress(ValueError):
        if version and parse_uint64(version):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    try:
        return await store.put(ctx, key, obj, 0)
    except KeyExists as refused:
        await registry.catch_up(refused)
        raise _exists(store, key, name, generated) from None


def prepare_new(store: Store, ctx: Context, obj: Json) -> None:
    """Prepares a new object and checks it (upstream's BeforeCreate). Raises 422."""
    resource, strategy, metadata = store.resource, store.strategy, obj["metadata"]
    ensure_namespace(metadata, ctx.namespace)
    strategy.prepare_for_create(ctx, obj)
    metadata = obj["metadata"]
    errors = strategy.validate_first(ctx, obj, None)
    if strategy.checks_metadata and "kind" not in obj:  # an object of another kind (`to_hub`) is told that first
        errors += strategy.validate_metadata(ctx, metadata, resource.namespaced)
    errors += strategy.validate(ctx, obj)
    if not errors and not strategy.checks_metadata:
        errors = validate_metadata(metadata, resource.namespaced, "path-segment", kind_rules=False)
    if errors:
        raise invalid_status(obj.get("kind", resource.kind), store.kind_group, metadata.get("name", ""), errors)
    ctx.warnings += strategy.warnings_on_create(ctx, obj)
    if store.canonicalize is not None:
        store.canonicalize(ctx, obj)
    if store.normalize is not None and holds_empty(obj):
        store.normalize(obj)


def _exists(store: Store, key: str, name: str, generated: bool) -> StatusError:
    resource = store.resource
    error = already_exists(resource.plural, resource.group, name)
    message, details = error.message, error.details or {}
    if generated:
        message += ", the server was not able to generate a unique name for the object"
        details = {**details, "retryAfterSeconds": 1}
    entry = store.cache.get(key)
    if entry is not None and b'"deletionTimestamp":' in entry.tail and is_terminating(entry.obj):
        message = f"object is being deleted: {message}"
    return StatusError(error.code, error.reason, message, details)
