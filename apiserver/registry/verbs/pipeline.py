"""The write pipeline: every step of a write of an object, in upstream's order.

    read_stored     wait for the write in progress → read the stored object → compare the UID
    (the verb)      set the new object: the body of a POST or PUT, or what a patch makes of the stored object
    admit_object    managed fields → mutating admission → duplicate owners → guard of the resource → resource version
    store_object    uid, time, generated name → reserve → prepare → validate → warn → canonicalize → normalize →
                    validating admission → append

A POST reads nothing. It repeats `store_object` while its generated name exists. PUT, PATCH and apply repeat all steps
if another writer was first. DELETE has steps of its own between reading and appending: `verbs/delete.py`. Plugins,
guards, reservations and calls of the authorizer may wait between reading and appending. Writes of one key run one after
the other.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.errors.status import MODIFIED, StatusError, conflict, forbidden, not_found
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.objects import Hub
from apiserver.api.values.numbers import parse_uint64
from apiserver.registry.body.convert import may_have_empty, read, read_compact, read_shared
from apiserver.registry.definition.authors import encode_author
from apiserver.registry.definition.metadata import (
    UNCHECKED,
    deduplicate_owners,
    ensure_namespace,
    fill_system_fields,
    generate_name,
    validate_metadata,
    validate_metadata_update,
)
from apiserver.registry.fields.managers import Manager, keep_times
from apiserver.registry.store.admission import Attributes, Handlers, Operation
from apiserver.registry.store.conversion import convert_entry
from apiserver.registry.store.results import Result, Unsaved
from apiserver.runtime.offload import run_blocking
from apiserver.storage.log.types import KeyExists, KeyMissing, RevisionConflict, Write

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import DeleteOptions, WriteOptions
    from apiserver.registry.store.store import Store
    from apiserver.storage.watchcache.cache import Entry

__all__ = [
    "Mutation", "admit", "admit_object", "append_changed", "precondition_failed", "read_stored",
    "store_object", "validate",
]  # fmt: skip


class Mutation(Attributes):
    """One write of one object: the request, and the results of the steps so far. Admission sees it, too."""

    #: An apply is a patch with rules of its own, so the log names it.
    applies = False
    #: The required UID of the stored object.
    uid: str | None = None
    #: A PUT or apply creates a missing object.
    creates = False
    #: `admit_object` updates the managed fields. An apply does that itself.
    tracked = True
    #: An object that is too large is refused. Otherwise it is stored without its managed fields if that helps.
    keeps_managers = False
    #: The stored state; not set while the operation is CREATE.
    entry: Entry
    #: The object of `entry`, read-only; None while the operation is CREATE.
    old: Any
    #: The new object, private to this write.
    obj: Hub
    #: The admission plugins for this write.
    handlers: Handlers

    def __init__(
        self, store: Store, ctx: Context, options: WriteOptions | DeleteOptions, operation: Operation = "UPDATE"
    ) -> None:
        self.store, self.resource, self.ctx, self.options = store, store.resource, ctx, options
        self.name, self.namespace, self.subresource = ctx.name, ctx.namespace, ctx.subresource
        self.operation, self.old = operation, None
        #: The key in the log; "" for a POST until the object is appended.
        self.key = store.key(ctx.namespace, ctx.name) if operation != "CREATE" else ""
        #: Projects the object as another kind (scale) for the change.
        self.projector = store.projectors.get((ctx.version, ctx.subresource))
        #: The subresource whose rules apply; "" for the whole object and for the object of a projection.
        self.part = ctx.subresource if self.projector is None else ""

    @property
    def author(self) -> str:
        """The author of the row that this write appends."""
        ctx = self.ctx
        return encode_author(
            "apply" if self.applies else ctx.verb, ctx.subresource, ctx.user.name, ctx.agent, ctx.manager
        )


# Reading


async def read_stored(m: Mutation, *, copy: bool = True) -> None:
    """Read the stored object once the current write of the same object is complete.

    It sets `entry`, `old` and `operation`. With `copy` it sets `obj` to a private copy. A deletion needs only the copy.

    Raises:
        StatusError: 404 for a missing object that the request does not create, 409 for an object with another UID.
    """
    store, key = m.store, m.key
    if store.registry.shared or key in store.registry.busy:
        await store.registry.wait_for_writes(key)
    entry = store.cache.get(key)
    if entry is None:
        if not m.creates:
            raise not_found(m.resource.plural, m.resource.group, m.name)
        if m.uid:
            raise precondition_failed(m, "UID", m.uid, "")
        m.operation, m.old, m.obj = "CREATE", None, None  # type: ignore[assignment]  # nothing to change
        return
    if m.resource.conversion is not None:
        entry = await convert_entry(m.resource, m.ctx, entry)
    m.entry = entry
    if m.operation == "DELETE":
        m.obj = read(entry)
        return
    m.operation, m.old = "UPDATE", read_shared(entry)
    if m.uid and m.uid != m.old["metadata"]["uid"]:
        raise precondition_failed(m, "UID", m.uid, m.old["metadata"]["uid"])
    if not copy:
        return
    if m.projector is not None:
        m.obj = m.projector.project(entry)
    else:
        m.obj = read_compact(entry) if m.tracked else read(entry)


def precondition_failed(m: Mutation, what: str, wanted: str, found: str) -> StatusError:
    """Return a 409 with the storage's text. A dry run does not know the prefix of its keys."""
    key = m.key.removeprefix("/registry") if m.ctx.dry_run else m.key
    cause = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    )
    return conflict(m.resource.plural, m.resource.group, m.name, cause)


# Admission


async def admit(handlers: Handlers, attributes: Attributes) -> None:
    """Call every mutating plugin, and all of them again if one requests it. Raise StatusError."""
    for plugin in handlers.admitting:
        waiting = plugin.admit(attributes)
        if waiting is not None:
            await waiting
    reinvocation = attributes.reinvocation
    if reinvocation is not None and reinvocation.requested and not reinvocation.second_round:
        reinvocation.second_round = True
        await admit(handlers, attributes)


async def validate(handlers: Handlers, attributes: Attributes) -> None:
    """Call every validating plugin. Raise StatusError."""
    for plugin in handlers.validating:
        waiting = plugin.validate(attributes)
        if waiting is not None:
            await waiting


async def admit_object(m: Mutation) -> None:
    """Update the managed fields, call mutating admission and check the resource version. Raise StatusError."""
    store, ctx, creating = m.store, m.ctx, m.operation == "CREATE"
    if m.projector is not None:
        m.obj, m.keeps_managers = m.projector.embed(ctx, m.entry, m.obj, tracked=m.tracked), True
    elif m.tracked:
        writer = Manager(ctx.manager, "Update", store.bodies[ctx.version, ""].api_version, m.part)
        if creating:
            store.tracker.track_create(m.obj, writer, ctx.now)
        else:
            store.tracker.track_update(m.old, m.obj, writer, ctx.now)
    handlers = m.handlers = store.handlers(m.operation, ctx)
    m.reinvocation = None
    if handlers.admitting:
        await admit(handlers, m)
    metadata = m.obj["metadata"]
    if "ownerReferences" in metadata:
        deduplicate_owners(metadata, ctx.warnings, after_admission=True)
    if m.resource.guard is not None:
        await m.resource.guard(store, ctx, m.obj, m.old)
    if not creating:
        given = metadata.pop("resourceVersion", "")
        if given != str(m.entry.revision):
            _check_version(m, given)
    elif m.creates:
        _parse_version(metadata.get("resourceVersion", ""))


def _parse_version(text: str) -> int:
    """Parse a resource version; "" is 0. Raise 500."""
    try:
        return parse_uint64(text) if text else 0
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None


def _check_version(m: Mutation, text: str) -> None:
    """Raise 409 for a version that is not the stored one, and 422 for a missing version that the kind requires."""
    resource, given = m.resource, _parse_version(text)
    if given == m.entry.revision:
        return
    if given:
        raise conflict(resource.plural, resource.group, m.name, MODIFIED)
    if not resource.unconditional_update:
        missing = invalid(Path("metadata") / "resourceVersion", 0, "must be specified for an update")
        raise invalid_status(resource.plural, resource.group, m.name, [missing])


# Storing


async def store_object(m: Mutation) -> Result | None:
    """Prepare, validate and append the admitted object. Return None if another writer was first. Raises StatusError."""
    store, ctx, obj, creating = m.store, m.ctx, m.obj, m.operation == "CREATE"
    entry = held = None
    if creating:
        _fill_identity(m)
    if store.reservations is not None and not m.part:
        held = await store.reservations.reserve(ctx, obj, m.old)
    try:
        prepare = _prepare_new if creating else _prepare_changed
        if store.asks_authorizer and store.registry.waits_for_authorizer:
            errors = await run_blocking(partial(prepare, m))
        else:
            errors = prepare(m)
        if errors:
            kind, name = obj.get("kind", m.resource.kind), obj["metadata"].get("name", "")
            raise invalid_status(kind, store.kind_group, name, errors)
        if creating:
            ctx.warnings += store.strategy.warnings_on_create(ctx, obj)
        elif not m.part:
            ctx.warnings += store.strategy.warnings_on_update(ctx, obj, m.old)
        elif m.part == "status" and store.warnings_on_status_update is not None:
            ctx.warnings += store.warnings_on_status_update(ctx, obj, m.old)
        if store.canonicalize is not None:
            store.canonicalize(ctx, obj)
        if store.normalize is not None and may_have_empty(obj):
            store.normalize(obj)
        if not creating:
            keep_times(obj, m.old)
        elif m.creates:
            await _authorize_creation(m)
        if m.handlers.validating:
            await _validate_admission(m)
        if store.before_storing is not None:
            store.before_storing(ctx, obj)
        entry = await (_append_new(m) if creating else append_changed(m))
    finally:
        if held is not None:
            await held.finish(stored=entry is not None)
        if ctx.dropped:
            ctx.report_dropped(store.registry.dropped, ctx.name or obj["metadata"].get("name", ""))
    if entry is None:
        return None
    return Result(entry, created=creating) if m.projector is None else Result(m.projector.project_entry(entry))


def _fill_identity(m: Mutation) -> None:
    """Set the uid and time of a new object, and its name if it only has a generateName."""
    metadata, registry = m.obj["metadata"], m.store.registry
    fill_system_fields(metadata, registry.new_uid(), m.ctx.now)
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = generate_name(metadata["generateName"], registry.new_suffix())


def _prepare_new(m: Mutation) -> list[FieldError]:
    """Prepare a new object and return its errors (upstream's BeforeCreate)."""
    strategy, ctx, obj, namespaced = m.store.strategy, m.ctx, m.obj, m.resource.namespaced
    if obj["metadata"].get("namespace", "") != ctx.namespace:
        ensure_namespace(obj["metadata"], ctx.namespace)
    strategy.prepare_for_create(ctx, obj)
    metadata = obj["metadata"]
    errors = strategy.validate_first(ctx, obj, None)
    if strategy.checks_metadata and "kind" not in obj:  # The wrong kind of an object (`to_hub`) is the first error.
        errors += strategy.validate_metadata(ctx, metadata, namespaced)
    errors += strategy.validate(ctx, obj)
    if not errors and not strategy.checks_metadata:
        errors = validate_metadata(metadata, namespaced, "path-segment", kind_rules=False)
    return errors


def _prepare_changed(m: Mutation) -> list[FieldError]:
    """Prepare a changed object and return its errors (upstream's BeforeUpdate)."""
    strategy, ctx, part, obj, old = m.store.strategy, m.ctx, m.part, m.obj, m.old
    metadata, before = obj["metadata"], old["metadata"]
    if metadata.get("namespace", "") != ctx.namespace:
        ensure_namespace(metadata, ctx.namespace)
    metadata.pop("generation", None)
    if "generation" in before:
        metadata["generation"] = before["generation"]
    if part == "status":
        strategy.prepare_for_status_update(ctx, obj, old)
    elif part:
        strategy.prepare_for_subresource(ctx, part, obj, old)
    else:
        strategy.prepare_for_update(ctx, obj, old)
    metadata = obj["metadata"]
    metadata.pop("resourceVersion", None)
    metadata.setdefault("uid", before.get("uid", ""))
    for name in ("creationTimestamp", "deletionTimestamp"):
        if name in before:
            metadata[name] = before[name]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    errors = strategy.validate_first(ctx, obj, old)
    if metadata | UNCHECKED != before | UNCHECKED:
        errors = _changed_metadata_errors(m, errors)
    if part == "status":
        return errors + strategy.validate_status_update(ctx, obj, old)
    if part:
        return errors + strategy.validate_subresource(ctx, part, obj, old)
    return errors + strategy.validate_update(ctx, obj, old)


def _changed_metadata_errors(m: Mutation, first: list[FieldError]) -> list[FieldError]:
    """Return the errors of changed metadata. Each layer that finds an error adds a cause of its own."""
    strategy, namespaced = m.store.strategy, m.resource.namespaced
    metadata, before = m.obj["metadata"], m.old["metadata"]
    errors = validate_metadata(metadata, namespaced, "path-segment", kind_rules=False)
    errors += validate_metadata_update(metadata, before, kind_rules=False)
    errors += first
    if strategy.checks_metadata and (m.part != "status" or strategy.checks_status_metadata):
        if not m.part and strategy.revalidates_metadata:
            errors += strategy.validate_metadata(m.ctx, metadata, namespaced)
        if m.part or strategy.compares_metadata:
            errors += validate_metadata_update(metadata, before, kind_rules=strategy.checks_finalizer_names)
    return errors


async def _authorize_creation(m: Mutation) -> None:
    """Raise 403 if the user may not create the object by a PUT or apply."""
    ctx, resource = m.ctx, m.resource
    if not await ctx.is_allowed("create", resource.group, resource.plural, ctx.subresource, ctx.namespace, m.name):
        where = f' in the namespace "{ctx.namespace}"' if ctx.namespace else " at the cluster scope"
        cause = (
            f'User "{ctx.user.name}" cannot create resource "{resource.plural}" in API group "{resource.group}"{where}'
        )
        raise forbidden(resource.plural, resource.group, m.name, cause)


async def _validate_admission(m: Mutation) -> None:
    """Call validating admission. It sees the old resource version in a changed object. Raises StatusError."""
    metadata = m.obj["metadata"]
    if m.operation == "CREATE":
        m.name = m.ctx.name or metadata["name"]
        await validate(m.handlers, m)
        return
    metadata["resourceVersion"] = m.old["metadata"]["resourceVersion"]
    await validate(m.handlers, m)
    del metadata["resourceVersion"]


async def _append_new(m: Mutation) -> Entry | None:
    """Append a new object. Return None if an object of its name exists."""
    store, registry, metadata, dry_run = m.store, m.store.registry, m.obj["metadata"], m.options.dry_run
    m.key = key = store.key(metadata.get("namespace", ""), metadata["name"])
    if key in registry.busy:
        await registry.wait_for_local_writes(key)
    if dry_run and store.cache.get(key) is not None:
        return None
    version = metadata.pop("resourceVersion", "")
    if dry_run:
        return Unsaved(key, m.obj, 0, version)
    if version and not m.creates:
        _check_no_version(version)
    try:
        return await store.put(m.ctx, key, m.obj, 0, author=m.author, keep_managers=m.keeps_managers)
    except KeyExists as refused:
        await registry.catch_up(refused)
        return None


def _check_no_version(text: str) -> None:
    """Raise 500 if a POST sets a version. 0 and invalid numbers count as unset."""
    with suppress(ValueError):
        if parse_uint64(text):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")


async def append_changed(m: Mutation) -> Entry | None:
    """Append a changed object, or delete it if its last finalizer was removed.

    Returns None if another writer was first.
    """
    store, obj, old, entry = m.store, m.obj, m.old, m.entry
    terminating, dry_run = "deletionTimestamp" in old["metadata"], m.options.dry_run
    try:
        if terminating and store.strategy.is_finalized(obj, old):
            if not dry_run:
                with suppress(KeyMissing):
                    await store.append(Write(m.key, entry.value, entry.revision, deleted=True, author=m.author))
                if store.reservations is not None:
                    await store.reservations.release(m.ctx, obj)
            return Unsaved(m.key, obj, entry.revision)
        old["metadata"].pop("resourceVersion", None)
        if not dry_run:
            obj["metadata"].pop("selfLink", None)  # A field that storing drops.
        if obj == old and (dry_run or not m.resource.custom or not store.is_outdated(entry)):
            return entry
        if dry_run:
            return Unsaved(m.key, obj, entry.revision)
        # A write of a terminating object is part of its deletion, so a full disk does not refuse it.
        return await store.put(
            m.ctx, m.key, obj, entry.revision, author=m.author, keep_managers=m.keeps_managers, frees=terminating
        )
    except (RevisionConflict, KeyMissing) as refused:
        await store.registry.catch_up(refused)
        return None
