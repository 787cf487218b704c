"""One function a verb: from a routed request to the store's answer, with upstream's order of checks.

The handlers of `apiserver.http` route, authenticate, authorize and negotiate, make a `Context` with `Store.context`,
call one of these and render what comes back. Warnings gather in `ctx.warnings`, also when a StatusError is raised.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.codec import DecodeError, decode, interpret
from apiserver.api.status import bad_request, conflict, method_not_allowed
from apiserver.api.types.meta import DeleteOptions as DeleteOptionsType
from apiserver.registry.body import options as queries
from apiserver.registry.body.decode import PROTOBUF, Target, check_media_type, decode_body, load_body
from apiserver.registry.body.options import DeleteOptions, WriteOptions
from apiserver.registry.body.patch import APPLY, PATCH_TYPES, patch_change, patch_type
from apiserver.registry.fields.apply import apply_change
from apiserver.registry.fields.managers import manager_name
from apiserver.registry.metadata import deduplicate_owners, ensure_namespace
from apiserver.registry.verbs.list import present_entries, present_entry
from apiserver.registry.verbs.results import DeleteResult, Listing, Result, WatchEvent

if TYPE_CHECKING:
    from apiserver.messages import Request
    from apiserver.registry.context import Context
    from apiserver.registry.projection import Projection
    from apiserver.registry.resource import Subresource, Version
    from apiserver.registry.store import Store
    from apiserver.storage.cache import Entry

__all__ = [
    "create",
    "delete",
    "delete_collection",
    "get",
    "get_present",
    "is_watch",
    "list_",
    "list_present",
    "patch",
    "update",
    "watch",
]

Json = dict[str, Any]


def is_watch(request: Request) -> bool:
    """Whether a GET of a collection is a watch: any `watch` value but false and 0."""
    return bool(request.query) and queries.is_watch(request.params)


# Reading


async def get(store: Store, ctx: Context, request: Request) -> Entry:
    return await store.get(ctx, queries.get_options(request.params) if request.query else queries.get_options())


def get_present(store: Store, ctx: Context) -> Entry:
    """GET without a version, where no other server writes to the database. Raises 404."""
    return present_entry(store, ctx)


async def list_(store: Store, ctx: Context, request: Request) -> Listing:
    return await store.list(
        ctx, queries.list_options(request.params, watch=False) if request.query else queries.list_options()
    )


def list_present(store: Store, ctx: Context) -> Listing:
    """A list without options, where no other server writes to the database."""
    return present_entries(store, ctx, queries.list_options())


def watch(store: Store, ctx: Context, request: Request) -> AsyncIterator[list[WatchEvent]]:
    """Checks the options at once (raises StatusError); the iterator yields batches, never empty ones. With ctx.name: of
    one object.
    """
    return store.watch(ctx, queries.list_options(request.params, watch=True, watch_list=_watch_list(ctx)))


def _watch_list(ctx: Context) -> bool:
    return ctx.features.enabled("WatchList")


# Writing


def _write_options(ctx: Context, request: Request, options: WriteOptions) -> WriteOptions:
    """The options, of which the field manager goes into the context."""
    ctx.manager = manager_name(options.field_manager, request.headers.get("user-agent", ""))
    ctx.dry_run = options.dry_run
    return options


def _target(store: Store, ctx: Context) -> tuple[Target, Version, Subresource | None]:
    """What a body has to be; made once per version and subresource."""
    key = (ctx.version, ctx.subresource)
    found = store.targets.get(key)
    if found is None:
        version = store.resource.version(ctx.version)
        assert version is not None, f"{store.resource.plural} has no version {ctx.version}"
        subresource = next((sub for sub in store.resource.subresources if sub.name == ctx.subresource), None)
        found = store.targets[key] = (Target(store.resource, version, subresource), version, subresource)
    return found


def _body(store: Store, ctx: Context, target: Target, request: Request, options: WriteOptions) -> Json:
    content_type = request.headers.get("content-type", "")
    return decode_body(
        ctx, target, store.registry.kinds, request.body, content_type, options.field_validation or "Warn"
    )


async def create(store: Store, ctx: Context, request: Request) -> Result:
    """POST. With ctx.subresource (binding, eviction, token): the subresource's own create."""
    check_media_type(request.headers.get("content-type", ""))
    options = _write_options(
        ctx, request, queries.create_options(request.params) if request.query else queries.create_options()
    )
    target, _, subresource = _target(store, ctx)
    obj = _body(store, ctx, target, request, options)
    if subresource is None:
        if store.resource.create is not None:
            _match_namespace(store, ctx, obj)
            return Result(None, created=True, body=await store.resource.create(store, ctx, obj, options))
        return await _told(store, ctx, obj["metadata"], _created(store, ctx, obj, options))
    if subresource.create is None:
        raise method_not_allowed()
    _match_namespace(store, ctx, obj)
    return Result(None, created=True, body=await subresource.create(store, ctx, obj, options))


def _match_namespace(store: Store, ctx: Context, obj: Json) -> None:
    """A body that is not stored must not name another namespace than the path either. Raises 400."""
    given = (obj.get("metadata") or {}).get("namespace", "")
    if given and store.resource.namespaced:
        ensure_namespace({"namespace": given}, ctx.namespace)


async def _created(store: Store, ctx: Context, obj: Json, options: WriteOptions) -> Result:
    return Result(await store.create(ctx, obj, options), created=True)


async def _told(store: Store, ctx: Context, metadata: Json, write: Awaitable[Result]) -> Result:
    """A write, after which it is known what disabled feature gates took from its object, whether it succeeded or
    not.
    """
    result = None
    try:
        result = await write
        return result
    finally:
        if ctx.dropped:
            name = (
                ctx.name
                or metadata.get("name")
                or (
                    result.entry.key.rpartition("/")[2] if result and result.entry else metadata.get("generateName", "")
                )
            )
            fields = tuple(dict.fromkeys(ctx.dropped))
            resource, dropped = store.resource, store.registry.dropped
            if not ctx.dry_run:
                dropped.note(resource.group, resource.kind, ctx.namespace, name, ctx.now, fields)
            if dropped.warns:
                ctx.warnings += [field.warning for field in fields]


async def update(store: Store, ctx: Context, request: Request) -> Result:
    """PUT of the object or of ctx.subresource."""
    options = _write_options(
        ctx, request, queries.update_options(request.params) if request.query else queries.update_options()
    )
    target, _, subresource = _target(store, ctx)
    first: list[Json] = [_body(store, ctx, target, request, options)]
    metadata = first[0]["metadata"]
    ensure_namespace(metadata, ctx.namespace if store.resource.namespaced else "")
    _check_name(ctx, metadata)
    deduplicate_owners(metadata, ctx.warnings)
    uid = metadata.get("uid")

    def change(_old: Json | None) -> Json:
        if first:
            return first.pop()
        silent = ctx.of_object(ctx.namespace, ctx.name)
        silent.warnings = []
        obj = _body(store, silent, target, request, options)
        ensure_namespace(obj["metadata"], ctx.namespace if store.resource.namespaced else "")
        deduplicate_owners(obj["metadata"], silent.warnings)
        return obj

    projection = subresource.projection if subresource is not None else None
    if projection is not None:
        write = store.update(
            ctx,
            ctx.name,
            projection.of_object(ctx, change, tracked=False),
            options,
            uid=uid,
            create=False,
            tracked=True,
        )
        return _shown(projection, await _told(store, ctx, metadata, write))
    return await _told(store, ctx, metadata, store.update(ctx, ctx.name, change, options, ctx.subresource, uid=uid))


def _shown(projection: Projection, result: Result) -> Result:
    """The outcome of a write through a projection, as a projection."""
    assert result.entry is not None, "an update has an object"
    return Result(projection.answer(result.entry))


def _check_name(ctx: Context, metadata: Json) -> None:
    name = metadata.get("name", "")
    if not name:
        raise bad_request(f"the name of the object ({ctx.name} based on URL) was undeterminable: name must be provided")
    if name != ctx.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")


async def patch(store: Store, ctx: Context, request: Request) -> Result:
    """PATCH in the request's content type."""
    media = patch_type(request.headers.get("content-type", ""), PATCH_TYPES)
    apply = media == APPLY
    options = queries.patch_options(request.params, apply=apply) if request.query or apply else queries.patch_options()
    options = _write_options(ctx, request, options)
    target, version, subresource = _target(store, ctx)
    namespace = ctx.namespace if store.resource.namespaced else ""
    projection = subresource.projection if subresource is not None else None
    forms, resets, about = store.forms, store.strategy.reset_fields_of(ctx.subresource), ctx
    if projection is not None:
        forms, resets, version, about = projection.forms, (), projection.version, projection.context(ctx)
    if apply:
        patched: Callable[[Json | None], Json] = apply_change(
            forms, resets, about, target, version, request.body, options
        )
    else:
        patched = patch_change(about, target, version, media, request.body, options)

    def change(old: Json | None) -> Json:
        obj = patched(old)
        metadata = obj["metadata"]
        if old is None and metadata.get("uid"):
            cause = (
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            )
            raise conflict(store.resource.plural, store.resource.group, ctx.name, cause)
        ensure_namespace(metadata, namespace)
        _check_name(ctx, metadata)
        return obj

    if projection is not None:
        write = store.update(
            ctx, ctx.name, projection.of_object(ctx, change, tracked=apply), options, create=False, tracked=True
        )
        return _shown(projection, await _told(store, ctx, {}, write))
    return await _told(
        store, ctx, {}, store.update(ctx, ctx.name, change, options, ctx.subresource, create=apply, tracked=apply)
    )


# Deleting


def _delete_options(request: Request) -> DeleteOptions:
    if not request.body:
        return queries.delete_options(request.params) if request.query else queries.delete_options()
    media = check_media_type(request.headers.get("content-type", ""))
    try:
        if media == PROTOBUF:
            from apiserver.api import protobuf

            value: Any = protobuf.decode(DeleteOptionsType, protobuf.unwrap(request.body).raw)
            return queries.delete_options(body=decode(DeleteOptionsType, value).obj)
        loaded = load_body(request.body, media)
        _check_options_kind(*interpret(loaded))
        value = loaded.value
        return queries.delete_options(body=decode(DeleteOptionsType, value if value is not None else {}).obj)
    except DecodeError as error:
        raise bad_request(str(error)) from None


_META_SCHEME: Final = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


def _check_options_kind(version: str, kind: str) -> None:
    """DeleteOptions are taken in whatever version a body names; nothing else is. Raises DecodeError."""
    if version.count("/") > 1:
        raise DecodeError(f"unexpected GroupVersion string: {version}")
    if kind and kind != "DeleteOptions":
        raise DecodeError(
            f'no kind "{kind}" is registered for version "{version or "meta.k8s.io/v1"}" in scheme "{_META_SCHEME}"'
        )


async def delete(store: Store, ctx: Context, request: Request) -> DeleteResult:
    options = _delete_options(request)
    ctx.dry_run = options.dry_run
    ctx.warnings += store.strategy.warnings_on_delete(ctx, options)
    return await store.delete(ctx, options)


async def delete_collection(store: Store, ctx: Context, request: Request) -> Listing:
    selection = queries.list_options(request.params, watch=False) if request.query else queries.list_options()
    options = _delete_options(request)
    ctx.dry_run = options.dry_run
    ctx.warnings += store.strategy.warnings_on_delete(ctx, options)
    return await store.delete_collection(ctx, options, selection)
