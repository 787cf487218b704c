"""Wire a server: log → caches → stores → chain of handlers → front end.

server = await Server.open(settings)      ready to answer `server.chain.handle(request)`
server.front                              the front end for sockets
await server.close()
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from apiserver.admission.plugins.registered import build, select
from apiserver.aggregation.servers import Server as RemoteServer
from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import RELEASES, Features
from apiserver.authentication.authenticator import ADMIN
from apiserver.authentication.tokens.kubelet_tokens import KubeletTokens
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
from apiserver.controlplane.cluster_state import ClusterState, begin_with
from apiserver.controlplane.compaction import compact_regularly
from apiserver.controlplane.component_statuses import ComponentHealth
from apiserver.controlplane.crds import CustomResources
from apiserver.controlplane.dependencies import Dependencies
from apiserver.controlplane.event_ttl import Expiry
from apiserver.controlplane.flow_schemas import FlowSchemaStatus
from apiserver.controlplane.issued_certificates import IssuedCertificates
from apiserver.controlplane.lease_candidates import Elections
from apiserver.controlplane.local_apiservices import LocalApis
from apiserver.controlplane.server_lease import IdentityLease
from apiserver.controlplane.system_objects import BuiltIn
from apiserver.handler_chain import ChainConfig, build_exporter, build_handler_chain
from apiserver.http.admin.idle import IdleMonitor
from apiserver.http.documents.discovery import Discovery
from apiserver.http.documents.health import Health
from apiserver.http.documents.index import Documents
from apiserver.http.documents.issuer import Issuer
from apiserver.http.documents.openapi import OpenApi
from apiserver.http.documents.startup import checks_of
from apiserver.http.fairness.handler import Fairness
from apiserver.http.formats.view import View, hides_of
from apiserver.http.handlers.authentication import Authentication
from apiserver.http.handlers.dispatch import Dispatch
from apiserver.http.handlers.routes import Routes
from apiserver.http.kubelet.network import KubeletEndpoints
from apiserver.http.kubelet.sockets import KUBELETS, Kubelets
from apiserver.http.server.frontend import FrontEnd
from apiserver.http.server.relay import AsgiApp
from apiserver.http.server.webpages import WebPages
from apiserver.http.sinks.driver_calls import DriverCalls
from apiserver.http.sinks.metrics import Metrics
from apiserver.http.sinks.ring import Ring
from apiserver.options.settings import Settings
from apiserver.registry.catalog.catalog import Catalog, CatalogEvent, Served
from apiserver.registry.catalog.served import deprecation, list_known, select_served
from apiserver.registry.definition.random_source import RandomSource
from apiserver.registry.store.store import Registry, allow_all
from apiserver.registry.verbs.server_writes import rewrite_own
from apiserver.resources import CATALOG, catalog_of
from apiserver.resources.core.events import CORE_EVENTS
from apiserver.resources.services.network import ServiceNetwork
from apiserver.resources.services.ranges import PortRange
from apiserver.runtime.clock import bind_now, now
from apiserver.security import Access, open_keys
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
    from apiserver.authentication.tokens.service_account_keys import Keys
    from apiserver.history.reader import HistoryReader
    from apiserver.http.admin.operations import Clusters
    from apiserver.http.handlers.chain import HandlerChain, Sink
    from apiserver.http.handlers.exploration import Schedules
    from apiserver.http.handlers.faults import Faults
    from apiserver.http.sinks.coverage import Coverage
    from apiserver.registry.store.store import Store
    from apiserver.runtime.metrics import Family


class Server:
    """One API server without its socket."""

    def __init__(
        self, settings: Settings, log: RevisionLog, cache: WatchCache, keys: Keys, dependencies: Dependencies
    ) -> None:
        """Create and connect the parts.

        Some parts call others that are created later. Those get a method of the server that finds the part when it is
        called.
        """
        self.settings, self.log, self.cache = settings, log, cache
        self._dependencies, self._components = dependencies, dependencies.components
        self._stopping = False
        self._upkeep: list[asyncio.Task[None]] = []
        # A seed makes runs repeatable on every machine.
        self._host = socket.gethostname() if settings.seed is None else "kubedra"

        # Objects and the rules about them.
        self._kubelet_tokens = KubeletTokens()
        self.webhooks = Webhooks(settings.service_addresses, self._has_service)
        self.registry = self._build_registry()
        network = ServiceNetwork(
            self.registry, ADMIN, settings.network.cidrs, PortRange(*settings.network.ports), self.registry.choose
        )
        self.catalog = self._build_catalog(network)
        self._access = Access(settings, self.registry, self.webhooks, keys, self._kubelet_tokens)

        # Upkeep: objects that the server maintains by itself.
        self._fairness = Fairness(settings.traffic.seats)
        self.built_in = BuiltIn(self.registry, settings, network, self._host, self._access.certificates)
        self._apis = LocalApis(self.registry, self.catalog.served)
        self._flows = FlowSchemaStatus(self.registry, self._fairness.configure)
        self._custom = CustomResources(self.registry, self.catalog, self.webhooks, ADMIN)
        self._issued = IssuedCertificates(self.registry)
        #: The copies of this server in forked processes; set by the process.
        self.forks: Clusters | None = None
        self._reloaded = tuple(self._access.reloaded_files(self._host))
        # A server with open access is the only one, so that no client looks for its lease.
        leased = settings.tokens is not None and settings.features.enabled("APIServerIdentity")
        self._lease = IdentityLease(self.registry, self._host) if leased else None
        self.state = ClusterState(
            settings, log, self.registry, self.built_in, self._apis, self._custom, self._lease, self._components,
            self._clear_records,
        )  # fmt: skip

        # Requests, from the chain of handlers to the front end.
        self._routes = Routes()
        self.metrics = self._build_metrics()
        self.requests, self._driver_calls = Ring(), DriverCalls()
        self._discovery = Discovery(self.catalog.served(), settings.features.release, address_of(settings))
        self._openapi = OpenApi(self.catalog.served(), list_known(CATALOG, Features()), settings.features.release)
        self._documents = self._build_documents()
        self._dispatch = Dispatch(self._routes, self._documents, now, self._components.unattended)
        self._idle_monitor = IdleMonitor(
            self.requests.latest, lambda: self._dispatch.streams, lambda: log.revision, now, self._components
        )
        constrained = settings.features.enabled("ConstrainedImpersonation")
        self._authentication = Authentication(
            self._access.authenticator, self._access.authorizer, constrained=constrained
        )
        self._faults: Faults | None = None
        self._coverage = self._build_coverage() if settings.coverage else None
        self._exporter = build_exporter(settings.tracing, server_id(self._host))
        self.chain = self._build_chain()
        self._aggregation = Aggregation(self.registry, settings, ADMIN, self.chain, self._publish_remotes)
        self._schedules: Schedules | None = None
        # With open access nothing else checks the origin of a request.
        pages = WebPages(settings.bind_address, settings.accept_hosts) if settings.tokens is None else None
        self.front = FrontEnd(self.chain, self._build_admin, pages, self._access.certificates, settings.identity.claims)
        self.catalog.subscribe(self._follow_catalog)

    def _build_registry(self) -> Registry:
        settings = self.settings
        return Registry(
            self.log,
            self.cache,
            admission=partial(
                build,
                enable=settings.enable_plugins,
                disable=settings.disable_plugins,
                configured=settings.admission.plugins(),
            ),
            features=settings.features,
            clock=bind_now(),
            random_source=RandomSource(None if settings.seed is None else f"{settings.seed}/{self.log.revision}"),
            authorize=self._authorize if settings.access.restricted else allow_all,
            access=lambda: self._access,
            remote_authorizer=settings.access.remote,
            rewrite=self._rewrite,
            webhooks=self.webhooks,
            components=ComponentHealth(lambda: self._components.names, self._storage),
            kubelets=Kubelets(settings.data_dir / KUBELETS),
            kubelet_endpoints=KubeletEndpoints(settings.kubelets, self._kubelet_tokens.issue),
            shared=not (settings.memory or settings.storage == "sqlite"),
            watch_seconds=settings.network.watch_seconds,
            warn_dropped=settings.warn_dropped_fields,
        )

    def _has_service(self, namespace: str, name: str) -> bool:
        return self.registry.lookup("", "services", namespace, name) is not None

    def _authorize(self, *question: Any) -> bool:
        return self._access.authorizer.allows(*question)

    async def _rewrite(self, *args: Any, **options: Any) -> None:
        await rewrite_own(self.registry, ADMIN, *args, **options)

    def _build_metrics(self) -> Metrics:
        settings = self.settings
        return Metrics(
            self.registry.counts, settings.features.stages, lambda: [*self._dispatch.streams.values()],
            self._routes.serves, version_info(settings), lambda: bytes_of(settings.storage, settings.data_dir),
            self._families, settings.metrics,
        )  # fmt: skip

    async def _families(self) -> list[Family]:
        """Return the metric families of all parts but the front end."""
        return [
            *self.registry.admission.families(), *self._access.families(self._host), *self.chain.families(),
            *self._fairness.families(), *self._issued.families(),
            *(family for each in self._reloaded for family in each.families()),
            *await self._components.metric_families(),
        ]  # fmt: skip

    def _build_coverage(self) -> Coverage:
        from apiserver.http.sinks.coverage import Coverage

        plugins = select(self.settings.enable_plugins, self.settings.disable_plugins).on
        return Coverage(self.settings.features, plugins, self.catalog.served, self._fault_kind)

    def _fault_kind(self, id: str) -> str:
        rule = None if self._faults is None else self._faults.get(id)
        return "" if rule is None else rule.kind

    def _build_chain(self) -> HandlerChain:
        log = self._dependencies.request_log
        sinks: list[Sink] = [self.requests.add]
        sinks += [] if log is None else [log.add]
        sinks += [] if self._coverage is None else [self._coverage.see_fault]
        return build_handler_chain(
            ChainConfig(
                settings=self.settings,
                authentication=self._authentication,
                authorizer=self._access.authorizer,
                fairness=self._fairness,
                dispatch=self._dispatch,
                routes=self._routes,
                kinds=self.registry.kinds,
                audit=self._audit,
                exporter=self._exporter,
                count=self.metrics.count,
                sinks=sinks,
                coverage=self._coverage,
            )
        )

    def _build_catalog(self, network: ServiceNetwork) -> Catalog:
        resources = catalog_of(self.settings.runtime_config)
        versions = {
            (resource.group, resource.plural, version.name)
            for resource, version in select_served(resources, self.settings.features, self.settings.runtime_config)
        }
        catalog = Catalog(
            self.registry,
            lambda resource, version: (resource.group, resource.plural, version.name) in versions,
            reservations={("", "services"): network},
        )
        catalog.open(list_known(resources, self.settings.features))
        return catalog

    def _build_documents(self) -> Documents:
        roles = "RBAC" in self.settings.access.modes
        announced = self._dependencies.announced
        health = Health(checks_of(self._storage, announced, lambda: self._stopping, roles=roles))
        version = version_info(self.settings)
        accounts = self._access.accounts
        issuer = Issuer(accounts.issuers[0], keys_address(self.settings), accounts.public_keys, accounts.max_age)
        pages, this = pages_of(self.settings), about_of(self.settings)
        return Documents(
            self._discovery, version, health, self.metrics.text, self._openapi.answer, issuer, pages, this,
            accounts.issue_for_secret,
        )  # fmt: skip

    def _audit(self, event: dict[str, Any]) -> None:
        sink = self._dependencies.audit_log
        if sink is not None:
            sink.write(event)
            sink.flush()  # so that a client that reads its response finds the request in the log

    @classmethod
    async def open(cls, settings: Settings, dependencies: Dependencies | None = None) -> Server:
        """Open the store and start a server on it. Raise UnusableDatabase, RuntimeConfigError and KeyFileError."""
        select_served(catalog_of(settings.runtime_config), settings.features, settings.runtime_config)
        target = {"memory": "memory:", "sqlite": f"sqlite:{settings.data_dir}"}.get(settings.storage, settings.storage)
        log = await open_log(target, durability=settings.durability)
        try:
            async with AsyncExitStack() as opened:
                opened.push_async_callback(log.close)
                if dependencies is not None and dependencies.initial is not None:
                    await begin_with(log, dependencies.initial)
                keys = await open_keys(settings.identity.accounts, log)
                opened.push_async_callback(keys.close)
                server = cls(settings, log, WatchCache(log, orjson.loads), keys, dependencies or Dependencies())
                opened.push_async_callback(server.close)
                await server._start()
                opened.pop_all()
        except DamagedRow as error:
            where = settings.data_dir if settings.storage == "sqlite" else "the database"
            raise UnusableDatabase(f"{where}: {error}; see `kubedra data check`") from error
        except (StorageUnavailable, StatusError) as error:
            raise UnusableDatabase(f"the database went away during the start: {error}") from error
        return server

    async def _start(self) -> None:
        """Read the stored objects, store the built-in ones, and serve the added APIs."""
        await self.cache.start()
        self._routes.set_served(map(self._route, self.catalog.served()))
        await self.built_in.ensure()
        self._flows.publish()
        await self._apis.ensure()
        if self._lease is not None:
            await self._lease.renew()
        self.webhooks.start()
        await self._custom.start()
        await self._aggregation.start()
        self._start_upkeep()

    def _start_upkeep(self) -> None:
        """Start the tasks that follow changes and keep objects up to date."""
        running: list[Coroutine[Any, Any, None]] = [
            self._apis.follow(), self._flows.follow(), self.built_in.authentication.follow(),
            self.built_in.address_repair.follow(), self.built_in.tokens.follow(),
            Elections(self.registry).follow(), self._issued.follow(), self._access.follow_keys(),
            *(each.follow() for each in self._reloaded),
        ]  # fmt: skip
        if self._exporter is not None:
            running.append(self._exporter.follow())
        if self._lease is not None:
            running.append(self._lease.renew_regularly())
        if self.settings.retention is not None:
            running.append(compact_regularly(self.log, self.settings.retention, retire=self.cache.retire))
        events = self.cache[CORE_EVENTS.prefix()]
        events.limit_history()
        if self.settings.event_ttl:
            running.append(Expiry(self.log, events, self.settings.event_ttl).run())
        self._upkeep += map(asyncio.create_task, running)

    def _clear_records(self) -> None:
        """Delete faults, schedules and records of requests and drivers' calls."""
        if self._faults is not None:
            self._faults.clear()
        if self._schedules is not None:
            self._schedules.clear()
        self.requests.clear()
        self._driver_calls.clear()

    def stop_watches(self) -> None:
        """End all watches, so that their connections can close."""
        self._stopping = True
        self.cache.close()

    async def close(self) -> None:
        """End all watches, commit pending writes and close the store."""
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
        for file in (self._dependencies.request_log, self._dependencies.audit_log):
            if file is not None:
                file.close()

    def _follow_catalog(self, _: CatalogEvent) -> None:
        """Derive routes and documents from the changed catalog."""
        found = self.catalog.served()
        self._apis.request_reconciliation()
        self._routes.set_served(map(self._route, found))
        self._discovery.set_served(found)
        self._documents.clear_cache()
        self._openapi.set_served(found)

    def _publish_remotes(self, servers: Iterable[RemoteServer]) -> None:
        """Publish the APIs of aggregated servers in the discovery and OpenAPI documents."""
        servers = tuple(servers)
        self._discovery.set_remote(servers)
        self._documents.clear_cache()
        self._openapi.set_remote(servers)

    def _route(self, found: Served) -> tuple[Store, View, str]:
        """Return a resource version's store, view, and the warning for every response."""
        resource, version = found
        store = self.registry.stores[resource.group, resource.plural]
        view = View(resource, version, hides=hides_of(version, store.cache))
        return store, view, version.warning or deprecation(resource, version, RELEASES[-1])

    async def _storage(self) -> str:
        try:
            await self.log.current_revision()
        except StorageError as error:
            return str(error)
        return self.log.problem()

    def _build_admin(self) -> AsgiApp:
        from apiserver.http.admin.application import create_admin
        from apiserver.http.admin.hold import hold_writes
        from apiserver.http.admin.operations import Operations
        from apiserver.http.handlers.exploration import Schedules
        from apiserver.http.handlers.faults import Faults
        from apiserver.registry.catalog.adoption import Adoption

        self._schedules = Schedules(self.chain)
        self._faults = Faults(self.chain, self._authentication.user_of)
        return create_admin(
            Operations(
                version=own_release(),
                allowed=self._access.administrator(self._authentication.user_of),
                info=self._info,
                reset=self.state.reset,
                adoption=Adoption(
                    self.registry, self.catalog, ADMIN, partial(hold_writes, self._faults, self._idle_monitor.poll)
                ),
                snapshots=self.state.snapshots,
                restore=self.state.restore,
                clusters=lambda: self.forks,
                dropped=self.registry.dropped.losses,
                idle=self._idle_monitor.poll,
                explain=lambda: self._components.explain,
                history=self._history,
                requests=self.requests,
                faults=self._faults,
                schedules=self._schedules,
                driver_calls=self._driver_calls,
                own_driver_calls=self._components.driver_calls,
                coverage=self._coverage,
            )
        )

    def _history(self) -> HistoryReader:
        from apiserver.history.reader import HistoryReader

        async def calls() -> list[dict[str, Any]]:
            return [*self._driver_calls, *await self._components.driver_calls()]

        return HistoryReader(
            self.registry,
            last_reset=lambda: self.state.last_reset,
            attempts=self._components.scheduling_attempts,
            calls=calls,
            clock=now,
        )

    def _info(self) -> Mapping[str, Any]:
        major, minor = self.settings.features.release
        return {
            "emulates": f"{major}.{minor}",
            "resource_version": str(self.log.revision),
            "objects": self.registry.counts(),
            "watches": len(self._dispatch.streams),
        }
