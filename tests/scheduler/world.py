"""A real API server on a store in memory with the chosen components, in this process and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Self

from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from apiserver.options.settings import read
from controllers.manager.manager import Manager
from controllers.options.options import Options
from controllers.runtime import kinds
from controllers.runtime.client import Client
from controllers.runtime.kinds import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Kind, key_of
from controllers.scheduler import Scheduler
from controllers.scheduler.config.configuration import Configuration
from controllers.scheduler.framework.framework import Plugin
from tests.support.virtual import passes

#: Default timeout in seconds of virtual time. It is less than the five minutes after which the scheduler retries every
#: pod, so that a missed wake-up fails a test.
_PATIENCE = 200
_KINDS = {(kind.api_version, kind.kind): kind for kind in vars(kinds).values() if isinstance(kind, Kind)}


def kind_of(obj: Json) -> Kind:
    return _KINDS[obj["apiVersion"], obj["kind"]]


def bare(obj: Json) -> Json:
    """Return the object as a user would write it: without fields that the server sets."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("uid", "resourceVersion", "generation")}
    return {**obj, "metadata": metadata}


async def create_node(client: Client, node: Json) -> None:
    """Create a node and remove the taint that new nodes have."""
    made = await client.create(NODES, bare(node))
    spec = {**made.get("spec", {}), "taints": node["spec"].get("taints")}
    made = await client.update(NODES, {**made, "spec": spec})
    await client.update_status(NODES, {**made, "status": node["status"]})


class World:
    """A cluster for one test: `async with World("scheduler") as world`."""

    def __init__(
        self,
        *components: str,
        release: str = "1.36",
        gates: str = "",
        plugins: Sequence[Plugin] = (),
        component_gates: Mapping[str, bool] | None = None,
        configuration: Configuration | None = None,
        namespace: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Configure the cluster.

        Args:
            components: names of the components that run.
            release: the emulated version.
            gates: feature gates of the server and of the components.
            plugins: further plugins of a scheduler, which then runs besides `components`.
            component_gates: feature gates of the components where they differ from the server's.
            configuration: the configuration of the scheduler.
            namespace: whether to create the namespace "ns".
            options: further options of the components.
        """
        self._options = options or {}
        self._namespace = namespace
        self._configuration = configuration
        self._components, self._plugins, self._component_gates = components, plugins, component_gates or {}
        self._settings = read(
            [
                "--storage",
                "memory",
                f"--emulated-version={release}",
                f"--feature-gates={gates}",
                "--runtime-config=api/all=true",
            ]
        )

    async def __aenter__(self) -> Self:
        self.server = await Server.open(self._settings)
        features = self._settings.features
        self.release = features.release
        self.client = Client(InProcess(self.server.chain, ADMIN), "test", release=features.release)
        options = Options(
            seed=1,
            emulated_version=features.release,
            gates={**features.settings, **self._component_gates},
            scheduler=self._configuration,
            **self._options,
        )
        self.manager = Manager(self.client, options, self._components)
        if self._plugins:
            scheduler = Scheduler(self.client, self.manager.informers, options, self._plugins)
            self.manager.components.append(scheduler)
        self._running = asyncio.create_task(self.manager.run())
        async with asyncio.timeout(20):
            await self.manager.wait_ready()
        await self._prepare()
        return self

    async def _prepare(self) -> None:
        if self._namespace:
            await self.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})

    async def empty(self) -> None:
        """Delete all objects and let every component observe it."""
        await self.server.state.reset()
        await passes()
        await self._prepare()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = self._running.done() and not self._running.cancelled()
        self._running.cancel()
        results = await asyncio.gather(self._running, return_exceptions=True)
        await self.server.close()
        if failed and error is None and isinstance(results[0], BaseException):
            raise results[0]

    async def create(self, kind: Kind, *objects: Json) -> Json:
        """Create objects of a kind as a user would write them. Return the last one as the server has it."""
        for obj in objects:
            created = await self.client.create(kind, bare(obj))
        return created

    async def add(self, *objects: Json) -> Json:
        """Create objects of any kind, nodes without the taint of new ones. Return the last one as the server has it."""
        added: Json = {}
        for obj in objects:
            if obj["kind"] == "Node":
                await create_node(self.client, obj)
            else:
                added = await self.create(kind_of(obj), obj)
        return added

    async def add_nodes(self, *nodes: Json) -> None:
        """Create nodes and take off the taint that new nodes have."""
        for node in nodes:
            await create_node(self.client, node)

    async def until(self, kind: Kind, key: str, holds: Callable[[Json], object], within: float = _PATIENCE) -> Json:
        """Return the object with this key as soon as the condition holds for it. Raise AssertionError on timeout."""
        seen: list[Json] = []
        try:
            async with asyncio.timeout(within), aclosing(self.client.watch(kind)) as batches:
                async for batch in batches:
                    for event in batch:
                        if event.type != "BOOKMARK" and key_of(event.object) == key:
                            seen.append(event.object)
                            if event.type != "DELETED" and holds(event.object):
                                return event.object
        except TimeoutError:
            raise AssertionError(f"{kind} {key} did not become as expected; last seen: {seen[-1:]}") from None
        raise AssertionError("the watch ended")

    async def bound(self, *names: str) -> Json:
        """Wait until these pods are bound. Return the last one."""
        for name in names:
            pod = await self.until(PODS, f"ns/{name}", lambda obj: obj["spec"].get("nodeName"))
        return pod

    async def node_of(self, pod: str) -> str:
        """Return the name of the node as soon as the pod is bound."""
        node: str = (await self.bound(pod))["spec"]["nodeName"]
        return node

    async def unschedulable(self, pod: str, within: float = _PATIENCE) -> str:
        """Return the message of the PodScheduled condition as soon as it is False."""
        found = await self.until(PODS, f"ns/{pod}", lambda obj: scheduled(obj).get("status") == "False", within)
        message: str = scheduled(found)["message"]
        return message

    async def claim(self, name: str) -> Json:
        return await self.client.get(RESOURCE_CLAIMS, name, "ns")

    async def pod(self, name: str) -> Json:
        return await self.client.get(PODS, name, "ns")

    async def items(self, kind: Kind, namespace: str = "ns") -> list[Json]:
        found: list[Json] = (await self.client.list(kind, namespace))["items"]
        return found


@asynccontextmanager
async def scheduler_world(*objects: Json, **options: Any) -> AsyncIterator[World]:
    """Run a cluster with a scheduler and these objects. The options are those of `World`."""
    async with World("scheduler", **options) as world:
        await world.add(*objects)
        yield world


def scheduled(pod: Json) -> Json:
    """Return the PodScheduled condition; may be empty."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})
