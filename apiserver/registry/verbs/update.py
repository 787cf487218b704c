"""Create and update, in upstream's order of steps.

    create   system fields wiped → managed fields → admit → [uid, time, name → prepare → validate → validate metadata →
             validating
             admission → append]; the part in brackets again, with another name, when a generated name is taken
    update   read → change → managed fields → admit → version check → prepare → validate → validating admission →
             append; all of it
             again when somebody else was faster and the request names no version

Between reading and appending nothing waits (unless a plugin does), and a write of a key waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.fielderrors import FieldError, Path, invalid
from apiserver.api.status import MODIFIED, StatusError, already_exists, conflict, not_found
from apiserver.api.status import forbidden as forbidden_status
from apiserver.api.status import invalid as invalid_status
from apiserver.registry.admission import Attributes, Operation
from apiserver.registry.body.convert import api_version, encode_stored, exact_copy, read, read_compact
from apiserver.registry.body.options import parse_uint64
from apiserver.registry.metadata import (
    deduplicate_owners,
    ensure_namespace,
    fill_system_fields,
    generate_name,
    is_terminating,
    validate_metadata,
    validate_metadata_update,
    wipe_system_fields,
)
from apiserver.registry.verbs.deletion import removable
from apiserver.registry.verbs.results import Result, Unsaved
from apiserver.storage.types import KeyExists, KeyMissing, RevisionConflict, Write

if TYPE_CHECKING:
    from apiserver.registry.body.options import WriteOptions
    from apiserver.registry.context import Context
    from apiserver.registry.store import Store
    from apiserver.storage.cache import Entry

__all__ = ["create_entry", "replace_entry", "update_entry"]

Json = dict[str, Any]
Change = Callable[[Json | None], Json]

#: How often another generated name is tried.
NAME_ATTEMPTS: Final = 8


async def create_entry(store: Store, ctx: Context, obj: Json, options: WriteOptions) -> Entry:
    """`obj` is decoded, defaulted, in hub form, and the store's from now on."""
    metadata = obj["metadata"]
    wipe_system_fields(metadata)
    ensure_namespace(metadata, ctx.namespace if store.resource.namespaced else "")
    deduplicate_owners(metadata, ctx.warnings)
    await store.registry.consistent()  # admission asks for other objects, which other servers may just have written
    store.tracker.created(obj, _version(ctx), ctx.manager, ctx.subresource, ctx.now)
    await _admit(store, ctx, "CREATE", ctx.name or metadata.get("name", ""), obj, None)
    if not metadata.get("generateName") or metadata.get("name"):
        return await _insert(store, ctx, obj, options)
    for _ in range(NAME_ATTEMPTS - 1):
        try:
            return await _insert(store, ctx, exact_copy(obj), options)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
    return await _insert(store, ctx, obj, options)


async def _insert(store: Store, ctx: Context, obj: Json, options: WriteOptions) -> Entry:
    metadata = obj["metadata"]
    fill_system_fields(metadata, store.new_uid(), ctx.now)
    generated = bool(metadata.get("generateName"))
    if generated and not metadata.get("name"):
        metadata["name"] = generate_name(metadata["generateName"], store.new_suffix())
    _prepare_new(store, ctx, obj)
    name = metadata["name"]
    await _validate(store, ctx, "CREATE", name, obj, None)
    key = store.resource.key(metadata.get("namespace", ""), name)
    await store.registry.idle(key)
    if options.dry_run:
        if store.cache.get(key) is not None:
            raise _exists(store, key, name, generated)
        return Unsaved(key, obj, 0, metadata.get("resourceVersion", ""))
    _no_version(metadata)
    try:
        return await store.append(Write(key, encode_stored(obj), 0))
    except KeyExists as refused:
        await store.registry.catch_up(refused)
        raise _exists(store, key, name, generated) from None


def _no_version(metadata: Json) -> None:
    """A new object has no resource version; "0" counts as none, and so does what is no number."""
    version = metadata.pop("resourceVersion", "")
    if version.strip("0") and version.isascii() and version.isdigit():
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")


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


def _prepare_new(store: Store, ctx: Context, obj: Json) -> None:
    """Upstream's BeforeCreate."""
    resource, strategy, metadata = store.resource, store.strategy, obj["metadata"]
    ensure_namespace(metadata, ctx.namespace if resource.namespaced else "")
    strategy.prepare_for_create(ctx, obj)
    metadata = obj["metadata"]
    errors = strategy.validate_first(ctx, obj, None)
    if strategy.checks_metadata:
        errors += validate_metadata(
            metadata, resource.namespaced, strategy.name_rule_of(ctx), kind_rules=strategy.checks_finalizer_names
        )
    errors += strategy.validate(ctx, obj)
    if not errors and not strategy.checks_metadata:
        errors = validate_metadata(metadata, resource.namespaced, "path-segment", kind_rules=False)
    if errors:
        raise _invalid(store, metadata.get("name", ""), errors)
    ctx.warnings += strategy.warnings_on_create(ctx, obj)
    strategy.canonicalize(ctx, obj)
    if store.settle is not None:
        store.settle(obj)


def _invalid(store: Store, name: str, errors: list[FieldError]) -> StatusError:
    return invalid_status(store.resource.kind, store.kind_group, name, errors)


def _version(ctx: Context) -> str:
    return api_version(ctx.resource.group, ctx.version)


async def _admit(store: Store, ctx: Context, operation: Operation, name: str, obj: Json, old: Json | None) -> None:
    if store.admission.of(store.resource, operation):
        await store.admission.admit(Attributes(operation, ctx, name, obj, old))
        deduplicate_owners(obj["metadata"], ctx.warnings, after_admission=True)
    if store.resource.guard is not None:
        store.resource.guard(store, ctx, obj, old)


async def _validate(store: Store, ctx: Context, operation: Operation, name: str, obj: Json, old: Json | None) -> None:
    if store.admission.of(store.resource, operation):
        await store.admission.validate(Attributes(operation, ctx, name, obj, old))


# Update


async def update_entry(
    store: Store,
    ctx: Context,
    name: str,
    change: Change,
    options: WriteOptions,
    subresource: str,
    *,
    uid: str | None,
    create: bool,
    tracked: bool,
) -> Result:
    """`change` gets a private copy of the stored object (None: there is none) and gives the new one. `uid` is the one
    that the request's object names."""
    resource = store.resource
    key = resource.key(ctx.namespace if resource.namespaced else "", name)
    while True:
        await store.turn(key)
        entry = store.cache.get(key)
        if entry is None:
            if not (create and not subresource):
                raise not_found(resource.plural, resource.group, name)
            _check_precondition(store, ctx, key, name, "UID", uid, "")
            entry = await _create_by_update(store, ctx, name, key, change, options, tracked)
            if entry is None:
                continue
            return Result(entry, created=True)
        old = read(entry)
        _check_precondition(store, ctx, key, name, "UID", uid, old["metadata"]["uid"])
        new = change(read(entry) if tracked else read_compact(entry))
        if not tracked:
            store.tracker.updated(old, new, _version(ctx), ctx.manager, subresource, ctx.now)
        await _admit(store, ctx, "UPDATE", name, new, old)
        _check_version(store, name, new["metadata"], entry.revision)
        _prepare_update(store, ctx, new, old, subresource)
        _keep_times(new, old)
        await _validate(store, ctx, "UPDATE", name, new, old)
        result = await _write_update(store, key, entry, new, old, options)
        if result is not None:
            return Result(result)


def _check_precondition(
    store: Store, ctx: Context, key: str, name: str, what: str, wanted: str | None, found: str
) -> None:
    """Told in the storage's words; a dry run does not know the prefix of its keys."""
    if wanted and wanted != found:
        shown = key.removeprefix("/registry") if ctx.dry_run else key
        cause = (
            f"StorageError: invalid object, Code: 4, Key: {shown}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        )
        raise conflict(store.resource.plural, store.resource.group, name, cause)


async def _create_by_update(
    store: Store, ctx: Context, name: str, key: str, change: Change, options: WriteOptions, tracked: bool
) -> Entry | None:  # fmt: skip
    """PUT or apply to a name that is not there. None when somebody else was faster."""
    obj = change(None)
    metadata = obj["metadata"]
    if not tracked:
        store.tracker.created(obj, _version(ctx), ctx.manager, ctx.subresource, ctx.now)
    await _admit(store, ctx, "CREATE", name, obj, None)
    fill_system_fields(metadata, store.new_uid(), ctx.now)
    _prepare_new(store, ctx, obj)
    resource = store.resource
    if not ctx.authorize("create", resource.group, resource.plural, ctx.subresource, ctx.namespace, name):
        where = f' in the namespace "{ctx.namespace}"' if ctx.namespace else " at the cluster scope"
        cause = (
            f'User "{ctx.user.name}" cannot create resource "{resource.plural}" in API group "{resource.group}"{where}'
        )
        raise forbidden_status(resource.plural, resource.group, name, cause)
    await _validate(store, ctx, "CREATE", name, obj, None)
    metadata.pop("resourceVersion", None)
    if options.dry_run:
        return Unsaved(key, obj, 0)
    try:
        return await store.append(Write(key, encode_stored(obj), 0))
    except KeyExists as refused:
        await store.registry.catch_up(refused)
        return None


def _check_version(store: Store, name: str, metadata: Json, revision: int) -> None:
    """The object's version must be the stored one; none means whichever, where the kind allows that."""
    resource = store.resource
    text = metadata.pop("resourceVersion", "")
    try:
        given = parse_uint64(text) if text else 0
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None
    if given == revision:
        return
    if given:
        raise conflict(resource.plural, resource.group, name, MODIFIED)
    if not resource.unconditional_update:
        missing = invalid(Path("metadata") / "resourceVersion", 0, "must be specified for an update")
        raise invalid_status(resource.plural, resource.group, name, [missing])


def _prepare_update(store: Store, ctx: Context, new: Json, old: Json, subresource: str) -> None:
    """Upstream's BeforeUpdate."""
    resource, strategy = store.resource, store.strategy
    metadata, before = new["metadata"], old["metadata"]
    ensure_namespace(metadata, ctx.namespace if resource.namespaced else "")
    _restore(metadata, before, "generation")
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
    errors = _update_errors(store, ctx, new, old, subresource)
    if errors:
        raise _invalid(store, metadata.get("name", ""), errors)
    if not subresource:
        ctx.warnings += strategy.warnings_on_update(ctx, new, old)
    strategy.canonicalize(ctx, new)
    if store.settle is not None:
        store.settle(new)


def _restore(metadata: Json, before: Json, name: str) -> None:
    if name in before:
        metadata[name] = before[name]
    else:
        metadata.pop(name, None)


def _update_errors(store: Store, ctx: Context, new: Json, old: Json, subresource: str) -> list[FieldError]:
    """The generic findings, then the kind's."""
    strategy = store.strategy
    errors = _metadata_errors(store, ctx, new, old, subresource)
    if not subresource:
        return errors + strategy.validate_update(ctx, new, old)
    if subresource == "status":
        return errors + strategy.validate_status_update(ctx, new, old)
    return errors + strategy.validate_subresource(ctx, subresource, new, old)


def _metadata_errors(store: Store, ctx: Context, new: Json, old: Json, subresource: str) -> list[FieldError]:
    """A finding on metadata is a cause for each layer that makes it. Metadata that passed before and is unchanged is
    not looked at.
    """
    strategy, namespaced = store.strategy, store.resource.namespaced
    metadata, before = new["metadata"], old["metadata"]
    first = strategy.validate_first(ctx, new, old)
    if _same_metadata(metadata, before):
        return first
    kind_rules = strategy.checks_finalizer_names
    errors = validate_metadata(metadata, namespaced, "path-segment", kind_rules=False)
    errors += validate_metadata_update(metadata, before, kind_rules=False)
    errors += first
    if strategy.checks_metadata:
        if not subresource and strategy.revalidates_metadata:
            errors += validate_metadata(metadata, namespaced, strategy.name_rule_of(ctx), kind_rules=kind_rules)
        errors += validate_metadata_update(metadata, before, kind_rules=kind_rules)
    return errors


def _same_metadata(metadata: Json, before: Json) -> bool:
    """Equal but for the version and for managers, whose entries are made here or were checked when they were read."""
    for name in metadata.keys() | before.keys():
        if name != "resourceVersion" and name != "managedFields" and metadata.get(name) != before.get(name):
            return False
    return True


def _keep_times(new: Json, old: Json) -> None:
    """A write that changes nothing but the times of managers changes nothing."""
    after, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not after or not before or after == before or len(after) != len(before):
        return
    for a, b in zip(after, before, strict=True):
        if a.get("fieldsV1") != b.get("fieldsV1") or {**a, "time": ""} != {**b, "time": ""}:
            return
    if _same_but_managers(new, old):
        new["metadata"]["managedFields"] = before


def _same_but_managers(new: Json, old: Json) -> bool:
    for name in new.keys() | old.keys():
        if name != "metadata" and new.get(name) != old.get(name):
            return False
    after, before = new["metadata"], old["metadata"]
    return all(
        name in ("managedFields", "resourceVersion") or after.get(name) == before.get(name)
        for name in after.keys() | before.keys()
    )


async def _write_update(
    store: Store, key: str, entry: Entry, new: Json, old: Json, options: WriteOptions
) -> Entry | None:
    """Appends the new state, or removes the object when its last finalizer went. None: somebody else was faster."""
    if removable(store.resource, new, old):
        if not options.dry_run:
            try:
                await store.append(Write(key, entry.value, entry.revision, deleted=True))
            except RevisionConflict as refused:
                await store.registry.catch_up(refused)
                return None
            except KeyMissing:
                pass
        return Unsaved(key, new, entry.revision)
    old["metadata"].pop("resourceVersion", None)
    if not options.dry_run:
        new["metadata"].pop("selfLink", None)  # a field that storing drops
    if new == old:
        return entry
    if options.dry_run:
        return Unsaved(key, new, entry.revision)
    try:
        return await store.append(Write(key, encode_stored(new), entry.revision))
    except (RevisionConflict, KeyMissing) as refused:
        await store.registry.catch_up(refused)
        return None


# Guarded writes without the rules of an update


async def replace_entry(
    store: Store,
    ctx: Context,
    name: str,
    change: Callable[[Json], Json],
    uid: str,
    resource_version: str,
    dry_run: bool,
) -> Entry:
    """What subresources do that write the stored object themselves (binding): preconditions in the storage's words, no
    strategy, no managed fields."""
    resource = store.resource
    key = resource.key(ctx.namespace if resource.namespaced else "", name)
    while True:
        await store.turn(key)
        entry = store.cache.get(key)
        if entry is None:
            raise not_found(resource.plural, resource.group, name)
        old = read(entry)
        _check_precondition(store, ctx, key, name, "UID", uid, old["metadata"]["uid"])
        _check_precondition(
            store, ctx, key, name, "ResourceVersion", resource_version, old["metadata"]["resourceVersion"]
        )
        new = change(read(entry))
        await _validate(store, ctx, "UPDATE", name, new, old)
        new["metadata"].pop("resourceVersion", None)
        old["metadata"].pop("resourceVersion", None)
        if new == old:
            return entry
        if dry_run:
            return Unsaved(key, new, entry.revision)
        try:
            return await store.append(Write(key, encode_stored(new), entry.revision))
        except (RevisionConflict, KeyMissing) as refused:
            await store.registry.catch_up(refused)
