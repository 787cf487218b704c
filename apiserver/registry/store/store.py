"""A resource's `Store` for the verbs, and the `Registry` that the stores of a server share.

A store reads from its resource's watch cache and appends to the log. The steps in between are in
`apiserver.registry.verbs`, one file per verb. The functions there take the store as their first argument.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.codec.codec import encode_exactly, encode_plain
from apiserver.api.errors.status import StatusError, insufficient_storage, unavailable
from apiserver.api.objects import Hub, Shared, Stored
from apiserver.registry.body.convert import ExpectedBody, Form, normalizer_of, to_stored_form
from apiserver.registry.body.decode import Kinds
from apiserver.registry.body.size import ENVELOPE, REQUEST_LIMIT, encode_large
from apiserver.registry.definition.context import Context, Rewrite
from apiserver.registry.definition.dropped_fields import DroppedFields
from apiserver.registry.definition.random_source import RandomSource
from apiserver.registry.definition.resource import Resource, api_version
from apiserver.registry.definition.strategy import find_override
from apiserver.registry.fields.managers import FieldTracker
from apiserver.registry.store.conversion import ConvertedEntry, add_mark, convert_entry, convert_to_stored, remove_mark
from apiserver.registry.store.projection import Projector
from apiserver.runtime.clock import now, server_loop
from apiserver.runtime.offload import LONG, call_on_loop, on_loop
from apiserver.storage.log.types import FutureRevision, StorageFull, StorageUnavailable, Write, WriteRefused
from apiserver.storage.watchcache.cache import Entry

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.registry.definition.authority import Access, Authority, Identity
    from apiserver.registry.definition.kubelets import KubeletEndpoints, Kubelets
    from apiserver.registry.definition.reservations import Reservations
    from apiserver.registry.store.admission import Chain, Handlers, Operation
    from apiserver.request.messages import User
    from apiserver.storage.log.types import RevisionLog
    from apiserver.storage.watchcache.cache import Cache
    from apiserver.storage.watchcache.watchcache import WatchCache
    from apiserver.webhooks.client import Webhooks

__all__ = ["WAIT_SECONDS", "Registry", "Store", "allow_all", "refusal_of"]

#: Seconds that a request waits for a future revision.
WAIT_SECONDS: Final = 3.0


def refusal_of(error: StorageUnavailable) -> StatusError:
    """Return the error of an unavailable storage: 507 if it is full, else 503."""
    return insufficient_storage(str(error)) if isinstance(error, StorageFull) else unavailable(str(error))


def allow_all(*_: Any, **__: Any) -> bool:
    """Allow everything: the rules' authorizer of a server without authorization."""
    return True


class Registry:
    """The shared parts of a server's stores. `stores` is by (group, plural), filled by the catalog.

    `admission` builds the chain of plugins; some plugins read this registry. `authorize(user, verb, group,
    resource, subresource, namespace, name)` decides for rules. `access` returns the authorizer and the
    authenticator. They read the stores and are built after them, so a rule calls `access` when it needs them.
    `remote_authorizer`: a webhook may authorize. `clock` returns UTC now, `random_source` chooses UIDs and generated
    names. `rewrite` stores a function's change of an object, for rules. `webhooks` calls webhooks, None if there are
    none. `components` returns name, health and message of the parts of the control plane. `kubelets` are the nodes with
    local processes, None if no node can run any.

    `shared`: other servers write to the same database, so a read first requests its revision. `watch_seconds`: a watch
    without timeoutSeconds ends after 1 to 2 times this many seconds. `warn_dropped`: writes of a field that a disabled
    feature gate drops get a warning; `dropped` records it in any case.
    """

    def __init__(
        self,
        log: RevisionLog,
        cache: WatchCache,
        *,
        admission: Callable[[Registry], Chain],
        features: Features,
        clock: Callable[[], datetime] = now,
        random_source: RandomSource | None = None,
        authorize: Callable[..., bool] = allow_all,
        access: Callable[[], Access | None] = lambda: None,
        remote_authorizer: bool = False,
        rewrite: Rewrite | None = None,
        webhooks: Webhooks | None = None,
        components: Callable[[], Awaitable[list[tuple[str, bool, str]]]] | None = None,
        kubelets: Kubelets | None = None,
        kubelet_endpoints: KubeletEndpoints | None = None,
        shared: bool = False,
        watch_seconds: float = 1800.0,
        warn_dropped: bool = False,
    ) -> None:
        self.log, self.cache, self.features, self.shared = log, cache, features, shared
        self.clock, self.authorize, self.access, self.rewrite = clock, authorize, access, rewrite
        self.remote_authorizer = remote_authorizer
        self.webhooks, self.components, self.watch_seconds = webhooks, components, watch_seconds
        self.kubelets, self.kubelet_endpoints = kubelets, kubelet_endpoints
        self.random_source = random_source = random_source or RandomSource()
        self.new_uid, self.new_suffix, self.choose = random_source.uid, random_source.suffix, random_source.below
        self.dropped = DroppedFields(warns=warn_dropped)
        self.kinds = Kinds()
        self.stores: dict[tuple[str, str], Store] = {}
        #: Writes in progress, by key.
        self.busy: dict[str, asyncio.Future[None]] = {}
        self.admission = admission(self)

    @property
    def authority(self) -> Authority | None:
        """The authorizer, for rules that need more than a yes or no."""
        access = self.access()
        return None if access is None else access.authorizer

    @property
    def identity(self) -> Identity | None:
        """The authenticator."""
        access = self.access()
        return None if access is None else access.authenticator

    @property
    def waits_for_authorizer(self) -> bool:
        """Whether a webhook authorizes. Rules that call the authorizer must then run where they may block."""
        return self.authority is not None and self.authority.is_remote

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> Shared | None:
        """Return a stored object, for rules about other objects."""
        store = self.stores.get((group, plural))
        if store is None:
            return None
        entry = store.cache.get(store.key(namespace, name))
        return None if entry is None else entry.obj

    def counts(self) -> dict[str, int]:
        """Return the number of objects by resource."""
        counted: dict[str, int] = {}
        for store in self.stores.values():
            if "list" in store.resource.verbs and store.resource.compute_objects is None:
                counted.setdefault(store.resource.qualified, len(store.cache))
        return counted

    def all_of(self, group: str, plural: str) -> list[Shared]:
        """Return all stored objects of a kind."""
        store = self.stores.get((group, plural))
        if store is None or not len(store.cache):
            return []
        return [entry.obj for entry in call_on_loop(store.cache.list).entries]

    def resource_of(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource that serves a kind in a version, or None."""
        for store in self.stores.values():
            resource = store.resource
            if resource.kind == kind and resource.group == group and api_version(group, version) in store.forms:
                return resource
        return None

    def watch_configuration(self, store: Store) -> None:
        """Invalidate the cached plugin lists when a configuration object changes.

        A write then calls no plugin without configuration objects.
        """
        group, plural = store.resource.group, store.resource.plural
        if not self.admission.is_configured_by(group, plural):
            return

        def invalidate(any: bool) -> None:
            if self.admission.record_change(group, plural, any=any):
                self.clear_handlers()

        store.cache.when_changed(invalidate)

    def clear_handlers(self) -> None:
        """Clear every store's cached plugin lists."""
        for store in self.stores.values():
            store.cached_handlers = {}

    @on_loop
    async def wait_for_writes(self, key: str) -> None:
        """Wait until no local write of this key is in progress and earlier writes of other servers are cached.

        A read then sees the results of all those writes.
        """
        while (busy := self.busy.get(key)) is not None:
            await busy
        if self.shared:
            await self.consistent()

    @on_loop
    async def wait_for_local_writes(self, key: str) -> None:
        """Wait until no local write of this key is in progress."""
        while (busy := self.busy.get(key)) is not None:
            await busy

    @on_loop
    async def consistent(self) -> None:
        """Wait until the caches have all earlier commits of every server.

        Raises StatusError (503) if they cannot.
        """
        if self.shared:
            await self._wait_for_revision(await self._latest_revision())

    @on_loop
    async def catch_up(self, refused: WriteRefused) -> None:
        """Wait until the caches show the reason of a refused write."""
        await self._wait_for_revision(refused.revision or await self._latest_revision())

    async def _latest_revision(self) -> int:
        try:
            return await self.log.current_revision()
        except StorageUnavailable as error:
            raise unavailable(str(error)) from error

    async def _wait_for_revision(self, revision: int) -> None:
        try:
            await self.cache.wait_for(revision, WAIT_SECONDS)
        except FutureRevision as error:
            raise unavailable(f"this server has not caught up with the database: {error}") from None


class Store:
    """One resource: its cache and its precomputed data.

    `kind_group` is the group of the stored kind, from the first resource with this prefix. Errors about invalid objects
    name it. `reservations` manage the objects' shared values.
    """

    def __init__(
        self,
        registry: Registry,
        resource: Resource,
        cache: Cache,
        forms: Mapping[str, Form],
        kind_group: str,
        reservations: Reservations | None = None,
    ) -> None:
        self.registry, self.resource, self.cache, self.strategy = registry, resource, cache, resource.strategy
        self.forms, self.kind_group, self.reservations = forms, kind_group, reservations
        self._prefix, self._namespaced = cache.prefix, resource.namespaced
        #: whether rules of the kind may have to wait for a webhook's decision.
        self.asks_authorizer = resource.strategy.asks_authorizer and registry.remote_authorizer
        self.tracker = FieldTracker(forms.get, resource.strategy.reset_fields_of, resource.defines)
        #: Admission plugins by operation, version, subresource and scope; replaced by an empty dict when their
        #: configuration changes.
        self.cached_handlers: dict[tuple[Operation, str, str, bool], Handlers] = {}
        #: Hooks that few kinds have, None for the others.
        self.canonicalize = find_override(self.strategy, "canonicalize")
        self.takes_long = find_override(self.strategy, "takes_long")
        self.before_storing = find_override(self.strategy, "before_storing")
        self.warnings_on_status_update = find_override(self.strategy, "warnings_on_status_update")
        #: Changes an object to its stored form, or None if that is the object itself.
        self.normalize = normalizer_of(resource.hub_schema)
        #: The resource in each version.
        self.variants = {version.name: resource.of_version(version) for version in resource.versions}
        #: Projectors by version and subresource.
        self.projectors = {
            (name, sub.name): Projector(sub.projection, self._fields_of(sub.name))
            for name, variant in self.variants.items()
            for sub in variant.subresources
            if sub.projection is not None
        }
        #: The expected body by version and subresource.
        self.bodies: Mapping[tuple[str, str], ExpectedBody] = {
            (version.name, "" if subresource is None else subresource.name): ExpectedBody(
                resource, version, subresource
            )
            for version in resource.versions
            for subresource in (None, *self.variants[version.name].subresources)
        }

    def key(self, namespace: str, name: str) -> str:
        """Return the key under which an object is stored."""
        return f"{self._prefix}{namespace}/{name}" if self._namespaced else f"{self._prefix}{name}"

    def is_outdated(self, entry: Entry) -> bool:
        """Return whether an object is stored by a former schema or in a former version.

        Upstream stores such an object again even if nothing changes. Storage migration relies on it.
        """
        raw = entry.raw if isinstance(entry, ConvertedEntry) else entry
        present = add_mark(Stored(remove_mark(raw.value)), self.resource.stored_mark)
        return self.cache.stored_value(entry.key, raw) != present

    def handlers(self, operation: Operation, ctx: Context) -> Handlers:
        """Return the admission plugins that handle such requests."""
        known, kind = self.cached_handlers, (operation, ctx.version, ctx.subresource, ctx.namespace != "")
        found = known.get(kind)
        if found is None:
            found = known[kind] = self.registry.admission.select_plugins(operation, ctx)
        return found

    def _fields_of(self, subresource: str) -> dict[str, str | None]:
        """Return a projection's field by apiVersion, or None in versions without such a subresource."""
        return {
            api_version(self.resource.group, name): next(
                (sub.projection.field for sub in variant.subresources if sub.name == subresource and sub.projection),
                None,
            )
            for name, variant in self.variants.items()
        }

    def context(
        self, user: User, version: str, verb: str, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Context:
        """Return the context of the rules for a request."""
        registry = self.registry
        # All fields are positional, because keywords and default values cost every request 100 ns.
        return Context(
            registry.clock(), user, registry.features, self.resource, version, verb, namespace, name, subresource,
            registry.lookup, registry.all_of, partial(registry.authorize, user), registry.access, registry.resource_of,
            registry.rewrite, "", False, None, None, [], {}, [],
        )  # fmt: skip

    async def put(
        self,
        ctx: Context,
        key: str,
        obj: Hub,
        expected: int,
        *,
        author: str,
        keep_managers: bool = False,
        frees: bool = False,
    ) -> Entry:
        """Append a new state of an object, in the version of the request. The returned state has it, too.

        `expected` is the required revision of the key, `author` the text of `encode_author`.
        Raises the errors of `append`, and StatusError if the object is too large.
        """
        converted = self.resource.conversion is not None
        if converted:
            obj = await convert_to_stored(self.resource, ctx, obj)
        made, mark = to_stored_form(obj), self.resource.stored_mark
        plain = encode_plain(made) if self.cache.followers and not (converted or mark) else None
        if plain is not None and len(plain) <= LONG:
            value = Stored(plain)
            self.cache.preload(key, value, made)
        else:
            value = Stored(encode_exactly(made))
            if len(value) + 2 * len(key) + ENVELOPE > REQUEST_LIMIT:
                value = encode_large(key, obj, self.resource.hub_schema, keep_managers=keep_managers)
            if mark:
                value = add_mark(value, mark)
        try:
            entry = await self.append(Write(key, value, expected, frees=frees, author=author))
        except BaseException:
            self.cache.discard_preloaded(key)
            raise
        return await convert_entry(self.resource, ctx, entry) if converted else entry

    async def append(self, write: Write) -> Entry:
        """Commit one write and return the state that it made. Afterwards the caches show it.

        For a deletion it is the last state with the deletion's version.
        Raises WriteRefused, and StatusError (503).
        """
        if server_loop.get() is not None:  # in a thread: the log belongs to the server's loop
            return await on_loop(self.append)(write)
        done = asyncio.get_running_loop().create_future()
        busy, key = self.registry.busy, write.key
        busy[key] = done
        try:
            record = await self.registry.log.append(write)
        except StorageUnavailable as error:
            raise refusal_of(error) from error
        finally:
            if busy.get(key) is done:
                del busy[key]
            done.set_result(None)
        entry = self.cache.get(key)
        return entry if entry is not None and entry.revision == record.revision else Entry(record, orjson.loads)
