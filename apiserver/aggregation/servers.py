"""Follow the APIServices with a service: availability, resources and addresses of their servers.

    servers = RemoteServers(registry, addresses, client, user, changed)
    await servers.start()        stored ones are known when this returns
    servers.known                by group and version
    await servers.stop()

Facts: kube-aggregator, pkg/controllers/status and pkg/apiserver (handler_discovery.go).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import orjson

from apiserver.aggregation.client import RemoteClient
from apiserver.aggregation.descriptions import NOTHING, Description, read_description
from apiserver.aggregation.remotes import SLICE_LABEL, Addresses, Remote, Verdict, endpoint_of, remote_of
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Hub, Json
from apiserver.api.values.times import timestamp
from apiserver.registry.store.changes import set_on_change
from apiserver.registry.store.store import Registry
from apiserver.registry.verbs.update import update_object
from apiserver.request.messages import User
from apiserver.runtime.clock import Timer, timers
from apiserver.storage.watchcache.entry import Event

__all__ = ["RemoteServers", "Server"]


_SERVICES: Final = ("apiregistration.k8s.io", "apiservices")
#: Other kinds that determine the address of a server.
_RELATED: Final = (("", "services"), ("discovery.k8s.io", "endpointslices"))
#: Seconds between two checks of all servers.
_CHECK_SECONDS: Final = 30.0
#: Seconds that a running check may take when this server stops.
_STOP_SECONDS: Final = 0.5
_PASSED: Final = Verdict("True", "Passed", "all checks passed")
_LOCAL: Final = Verdict("True", "Local", "Local APIServices are always available")
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """An aggregated server.

    `place` is its address, None if unknown. `resources` are its resources in the version as in aggregated discovery,
    None before the first response. `fresh`: the last discovery succeeded. `description` is its OpenAPI.
    """

    remote: Remote
    place: tuple[str, int] | None = None
    resources: list[Json] | None = None
    fresh: bool = False
    description: Description = NOTHING

    @property
    def available(self) -> bool:
        return self.remote.available and self.place is not None


class RemoteServers:
    """Maintains the conditions of APIServices. `changed` is called when the served APIs change."""

    def __init__(
        self, registry: Registry, addresses: Addresses, client: RemoteClient, user: User, changed: Callable[[], None]
    ) -> None:
        self._registry, self._addresses, self._client, self._user = registry, addresses, client, user
        self._changed, self._dirty = changed, asyncio.Event()
        self.known: dict[tuple[str, str], Server] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._listens = self._stopped = False
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._listen(*_SERVICES)
        self._sync_remotes()
        self._dirty.set()
        self._following = asyncio.create_task(self._follow())
        self._tasks.append(self._following)

    async def stop(self) -> None:
        self._stopped = True
        self._dirty.set()
        if self._following is not None:
            # A connection cancelled during its handshake would not be closed.
            with timers(Timer.MACHINE):
                await asyncio.wait((self._following,), timeout=_STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    def _listen(self, group: str, plural: str) -> None:
        cache = self._registry.stores[group, plural].cache
        is_relevant = partial(self._is_relevant, plural)
        self._tasks.append(asyncio.create_task(set_on_change(cache, self._dirty, is_relevant)))

    def _is_relevant(self, plural: str, event: Event) -> bool:
        """Return whether a change may affect a server's address or identity.

        Status changes by this or another server are only applied; they cause no new check.
        """
        if plural == _SERVICES[1]:
            if event.deleted or event.old is None or endpoint_of(event.new.obj) != endpoint_of(event.old.obj):
                return True
            self._sync_remotes()
            return not (event.new.obj.get("status") or {}).get("conditions")  # the conditions were removed
        state = event.new.obj["metadata"]
        name = state["name"] if plural == "services" else (state.get("labels") or {}).get(SLICE_LABEL)
        return any(
            (server.remote.service.namespace, server.remote.service.name) == (state.get("namespace"), name)
            for server in self.known.values()
        )

    async def _follow(self) -> None:
        while True:
            with timers(Timer.MACHINE):
                try:
                    async with asyncio.timeout(_CHECK_SECONDS if self.known else None):
                        await self._dirty.wait()
                except TimeoutError:
                    pass
            if self._stopped:
                return
            self._dirty.clear()
            try:
                await self._check_all()
            except StatusError as error:  # the database is unavailable: the next check repeats it
                _LOG.warning("API services: %s", error)
            except Exception:  # noqa: BLE001 - one server must not prevent the checks of the others
                _LOG.exception("API services")

    def _sync_remotes(self) -> None:
        """Apply the stored remotes; the state of their servers stays."""
        before, known = self.known, {}
        for item in self._registry.all_of(*_SERVICES):
            remote = remote_of(item)
            if remote is not None:
                key = (remote.group, remote.version)
                known[key] = replace(before.get(key) or Server(remote), remote=remote)
        self.known = known
        self._client.retain(server.remote for server in known.values())
        if known and not self._listens:
            self._listens = True
            for group, plural in _RELATED:
                self._listen(group, plural)
        if known != before:
            self._changed()

    async def _check_all(self) -> None:
        """Check each server once and record the result."""
        self._sync_remotes()
        for item in self._registry.all_of(*_SERVICES):
            if remote_of(item) is None:
                await self._write_condition(item, _LOCAL)
        await asyncio.gather(*(self._check_server(key, server.remote) for key, server in list(self.known.items())))
        self._sync_remotes()

    async def _check_server(self, key: tuple[str, str], remote: Remote) -> None:
        found = self._addresses.find(remote.service)
        if isinstance(found, Verdict):
            self._update_server(key, remote, place=None, fresh=False)
            await self._set_verdict(remote, found)
            return
        self._update_server(key, remote, place=found)
        # Discovery counts whether or not a server is available, and neither waits for the other.
        await asyncio.gather(self._check(key, remote, found), self._discover(key, remote, found))

    def _update_server(self, key: tuple[str, str], remote: Remote, **news: Any) -> None:
        before = self.known.get(key)
        if before is not None and (now := replace(before, remote=remote, **news)) != before:
            self.known[key] = now
            self._changed()

    async def _set_verdict(self, remote: Remote, verdict: Verdict) -> None:
        item = next((each for each in self._registry.all_of(*_SERVICES) if remote_of(each) == remote), None)
        if item is not None:
            await self._write_condition(item, verdict)
            self._sync_remotes()  # requests are proxied from now on, however long the other checks take

    async def _check(self, key: tuple[str, str], remote: Remote, place: tuple[str, int]) -> None:
        verdict = await self._probe(remote, place)
        if verdict is _PASSED and (server := self.known.get(key)) is not None:
            self._update_server(
                key, remote, description=await read_description(self._client, remote, place, server.description)
            )
        await self._set_verdict(remote, verdict)

    async def _discover(self, key: tuple[str, str], remote: Remote, place: tuple[str, int]) -> None:
        try:
            resources = await self._resources(remote, place)
        except Exception as error:  # noqa: BLE001 - on any error the known resources stay, as stale
            _LOG.debug("API service %s: %s", remote.name, error)
            self._update_server(key, remote, fresh=False)
        else:
            self._update_server(key, remote, fresh=True, resources=resources)

    async def _probe(self, remote: Remote, place: tuple[str, int]) -> Verdict:
        url = f"https://{place[0]}:{place[1]}{remote.path}"
        try:
            status = (await self._client.get(remote, place, remote.path, "application/json")).status
        except Exception as error:  # noqa: BLE001 - on any error the server is unavailable
            reason = str(error) or type(error).__name__
            text = f'failing or missing response from {url}: Get "{url}": {reason}'
            return Verdict("False", "FailedDiscoveryCheck", text)
        if 200 <= status < 300:
            return _PASSED
        text = f"failing or missing response from {url}: bad status from {url}: {status}"
        return Verdict("False", "FailedDiscoveryCheck", text)

    async def _resources(self, remote: Remote, place: tuple[str, int]) -> list[Json]:
        """Return a server's resources from its aggregated document, else from its APIResourceList.

        Raises:
            ValueError: The server lists none. The client's errors are raised as well.
        """
        answer = await self._client.get(remote, place, "/apis", _AGGREGATED)
        if answer.status == 503:
            raise ValueError("/apis: 503")
        if answer.status == 200 and "APIGroupDiscoveryList" in answer.content_type:
            for group in orjson.loads(answer.body).get("items") or ():
                for version in group.get("versions") or () if group["metadata"].get("name") == remote.group else ():
                    if version.get("version") == remote.version:
                        return [_with_kinds(each) for each in version.get("resources") or ()]
            raise ValueError(f"/apis does not list {remote.group}/{remote.version}")
        answer = await self._client.get(remote, place, remote.path, "application/json")
        if answer.status != 200:
            raise ValueError(f"{remote.path}: {answer.status}")
        return aggregated_of(orjson.loads(answer.body))

    async def _write_condition(self, item: Any, verdict: Verdict) -> None:
        """Write the condition Available if it differs."""
        conditions = (item.get("status") or {}).get("conditions") or ()
        before: Json = next((each for each in conditions if each["type"] == "Available"), {})
        if (before.get("status"), before.get("reason", ""), before.get("message", "")) == verdict:
            return
        store = self._registry.stores[_SERVICES]
        name, uid = item["metadata"]["name"], item["metadata"]["uid"]
        ctx = store.context(user=self._user, version="v1", verb="update", name=name, subresource="status")
        ctx.manager = "kube-apiserver"

        def func(old: Hub) -> Hub:
            if old["metadata"]["uid"] == uid:
                changed = before.get("status") != verdict.status
                time = timestamp(ctx.now) if changed else before["lastTransitionTime"]
                made = {"type": "Available", "lastTransitionTime": time, **verdict._asdict()}
                others = [
                    each for each in (old.get("status") or {}).get("conditions") or () if each["type"] != "Available"
                ]
                old["status"] = {"conditions": [*others, made]}
            return old

        try:
            await update_object(store, ctx, func)
        except StatusError as error:
            if error.code not in (404, 409):
                raise


def _with_kinds(resource: Json) -> Json:
    """Add missing response kinds as empty ones, which some clients require."""
    made = resource | {"responseKind": resource.get("responseKind") or {}}
    if subresources := resource.get("subresources"):
        made["subresources"] = [each | {"responseKind": each.get("responseKind") or {}} for each in subresources]
    return made


def aggregated_of(listed: Json) -> list[Json]:
    """Convert an APIResourceList to the form of aggregated discovery."""
    found: dict[str, Json] = {}
    for each in listed.get("resources") or ():
        name, _, subresource = each["name"].partition("/")
        kind = {"group": each.get("group", ""), "version": each.get("version", ""), "kind": each.get("kind", "")}
        if not subresource:
            made: Json = {
                "resource": name,
                "responseKind": kind,
                "scope": "Namespaced" if each.get("namespaced") else "Cluster",
                "singularResource": each.get("singularName", ""),
                "verbs": each.get("verbs") or [],
            }
            more = {key: each[key] for key in ("shortNames", "categories") if each.get(key)}
            found[name] = (
                made | more | ({"subresources": subs} if (subs := found.get(name, {}).get("subresources")) else {})
            )
        else:
            entry = {"subresource": subresource, "responseKind": kind, "verbs": each.get("verbs") or []}
            found.setdefault(name, {"resource": name}).setdefault("subresources", []).append(entry)
    return list(found.values())
