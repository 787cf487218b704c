"""DELETE of an object: immediately, after a grace period, or when the finalizers are gone.

    options → preconditions → a kind's own beginning (namespaces) → grace period → finalizers → admit → append

Rules are those of upstream's generic registry (rest.BeforeDelete, the store's deletion of objects with finalizers).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from apiserver.api.codec.codec import DecodeError, decode, interpret
from apiserver.api.errors.status import StatusError, bad_request, conflict
from apiserver.api.objects import Hub, Json
from apiserver.api.types.meta import DeleteOptions as DeleteOptionsType
from apiserver.api.values.durations import go_seconds
from apiserver.api.values.times import timestamp
from apiserver.registry.body.convert import encode_stored, read_shared
from apiserver.registry.body.decode import PROTOBUF, check_media_type, load_body, unregistered
from apiserver.registry.definition.metadata import FOREGROUND, ORPHAN
from apiserver.registry.definition.options import DeleteOptions, Preconditions, delete_options
from apiserver.registry.store.admission import Attributes
from apiserver.registry.store.conversion import add_mark, convert_entry, convert_to_stored
from apiserver.registry.store.results import DeleteResult, Unsaved
from apiserver.registry.verbs.pipeline import Mutation, admit, read_stored, validate
from apiserver.storage.log.types import KeyMissing, RevisionConflict, Write

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.resource import Resource
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["delete", "delete_object", "options_of"]

_COLLECTED: Final = (ORPHAN, FOREGROUND)


async def delete(store: Store, ctx: Context, request: Request) -> DeleteResult:
    """Delete an object. Raise StatusError."""
    options = options_of(request)
    ctx.dry_run, ctx.options = options.dry_run, options
    ctx.warnings += store.strategy.warnings_on_delete(ctx, options)
    store.strategy.check_delete(ctx)
    return await delete_object(store, ctx, options)


def options_of(request: Request) -> DeleteOptions:
    """Parse the options from the body, or else from the query. Raise 400, 415 or 422."""
    if not request.body:
        return delete_options(request.params) if request.query else delete_options()
    media = check_media_type(request.headers.get("content-type", ""))
    try:
        if media == PROTOBUF:
            from apiserver.api import protobuf

            value: Any = protobuf.decode(DeleteOptionsType, protobuf.unwrap(request.body).raw)
            return delete_options(body=decode(DeleteOptionsType, value).obj)
        loaded = load_body(request.body, media)
        _check_options_kind(*interpret(loaded))
        value = loaded.value
        return delete_options(body=decode(DeleteOptionsType, value if value is not None else {}).obj)
    except DecodeError as error:
        raise bad_request(str(error)) from None


_META_SCHEME: Final = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
#: The other kinds that upstream's decoder of options knows: in every version, and in versions of their own.
_OF_ANY_VERSION: Final = frozenset(
    {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "Status", "UpdateOptions"}
)
_SHARED: Final = frozenset({"PartialObjectMetadata", "PartialObjectMetadataList", "Table", "TableOptions"})
_OF_VERSIONS: Final = {
    "meta.k8s.io/v1": _SHARED | {"GetOptions", "ListOptions", "PatchOptions", "WatchEvent"},
    "meta.k8s.io/v1beta1": _SHARED,
}


def _check_options_kind(version: str, kind: str) -> None:
    """Check that a body is a DeleteOptions of any version. Raise DecodeError."""
    version = version or "meta.k8s.io/v1"
    if version.count("/") > 1 or kind not in ("", "DeleteOptions"):
        if version.count("/") < 2 and (kind in _OF_ANY_VERSION or kind in _OF_VERSIONS.get(version, ())):
            package = "v1beta1" if (version, kind) == ("meta.k8s.io/v1beta1", "PartialObjectMetadataList") else "v1"
            raise DecodeError(f"converting ({package}.{kind}) to (v1.DeleteOptions): unknown conversion")
        raise DecodeError(unregistered(kind, version, _META_SCHEME))


# Stored objects


async def delete_object(store: Store, ctx: Context, options: DeleteOptions, *, admitted: bool = False) -> DeleteResult:
    """Delete ctx.name, as far as its kind, its finalizers and its grace period allow.

    With `admitted` admission has already seen the deletion, as a part of an eviction.
    Raises StatusError.
    """
    m, strategy = Mutation(store, ctx, options, "DELETE"), store.strategy
    while True:
        await read_stored(m)
        _check_preconditions(store.resource, m.obj["metadata"], options.preconditions)
        if strategy.starts_deletion(ctx, m.obj, options):
            result = await _start(m, options)
        elif not strategy.may_remove(m.obj):
            return DeleteResult(m.entry, gone=False, code=_code(options))
        else:
            result = await _step(m, options, admitted=admitted)
        if result is not None:
            return result


async def _start(m: Mutation, options: DeleteOptions) -> DeleteResult | None:
    """Store the first step of a deletion that another component completes (namespaces).

    Returns None if another writer was first.
    """
    strategy, metadata = m.store.strategy, m.obj["metadata"]
    await _admit(m)
    if strategy.begins_with_finalizers:
        _set_finalizers(metadata, _finalizers(strategy.garbage_collection, metadata, options))
    written = await _write(m)
    return None if written is None else DeleteResult(written, gone=False, code=_code(options))


async def _step(m: Mutation, options: DeleteOptions, *, admitted: bool) -> DeleteResult | None:
    """Delete, as far as finalizers and the grace period allow. Return None if another writer was first."""
    store, entry = m.store, m.entry
    step = _plan(m.ctx, m.obj, options)
    if step.then == "pending":
        return replace(_answer(store, entry, gone=False), code=_code(options))
    if not admitted:
        await _admit(m)
    changed = step.obj is not None
    if changed:
        written = await _write(m)
        if written is None:
            return None
        entry = written
    if step.then == "keep":
        return DeleteResult(entry, gone=False, code=_code(options))
    if options.dry_run:
        return DeleteResult(entry, gone=True) if changed else _answer(store, entry, gone=True)
    result = await _remove(m, entry, written=changed)
    if result is not None and store.reservations is not None:
        await store.reservations.release(m.ctx, entry.obj)
    return result


def _code(options: DeleteOptions) -> int:
    """Return 202 if the object stays for a while until its dependents are deleted in the background."""
    return 202 if options.orphan is False else 200


async def _admit(m: Mutation) -> None:
    handlers = m.store.handlers("DELETE", m.ctx)
    if any(handlers):
        name = "" if m.ctx.verb == "deletecollection" else m.ctx.name
        attributes = Attributes("DELETE", m.ctx, name, None, read_shared(m.entry))
        await admit(handlers, attributes)
        await validate(handlers, attributes)


async def _write(m: Mutation) -> Entry | None:
    """Store the terminating object. An unchanged object keeps its version."""
    before = read_shared(m.entry)
    for obj in (before, m.obj):
        obj["metadata"].pop("resourceVersion", None)
    if m.obj == before:
        return m.entry
    if m.options.dry_run:
        return Unsaved(m.key, m.obj, m.entry.revision)
    store, resource, ctx = m.store, m.resource, m.ctx
    value = add_mark(encode_stored(await convert_to_stored(resource, ctx, m.obj)), resource.stored_mark)
    try:
        written = await store.append(Write(m.key, value, m.entry.revision, frees=True, author=m.author))
        return await convert_entry(resource, ctx, written)
    except (RevisionConflict, KeyMissing) as refused:
        await store.registry.catch_up(refused)
        return None


async def _remove(m: Mutation, entry: Entry, *, written: bool) -> DeleteResult | None:
    try:
        last = await m.store.append(Write(m.key, entry.value, entry.revision, deleted=True, author=m.author))
    except (RevisionConflict, KeyMissing) as refused:
        if not written or isinstance(refused, RevisionConflict):
            await m.store.registry.catch_up(refused)
            return None
        last = entry
    return _answer(m.store, last, gone=True)


def _answer(store: Store, entry: Entry, *, gone: bool) -> DeleteResult:
    status = None if store.resource.delete_returns_object else _success(store.resource, entry.obj["metadata"])
    return DeleteResult(entry, gone, status)


# Rules


class _Step(NamedTuple):
    """The next step of a DELETE.

    `then` "keep" leaves the object to its finalizers or its grace period. "remove" removes it after `obj` is written.
    "pending" means that an earlier DELETE already requested as much. `obj` is None if nothing is written first.
    """

    then: Literal["keep", "remove", "pending"]
    obj: Hub | None


def _check_preconditions(resource: Resource, metadata: Json, preconditions: Preconditions | None) -> None:
    if preconditions is None:
        return
    uid, version = preconditions.uid, preconditions.resource_version
    name = metadata["name"]
    if uid is not None and uid != metadata["uid"]:
        raise _precondition_conflict(
            resource, name, "UID", uid, metadata["uid"], "The object might have been deleted and then recreated"
        )
    if version is not None and version != metadata["resourceVersion"]:
        raise _precondition_conflict(
            resource,
            name,
            "ResourceVersion",
            version,
            metadata["resourceVersion"],
            "The object might have been modified",
        )


def _precondition_conflict(resource: Resource, name: str, what: str, wanted: str, found: str, hint: str) -> StatusError:
    if resource.strategy.storage_preconditions:
        cause = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        return conflict(resource.plural, resource.group, name, cause)
    cause = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {hint}"
    return conflict(resource.kind, resource.hub_group, name, cause)


def _plan(ctx: Context, obj: Hub, options: DeleteOptions) -> _Step:
    """Plan the effect of a DELETE on an object (a private copy, changed in place)."""
    strategy, metadata = ctx.resource.strategy, obj["metadata"]
    grace = strategy.deletion_grace(ctx, obj, _requested(options))
    graceful = False
    if grace is not None:
        if "deletionTimestamp" in metadata:
            shortened = _shorten(metadata, _requested(options), ctx.now)
            if shortened is None:
                return _Step("pending", None)
            graceful = shortened
        else:
            _mark(metadata, ctx.now + go_seconds(grace), grace)
            graceful = True
    changed = _set_finalizers(metadata, _finalizers(strategy.garbage_collection, metadata, options))
    held = bool(metadata.get("finalizers"))
    if graceful:
        return _Step("keep" if held or metadata["deletionGracePeriodSeconds"] > 0 else "remove", obj)
    if held:
        _mark_now(metadata, ctx.now)
        return _Step("keep", obj)
    return _Step("remove", obj if changed and options.dry_run else None)


def _requested(options: DeleteOptions) -> int | None:
    """Return the requested grace period in seconds. A negative one means 1 s."""
    return 1 if options.grace_period is not None and options.grace_period < 0 else options.grace_period


def _shorten(metadata: Json, requested: int | None, now: datetime) -> bool | None:
    """Shorten the period of a terminating object. Return None if the DELETE changes nothing."""
    period = metadata.get("deletionGracePeriodSeconds", 0)
    if period < 0:
        period = metadata["deletionGracePeriodSeconds"] = 1
    if not period:
        return False
    if requested is None or requested >= period:
        return None
    began = datetime.strptime(metadata["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    ends = began - go_seconds(period) + go_seconds(requested)
    if ends < now:
        ends, requested = now, min(requested, 1)
    metadata["deletionTimestamp"] = timestamp(ends)
    metadata["deletionGracePeriodSeconds"] = requested
    return True


def _mark(metadata: Json, at: datetime, grace: int) -> None:
    metadata["deletionTimestamp"] = timestamp(at)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


def _mark_now(metadata: Json, now: datetime) -> None:
    """Mark an object with finalizers as deleted now."""
    given = metadata.get("deletionTimestamp")
    if given is None:
        _mark(metadata, now, 0)
    elif given > timestamp(now):
        metadata["deletionTimestamp"] = timestamp(now)
    metadata["deletionGracePeriodSeconds"] = 0


def _finalizers(policy: str, metadata: Json, options: DeleteOptions) -> list[str]:
    """Return the object's finalizers with those of the propagation policy."""
    given = metadata.get("finalizers") or []
    if policy == "unsupported":
        return given
    wanted = _collection_finalizer(policy, given, options)
    if not given and not wanted:
        return given
    others = [finalizer for finalizer in given if finalizer not in _COLLECTED]
    chosen = [*others, wanted] if wanted else others
    return given if set(chosen) == set(given) else chosen


def _collection_finalizer(policy: str, given: list[str], options: DeleteOptions) -> str:
    if options.orphan is not None:
        return ORPHAN if options.orphan else ""
    if options.propagation:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation, "")
    for finalizer in given:
        if finalizer in _COLLECTED:
            return finalizer
    return ORPHAN if policy == "orphan" else ""


def _set_finalizers(metadata: Json, finalizers: list[str]) -> bool:
    if finalizers == (metadata.get("finalizers") or []):
        return False
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return True


def _success(resource: Resource, metadata: Json) -> Json:
    """Return the Status for the deletion of a kind whose DELETE does not return the object."""
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
    if not resource.group:
        del details["group"]
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
