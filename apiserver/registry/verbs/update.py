"""PUT, and the writing of every change of a stored object: what PATCH computes is stored from here on, too.

    read → the request's change → managed fields → admit → version check → reserved → prepare → validate → normalized →
    validating admission → append; all of it again when another writer was first and the request names no version

Between reading and appending nothing waits (unless a plugin does), and a write of a key waits for the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.errors.status import MODIFIED, StatusError, bad_request, conflict, not_found
from apiserver.api.errors.status import forbidden as forbidden_status
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.schema.objects import Hub, Json, UpdateFunc
from apiserver.api.values.numbers import parse_uint64
from apiserver.registry.body.convert import holds_empty, read, read_compact, read_shared
from apiserver.registry.body.decode import decode_body
from apiserver.registry.definition.metadata import (
    deduplicate_owners,
    ensure_namespace,
    fill_system_fields,
    manager_name,
    validate_metadata,
    validate_metadata_update,
)
from apiserver.registry.definition.options import write_options
from apiserver.registry.fields.managers import Manager
from apiserver.registry.store.admission import Attributes, Handlers, admit, validate
from apiserver.registry.store.conversion import is_outdated, shown
from apiserver.registry.store.results import Result, Unsaved
from apiserver.registry.verbs.create import prepare_new
from apiserver.registry.verbs.delete import removable
from apiserver.storage.log.types import KeyExists, KeyMissing, RevisionConflict, Write

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["check_name", "precondition_failed", "update", "update_object"]


async def update(store: Store, ctx: Context, request: Request) -> Result:
    """PUT of the object or of ctx.subresource. Raises StatusError."""
    options = write_options(request, "UpdateOptions")
    ctx.manager = manager_name(options.field_manager, request.headers.get("user-agent", ""))
    ctx.dry_run, ctx.options = options.dry_run, options
    expected = store.bodies[ctx.version, ctx.subresource]
    decoded: list[Hub] = [decode_body(ctx, expected, store.registry.kinds, request, options.field_validation)]
    metadata = decoded[0]["metadata"]
    ensure_namespace(metadata, ctx.namespace)
    check_name(ctx, metadata)
    deduplicate_owners(metadata, ctx.warnings)

    def put(_: Hub | None) -> Hub:
        if decoded:
            return decoded.pop()
        again = ctx.of_object(ctx.namespace, ctx.name)  # whose warnings were given the first time
        again.warnings = []
        obj = decode_body(again, expected, store.registry.kinds, request, options.field_validation)
        ensure_namespace(obj["metadata"], ctx.namespace)
        deduplicate_owners(obj["metadata"], again.warnings)
        return obj

    return await update_object(
        store, ctx, put, options, uid=metadata.get("uid"), create=store.resource.create_on_update
    )


def check_name(ctx: Context, metadata: Json) -> None:
    """Raises 400 where an object is not the one that the path names."""
    name = metadata.get("name", "")
    if not name:
        raise bad_request(f"the name of the object ({ctx.name} based on URL) was undeterminable: name must be provided")
    if name != ctx.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")


async def update_object(
    store: Store,
    ctx: Context,
    func: UpdateFunc,
    options: WriteOptions,
    *,
    uid: str | None = None,
    create: bool = False,
    tracked: bool = False,
) -> Result:
    """Writes what `func` makes of the object ctx.name. `uid` is the one that the request names, `create` whether a
    missing object is made; `tracked`: `func` keeps managed fields itself. Raises StatusError.
    """
    projector = store.projectors.get((ctx.version, ctx.subresource))
    try:
        if projector is None:
            created = create and not ctx.subresource
            return await _update(store, ctx, func, options, ctx.subresource, uid, create=created, tracked=tracked)
        func = projector.of_object(ctx, func, tracked=tracked)
        result = await _update(store, ctx, func, options, "", uid, create=False, tracked=True)
        assert result.entry is not None, "an update has an object"
        return Result(projector.answer(result.entry))
    finally:
        if ctx.dropped:
            ctx.report_dropped(store.registry.dropped, ctx.name)


async def _update(
    store: Store,
    ctx: Context,
    func: UpdateFunc,
    options: WriteOptions,
    subresource: str,
    uid: str | None,
    *,
    create: bool,
    tracked: bool,
) -> Result:
    registry, resource, name = store.registry, store.resource, ctx.name
    key = resource.key(ctx.namespace, name)
    writer = Manager(ctx.manager, "Update", store.bodies[ctx.version, ""].api_version, subresource)
    while True:
        if registry.shared or key in registry.busy:
            await registry.turn(key)
        entry = store.cache.get(key)
        if entry is None:
            if not create:
                raise not_found(resource.plural, resource.group, name)
            if uid:
                raise precondition_failed(store, ctx, key, "UID", uid, "")
            made = await _create(store, ctx, key, func, options, None if tracked else writer)
            if made is None:
                continue
            return Result(made, created=True)
        if resource.conversion is not None:
            entry = await shown(store, ctx, entry)
        old = read_shared(entry)
        if uid and uid != old["metadata"]["uid"]:
            raise precondition_failed(store, ctx, key, "UID", uid, old["metadata"]["uid"])
        new = func(read(entry) if tracked else read_compact(entry))
        if not tracked:
            store.tracker.updated(old, new, writer, ctx.now)
        handlers = store.handlers("UPDATE", ctx)
        if handlers.admitting:
            await admit(handlers, Attributes("UPDATE", ctx, name, new, old))
        if "ownerReferences" in new["metadata"]:
            deduplicate_owners(new["metadata"], ctx.warnings, after_admission=True)
        if resource.guard is not None:
            resource.guard(store, ctx, new, old)
        _check_version(store, name, new["metadata"], entry.revision)
        if store.reservations is None or subresource:
            result = await _replace(store, ctx, key, entry, new, old, options, handlers, subresource, tracked=tracked)
        else:
            held = await store.reservations.reserve(ctx, new, old)
            result = None
            try:
                result = await _replace(store, ctx, key, entry, new, old, options, handlers, "", tracked=tracked)
            finally:
                await held.settle(stored=result is not None)
        if result is not None:
            return Result(result)


async def _replace(
    store: Store,
    ctx: Context,
    key: str,
    entry: Entry,
    new: Hub,
    old: Hub,
    options: WriteOptions,
    handlers: Handlers,
    subresource: str,
    *,
    tracked: bool,
) -> Entry | None:
    """The new state, prepared, checked and stored. None: another writer was first."""
    _prepare(store, ctx, new, old, subresource)
    _keep_times(new, old)
    if handlers.validating:
        # Who is asked sees the version that is replaced.
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        await validate(handlers, Attributes("UPDATE", ctx, ctx.name, new, old))
        del new["metadata"]["resourceVersion"]
    if store.before_storing is not None:
        store.before_storing(ctx, new)
    result = await _write(store, ctx, key, entry, new, old, dry_run=options.dry_run, keep_managers=tracked)
    if (
        store.reservations is not None
        and result is not None
        and not options.dry_run
        and "deletionTimestamp" in old["metadata"]
        and removable(store.resource, new, old)
    ):
        await store.reservations.release(ctx, new)
    return result


def precondition_failed(store: Store, ctx: Context, key: str, what: str, wanted: str, found: str) -> StatusError:
    """409 in the storage's words; a dry run does not know the prefix of its keys."""
    shown = key.removeprefix("/registry") if ctx.dry_run else key
    cause = (
        f"StorageError: invalid object, Code: 4, Key: {shown}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    )
    return conflict(store.resource.plural, store.resource.group, ctx.name, cause)


async def _create(
    store: Store, ctx: Context, key: str, func: UpdateFunc, options: WriteOptions, writer: Manager | None
) -> Entry | None:
    """PUT or apply to a name that is not there. None when another writer was first."""
    resource, name = store.resource, ctx.name
    obj = func(None)
    metadata = obj["metadata"]
    if writer is not None:
        store.tracker.created(obj, writer, ctx.now)
    handlers = store.handlers("CREATE", ctx)
    if handlers.admitting:
        await admit(handlers, Attributes("CREATE", ctx, name, obj))
    deduplicate_owners(obj["metadata"], ctx.warnings, after_admission=True)
    if resource.guard is not None:
        resource.guard(store, ctx, obj, None)
    _given_version(metadata.get("resourceVersion", ""))
    fill_system_fields(metadata, store.registry.new_uid(), ctx.now)
    if store.reservations is None:
        return await _create_reserved(store, ctx, key, obj, options, handlers, keep_managers=writer is None)
    held = await store.reservations.reserve(ctx, obj, None)
    made = None
    try:
        made = await _create_reserved(store, ctx, key, obj, options, handlers, keep_managers=writer is None)
    finally:
        await held.settle(stored=made is not None)
    return made


async def _create_reserved(
    store: Store, ctx: Context, key: str, obj: Hub, options: WriteOptions, handlers: Handlers, *, keep_managers: bool
) -> Entry | None:
    resource, name, metadata = store.resource, ctx.name, obj["metadata"]
    prepare_new(store, ctx, obj)
    if not ctx.authorize("create", resource.group, resource.plural, ctx.subresource, ctx.namespace, name):
        where = f' in the namespace "{ctx.namespace}"' if ctx.namespace else " at the cluster scope"
        cause = (
            f'User "{ctx.user.name}" cannot create resource "{resource.plural}" in API group "{resource.group}"{where}'
        )
        raise forbidden_status(resource.plural, resource.group, name, cause)
    if handlers.validating:
        await validate(handlers, Attributes("CREATE", ctx, name, obj))
    if store.before_storing is not None:
        store.before_storing(ctx, obj)
    version = metadata.pop("resourceVersion", "")
    if options.dry_run:
        return Unsaved(key, obj, 0, version)
    try:
        return await store.put(ctx, key, obj, 0, keep_managers=keep_managers)
    except KeyExists as refused:
        await store.registry.catch_up(refused)
        return None


def _given_version(text: str) -> int:
    """A resource version as a number, 0 for none. Raises 500."""
    try:
        return parse_uint64(text) if text else 0
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None


def _check_version(store: Store, name: str, metadata: Json, revision: int) -> None:
    """The object's version must be the stored one; none means whichever, where the kind allows that."""
    resource = store.resource
    text = metadata.pop("resourceVersion", "")
    if text == str(revision):
        return
    given = _given_version(text)
    if given == revision:
        return
    if given:
        raise conflict(resource.plural, resource.group, name, MODIFIED)
    if not resource.unconditional_update:
        missing = invalid(Path("metadata") / "resourceVersion", 0, "must be specified for an update")
        raise invalid_status(resource.plural, resource.group, name, [missing])


def _prepare(store: Store, ctx: Context, new: Hub, old: Hub, subresource: str) -> None:
    """Prepares a changed object and checks it (upstream's BeforeUpdate). Raises 422."""
    resource, strategy, before = store.resource, store.strategy, old["metadata"]
    metadata = new["metadata"]
    ensure_namespace(metadata, ctx.namespace)
    metadata.pop("generation", None)
    if "generation" in before:
        metadata["generation"] = before["generation"]
    if subresource == "status":
        strategy.prepare_for_status_update(ctx, new, old)
    elif subresource:
        strategy.prepare_for_subresource(ctx, subresource, new, old)
    else:
        strategy.prepare_for_update(ctx, new, old)
    metadata = new["metadata"]
    metadata.pop("resourceVersion", None)
    metadata.setdefault("uid", before.get("uid", ""))
    for name in ("creationTimestamp", "deletionTimestamp"):
        if name in before:
            metadata[name] = before[name]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    errors = _metadata_errors(store, ctx, new, old, subresource)
    if subresource == "status":
        errors += strategy.validate_status_update(ctx, new, old)
    elif subresource:
        errors += strategy.validate_subresource(ctx, subresource, new, old)
    else:
        errors += strategy.validate_update(ctx, new, old)
    if errors:
        raise invalid_status(new.get("kind", resource.kind), store.kind_group, metadata.get("name", ""), errors)
    if not subresource:
        ctx.warnings += strategy.warnings_on_update(ctx, new, old)
    elif subresource == "status" and store.warnings_on_status_update is not None:
        ctx.warnings += store.warnings_on_status_update(ctx, new, old)
    if store.canonicalize is not None:
        store.canonicalize(ctx, new)
    if store.normalize is not None and holds_empty(new):
        store.normalize(new)


#: Parts of metadata that no rule looks at here: the version, and managers, whose entries were made here or were checked
#: when they were read.
_UNCHECKED = {"resourceVersion": None, "managedFields": None}


def _metadata_errors(store: Store, ctx: Context, new: Hub, old: Hub, subresource: str) -> list[FieldError]:
    """A finding on metadata is a cause for each layer that makes it. Metadata that passed before and is unchanged is
    not looked at.
    """
    strategy, namespaced = store.strategy, store.resource.namespaced
    metadata, before = new["metadata"], old["metadata"]
    first = strategy.validate_first(ctx, new, old)
    if metadata | _UNCHECKED == before | _UNCHECKED:
        return first
    errors = validate_metadata(metadata, namespaced, "path-segment", kind_rules=False)
    errors += validate_metadata_update(metadata, before, kind_rules=False)
    errors += first
    if strategy.checks_metadata and (subresource != "status" or strategy.checks_status_metadata):
        if not subresource and strategy.revalidates_metadata:
            errors += strategy.validate_metadata(ctx, metadata, namespaced)
        if subresource or strategy.compares_metadata:
            errors += validate_metadata_update(metadata, before, kind_rules=strategy.checks_finalizer_names)
    return errors


def _keep_times(new: Json, old: Json) -> None:
    """A write that changes nothing but the times of managers changes nothing."""
    after, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not after or not before or after == before or len(after) != len(before):
        return
    if any({**a, "time": ""} != {**b, "time": ""} for a, b in zip(after, before, strict=True)):
        return
    if _same_but_managers(new, old):
        new["metadata"]["managedFields"] = before


def _same_but_managers(new: Json, old: Json) -> bool:
    if any(new.get(name) != old.get(name) for name in new.keys() | old.keys() if name != "metadata"):
        return False
    return bool(new["metadata"] | _UNCHECKED == old["metadata"] | _UNCHECKED)


async def _write(
    store: Store, ctx: Context, key: str, entry: Entry, new: Hub, old: Hub, *, dry_run: bool, keep_managers: bool
) -> Entry | None:
    """Appends the new state, or removes the object when its last finalizer went. None: another writer was first."""
    if "deletionTimestamp" in old["metadata"] and removable(store.resource, new, old):
        if not dry_run:
            try:
                await store.append(Write(key, entry.value, entry.revision, deleted=True))
            except RevisionConflict as refused:
                await store.registry.catch_up(refused)
                return None
            except KeyMissing:
                pass
        return Unsaved(key, new, entry.revision)
    old["metadata"].pop("resourceVersion", None)
    if not dry_run:
        new["metadata"].pop("selfLink", None)  # a field that storing drops
    if new == old and not (store.resource.custom and not dry_run and is_outdated(store, key, entry)):
        return entry
    if dry_run:
        return Unsaved(key, new, entry.revision)
    frees = "deletionTimestamp" in old["metadata"]  # finalizers and kubelets do their part of a deletion
    try:
        return await store.put(ctx, key, new, entry.revision, keep_managers=keep_managers, frees=frees)
    except (RevisionConflict, KeyMissing) as refused:
        await store.registry.catch_up(refused)
        return None
