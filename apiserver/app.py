"""Everything wired together, in the one place where it is: log → caches → stores → chain of handlers → front end.

server = await Server.open(settings)      ready to answer `server.chain.handle(request)`
server.front                              what is served on sockets
await server.close()
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from apiserver.admission.plugins.registered import build
from apiserver.aggregation.servers import Server as RemoteServer
from apiserver.api.errors.nesting import loads_stored
from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import RELEASES, Features
from apiserver.authentication.authenticator import ADMIN
from apiserver.controlplane.about import (
    about_of,
    address_of,
    keys_address,
    own_release,
    pages_of,
    server_id,
    version_info,
)
from apiserver.controlplane.aggregation import Aggregation
from apiserver.controlplane.compaction import compact_regularly
from apiserver.controlplane.component_statuses import ComponentHealth
from apiserver.controlplane.crds import CustomResources
from apiserver.controlplane.event_ttl import Expiry
from apiserver.controlplane.flow_schemas import DanglingSchemas
from apiserver.controlplane.issued_certificates import IssuedCertificates
from apiserver.controlplane.lease_candidates import Elections
from apiserver.controlplane.local_apiservices import LocalApis
from apiserver.controlplane.server_lease import IdentityLease
from apiserver.controlplane.system_objects import BuiltIn
from apiserver.http.admin.idle import Rest
from apiserver.http.documents.discovery import Discovery
from apiserver.http.documents.health import Health
from apiserver.http.documents.index import Documents
from apiserver.http.documents.issuer import Issuer
from apiserver.http.documents.openapi import OpenApi
from apiserver.http.documents.startup import checks_of
from apiserver.http.fairness.handler import Fairness
from apiserver.http.formats.view import View, hides_of
from apiserver.http.handlers.authentication import Authentication
from apiserver.http.handlers.authorization import Authorization
from apiserver.http.handlers.chain import Errors, HandlerChain, Link
from apiserver.http.handlers.dispatch import Dispatch
from apiserver.http.handlers.fixed_headers import EveryAnswer
from apiserver.http.handlers.routes import Routes
from apiserver.http.kubelet.network import KubeletEndpoints
from apiserver.http.kubelet.sockets import KUBELETS, Kubelets
from apiserver.http.server.frontend import FrontEnd
from apiserver.http.server.relay import AsgiApp
from apiserver.http.server.webpages import WebPages
from apiserver.http.sinks.jsonlines import JsonLines
from apiserver.http.sinks.metrics import Metrics, Served
from apiserver.http.sinks.ring import Ring
from apiserver.options.settings import Settings
from apiserver.registry.catalog.catalog import Catalog, CatalogEvent
from apiserver.registry.catalog.served import deprecation, known, served
from apiserver.registry.definition.random_source import Chance
from apiserver.registry.store.store import Registry, allow_all
from apiserver.registry.verbs.server_writes import rewrite_own
from apiserver.request.info import RequestInfo
from apiserver.resources import CATALOG
from apiserver.resources.core.events import CORE_EVENTS
from apiserver.resources.services.network import ServiceNetwork
from apiserver.resources.services.ranges import PortRange
from apiserver.runtime.clock import now, teller
from apiserver.security import Access
from apiserver.storage import (
    DamagedRow,
    RevisionLog,
    StorageError,
    StorageUnavailable,
    UnusableDatabase,
    WatchCache,
    open_log,
)
from apiserver.storage.sqlite.size import bytes_of
from apiserver.webhooks.client import Webhooks

if TYPE_CHECKING:
    from apiserver.http.handlers.faults import Faults
    from apiserver.http.tracing.export import Exporter

Json = dict[str, Any]
log = logging.getLogger(__name__)


class Server:
    """One API server without its socket."""

    def __init__(self, settings: Settings, log: RevisionLog, cache: WatchCache) -> None:
        self.settings, self.log, self.cache = settings, log, cache
        self._stopping = False
        #: Whether those who wait for the server have been told of it, as far as that is anybody's task.
        self.announced = True
        self._upkeep: list[asyncio.Task[None]] = []
        self._lease: IdentityLease | None = None
        # With a seed not even the machine makes a difference.
        self._host = socket.gethostname() if settings.seed is None else "kubedra"
        #: Makes again what the process made at its start besides (`--nodes`).
        self.after_reset: Callable[[], Awaitable[None]] | None = None
        #: Explains a pod, claim or node (kind, namespace, name), where components run in the process.
        self.explain: Callable[[str, str, str], Awaitable[dict[str, Any]]] | None = None
        self._access = access = Access(settings)
        self._exporter: Exporter | None = None
        self._fairness = Fairness(settings.traffic.seats)
        self._assemble_registry()
        self._access.use(self.registry, self.webhooks)
        # Where access is open there is one server, which nobody looks for.
        if settings.tokens is not None and settings.features.enabled("APIServerIdentity"):
            self._lease = IdentityLease(self.registry, self._host)
        self.metrics = Metrics(
            self.registry.counts, settings.features.stages, lambda: [*self._dispatch.streams.values()], self._serves,
            version_info(settings), lambda: bytes_of(settings.storage, settings.data_dir), settings.metrics,
        )  # fmt: skip
        self.metrics.include(lambda: [*self.registry.counted, *access.families(self._host), *self.chain.families()])
        self.metrics.include(self._fairness.families)
        self._issued = IssuedCertificates(self.registry)
        self.metrics.include(self._issued.families)
        self.requests = Ring()
        self._logs: list[JsonLines] = []
        self._audit_log: JsonLines | None = None
        self._faults: Faults | None = None
        self._discovery = Discovery(self.catalog.served(), settings.features.release, address_of(settings))
        self._openapi = OpenApi(self.catalog.served(), known(CATALOG, Features()), settings.features.release)
        self._documents = self._make_documents()
        self._dispatch = Dispatch(self._routes(), self._documents, now)
        self.rest = Rest(self.requests.latest, lambda: self._dispatch.streams, lambda: log.revision, now)
        self.chain = HandlerChain(
            *self._links(), last=self._dispatch, count=self.metrics.count, sinks=[self.requests.add]
        )
        self.registry.components = ComponentHealth(self.rest.names, self._storage)
        # Where access is open nothing else asks who sends a request.
        pages = WebPages(settings.bind_address, settings.accept_hosts) if settings.tokens is None else None
        self.front = FrontEnd(self.chain, self._make_admin, pages, self._access.certificates, settings.identity.claims)
        self.catalog.subscribe(self._follow_catalog)

    def _assemble_registry(self) -> None:
        """The stores of all kinds, and what is asked about their objects besides the rules."""
        settings = self.settings
        self.registry = Registry(
            self.log,
            self.cache,
            admission=build(settings.enable_plugins, settings.disable_plugins, settings.admission.plugins()),
            features=settings.features,
            clock=teller(),
            chance=Chance(None if settings.seed is None else f"{settings.seed}/{self.log.revision}"),
            authorize=self._access.authorizer.allows if self._access.authorizer.needed else allow_all,
            shared=not (settings.memory or settings.storage == "sqlite"),
            warn_dropped=settings.warn_dropped_fields,
        )
        self.registry.rewrite = partial(rewrite_own, self.registry, ADMIN)
        self.registry.watch_seconds = settings.network.watch_seconds
        network = ServiceNetwork(
            self.registry, ADMIN, settings.network.cidrs, PortRange(*settings.network.ports), self.registry.choose
        )
        self.registry.reservations["", "services"] = network
        self.built_in = BuiltIn(self.registry, settings, network, self._access.certificates)
        self.registry.kubelets = Kubelets(settings.data_dir / KUBELETS)
        self.registry.kubelet_endpoints = KubeletEndpoints(settings.kubelets)
        self.catalog = self._make_catalog()
        self._apis = LocalApis(self.registry, self.catalog.served)
        self._flows = DanglingSchemas(self.registry, self._fairness.configure)
        self.webhooks = Webhooks(
            settings.service_addresses,
            lambda namespace, name: self.registry.lookup("", "services", namespace, name) is not None,
        )
        self._aggregation = Aggregation(self.registry, settings, ADMIN, self._show_remotes)
        self._custom = CustomResources(self.registry, self.catalog, self.webhooks, ADMIN)

    def _links(self) -> list[Link]:
        """What a request passes before it is dispatched."""
        settings, authorizer = self.settings, self._access.authorizer
        constrained = settings.features.enabled("ConstrainedImpersonation")
        self._authentication = Authentication(self._access.authenticator, authorizer, constrained=constrained)
        links: list[Link] = [Errors(), self._authentication]
        if settings.audit_policy is not None:
            from apiserver.http.audit.handler import Audit, AuditOfStrangers

            strangers = AuditOfStrangers(settings.audit_policy, self.registry.kinds, self._audit)
            audit = Audit(settings.audit_policy, self.registry.kinds, authorizer, self._audit)
            links = [Errors(), strangers, self._authentication, audit]
        if settings.tracing is not None:
            from apiserver.http.tracing.export import Exporter
            from apiserver.http.tracing.handler import Tracing

            resource = {"service.name": "apiserver", "service.instance.id": server_id(self._host)}
            self._exporter = Exporter(settings.tracing.endpoint, resource)
            links.append(Tracing(self._exporter, settings.tracing.per_million))
        if settings.traffic.seats:
            links.append(self._fairness)
        if authorizer.needed:
            links.append(Authorization(authorizer))
        if settings.features.enabled("CBORServingAndStorage"):
            from apiserver.http.handlers.cbor import Cbor

            links.append(Cbor(self._dispatch))
        if settings.network.transport_security:
            links.insert(0, EveryAnswer(("Strict-Transport-Security", settings.network.transport_security)))
        return links

    def warn_of(self, unattended: Mapping[tuple[str, str], Callable[[dict[str, Any]], list[str]]]) -> None:
        """From now on whoever creates an object of these groups and resources gets these warnings."""
        self._dispatch.unattended = unattended

    def _make_catalog(self) -> Catalog:
        versions = {
            (resource.group, resource.plural, version.name)
            for resource, version in served(CATALOG, self.settings.features, self.settings.runtime_config)
        }
        catalog = Catalog(
            self.registry, lambda resource, version: (resource.group, resource.plural, version.name) in versions
        )
        catalog.open(known(CATALOG, self.settings.features))
        return catalog

    def _make_documents(self) -> Documents:
        roles = "RBAC" in self.settings.access.modes
        health = Health(checks_of(self._storage, lambda: self.announced, lambda: self._stopping, roles=roles))
        version = version_info(self.settings)
        accounts = self._access.accounts
        issuer = Issuer(accounts.issuers[0], keys_address(self.settings), accounts.public_keys, accounts.fresh)
        pages, this = pages_of(self.settings), about_of(self.settings)
        return Documents(self._discovery, version, health, self.metrics.text, self._openapi.answer, issuer, pages, this)

    def record_requests(self, sink: JsonLines) -> None:
        """Write records of requests there too, until the server closes."""
        self._logs.append(sink)
        self.chain.record_to(sink.add)

    def audit_requests(self, sink: JsonLines) -> None:
        """Write the audit log there, until the server closes."""
        self._logs.append(sink)
        self._audit_log = sink

    def _audit(self, event: dict[str, Any]) -> None:
        if self._audit_log is not None:
            self._audit_log.write(event)
            self._audit_log.flush()  # who reads an answer finds it in the log

    @classmethod
    async def open(cls, settings: Settings) -> Server:
        """A server on its opened store, with the built-in namespaces. Raises UnusableDatabase, RuntimeConfigError."""
        served(CATALOG, settings.features, settings.runtime_config)
        target = {"memory": "memory:", "sqlite": f"sqlite:{settings.data_dir}"}.get(settings.storage, settings.storage)
        log = await open_log(target, durability=settings.durability)
        cache = WatchCache(log, loads_stored)
        server = cls(settings, log, cache)
        try:
            await cache.start()
            if any(hides_of(version, cache[resource.prefix()]) for resource, version in server.catalog.served()):
                server._dispatch.routes = server._routes()
            await server._access.start(log)
            await server.built_in.ensure()
            server._flows.tell()
            await server._apis.ensure()
            if server._lease is not None:
                await server._lease.renew()
            # Not before: what every server has does not wait for webhooks, which may come up after it.
            server.registry.webhooks = server.webhooks
            await server._custom.start()
            await server._aggregation.start(server.chain)
        except DamagedRow as error:
            await server.close()
            where = settings.data_dir if settings.storage == "sqlite" else "the database"
            raise UnusableDatabase(f"{where}: {error}; see `kubedra data check`") from error
        except (StorageUnavailable, StatusError) as error:
            await server.close()
            raise UnusableDatabase(f"the database went away during the start: {error}") from error
        except BaseException:
            await server.close()
            raise
        server._begin_upkeep()
        return server

    def _begin_upkeep(self) -> None:
        """Starts what follows changes and keeps things up to date while the server runs."""
        running: list[Coroutine[Any, Any, None]] = [
            self._apis.follow(), self._flows.follow(), self.built_in.authentication.follow(),
            Elections(self.registry).follow(), self._issued.follow(),
        ]  # fmt: skip
        running += [each.follow() for each in self._access.followers()]
        for reloaded in self._access.followed(self._host):
            self.metrics.include(reloaded.families)
            running.append(reloaded.follow())
        if self._exporter is not None:
            running.append(self._exporter.follow())
        if self._lease is not None:
            running.append(self._lease.keep())
        if self.settings.compaction_interval:
            running.append(compact_regularly(self.log, self.settings.compaction_interval, retire=self.cache.retire))
        events = self.cache[CORE_EVENTS.prefix()]
        events.hold_little()
        if self.settings.event_ttl:
            running.append(Expiry(self.log, events, self.settings.event_ttl).run())
        self._upkeep += map(asyncio.create_task, running)

    async def reset(self) -> tuple[int, int]:
        """Empty everything but what the server was started with: the built-in namespaces (as new), and what
        `after_reset` makes again. Faults and records of requests go, too. (Objects gone, version now.)"""
        deleted = await self.log.reset(self.built_in.kept() + self._apis.kept())
        self.registry.dropped.clear()
        if self._faults is not None:
            self._faults.clear()
        self.requests.clear()
        await self.built_in.ensure()
        await self._apis.ensure()
        if self._lease is not None:
            await self._lease.renew()
        if self.after_reset is not None:
            await self.after_reset()
        return deleted, self.log.revision

    def stop_watches(self) -> None:
        """End all watches, so that their connections may end."""
        self._stopping = True
        self.cache.close()

    async def close(self) -> None:
        """End all watches, commit what waits, let go of the store."""
        self.stop_watches()
        await self._custom.stop()
        await self._aggregation.stop()
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        await self.webhooks.close()
        await self._access.close()
        if self._exporter is not None:
            await self._exporter.close()
        await self.log.close()
        for file in self._logs:
            file.close()

    def _follow_catalog(self, _: CatalogEvent) -> None:
        """What is derived from the catalog, after a change of it."""
        found = self.catalog.served()
        self._apis.changed()
        self._dispatch.routes = self._routes()
        self._discovery.show(found)
        self._documents.forget()
        self._openapi.show(found)

    def _show_remotes(self, servers: Iterable[RemoteServer]) -> None:
        """What servers behind this one serve, in the documents of what is served."""
        servers = tuple(servers)
        self._discovery.show_remote(servers)
        self._documents.forget()
        self._openapi.show_remote(servers)

    def _routes(self) -> Routes:
        routes = Routes()
        for resource, version in self.catalog.served():
            store = self.registry.stores[resource.group, resource.plural]
            view = View(resource, version, hides=hides_of(version, store.cache))
            routes.add(store, view, version.warning or deprecation(resource, version, RELEASES[-1]))
        return routes

    async def _storage(self) -> str:
        try:
            await self.log.current_revision()
        except StorageError as error:
            return str(error)
        return self.log.problem()

    def _serves(self, info: RequestInfo) -> Served | None:
        return self._dispatch.routes.serves(info)

    def _make_admin(self) -> AsgiApp:
        from apiserver.http.admin.application import create_admin
        from apiserver.http.admin.operations import Operations
        from apiserver.http.handlers.faults import Faults

        self._faults = Faults(self.chain, self._authentication.user_of)
        return create_admin(
            Operations(
                version=own_release(),
                allowed=self._access.administrator(self._authentication.user_of),
                info=self._info,
                reset=self.reset,
                dropped=self.registry.dropped.losses,
                rest=self.rest.look,
                explain=lambda: self.explain,
                requests=self.requests,
                faults=self._faults,
            )
        )

    def _info(self) -> Mapping[str, Any]:
        major, minor = self.settings.features.release
        return {
            "emulates": f"{major}.{minor}",
            "resource_version": str(self.log.revision),
            "objects": self.registry.counts(),
            "watches": len(self._dispatch.streams),
        }
