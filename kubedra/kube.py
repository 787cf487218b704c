"""The `kube` of a test: the methods of the client, nodes, time, snapshots and forks of one control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from datetime import timedelta

    from kubedra.client.client import Client
    from kubedra.client.clock import Clock
    from kubedra.client.faults import Fault
    from kubedra.client.inspection import Moment
    from kubedra.client.manifests import Manifest
    from kubedra.client.options import (
        AdvanceOptions,
        ApplyOptions,
        CallFilters,
        DeleteOptions,
        FaultOptions,
        IdleOptions,
        LogOptions,
        NodeOptions,
        PatchOptions,
        RequestFilters,
        WaitOptions,
    )
    from kubedra.client.snapshots import Snapshot
    from kubedra.driver import Driver
    from kubedra.plane.control_plane import ControlPlane
    from kubedra.plane.fork import Fork
    from kubedra.plane.node_process import NodeProcess
    from kubedra.runtime.objects import Json

__all__ = ["Kube"]

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True


class Kube:
    """A test's handle of its control plane: `ControlPlane` and `Client` in one."""

    def __init__(self, plane: ControlPlane | Fork, template: Callable[[], ControlPlane] | None = None) -> None:
        self.plane = plane
        self._template, self._forks = template, list[Kube]()
        self._nodes: dict[str, NodeProcess] = {}
        self._client: Client | None = None
        self._clock: Clock | None = None
        #: Size of the server's log when the test began, in bytes.
        self._log_begin = plane.log_size()
        #: Whether the control plane stays after the test.
        self.kept = False

    @property
    def url(self) -> str:
        """The address of the server."""
        return self.plane.url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for any client, such as kubectl, client-go or a driver."""
        return self.plane.kubeconfig

    def client(self) -> Client:
        """Return the test's client, which is closed at the end of the test."""
        if self._client is None:
            self._client = self.plane.client()
        return self._client

    def apply(self, manifest: Manifest, **options: Unpack[ApplyOptions]) -> list[Json]:
        """See `Client.apply`."""
        return self.client().apply(manifest, **options)

    def export(self, namespace: str = "", kinds: Iterable[str] = (), *, with_secrets: bool = False) -> list[Json]:
        """Return manifests of all objects, or of those in a namespace, that `apply` takes; see `kubedra export`.

        Fields that servers set and objects that controllers create are left out, and so are Secrets without
        `with_secrets`.
        """
        from kubedra.cluster_copy.exporting import export_objects

        return export_objects(self.client(), [namespace] if namespace else [], kinds, with_secrets=with_secrets)[0]

    def __repr__(self) -> str:
        return f"<kube {self.plane!r}>"

    def get(self, target: str, name: str = "", *, namespace: str | None = None, at: Moment | None = None) -> Json:
        """See `Client.get`."""
        return self.client().get(target, name, namespace=namespace, at=at)

    def events(self, target: str = "", *, namespace: str | None = None) -> list[Json]:
        """See `Client.events`."""
        return self.client().events(target, namespace=namespace)

    def logs(self, target: str, **options: Unpack[LogOptions]) -> str:
        """See `Client.logs`."""
        return self.client().logs(target, **options)

    def patch_status(self, target: str, status: Json, *, namespace: str | None = None) -> Json:
        """See `Client.patch_status`."""
        return self.client().patch_status(target, status, namespace=namespace)

    def requests(self, **options: Unpack[RequestFilters]) -> list[Json]:
        """Return the requests of this test so far, oldest first; see `Client.requests`."""
        return self.client().requests(**options)

    def fault(self, **options: Unpack[FaultOptions]) -> Fault:
        """See `Client.fault`."""
        return self.client().fault(**options)

    def snapshot(self, name: str = "") -> Snapshot:
        """Keep the state of the cluster in the server's memory; see `Client.snapshot`."""
        return self.client().snapshot(name)

    def restore(self, snapshot: Snapshot | Path | str, *, reset: bool = False) -> Json:
        """Go back to a snapshot, or to one in a file; see `Client.restore`."""
        return self.client().restore(snapshot, reset=reset)

    def fork(self, name: str = "") -> Kube:
        """Return a copy of the control plane with an address of its own, in its present state.

        Changes in one do not reach the other. In virtual time the copy continues exactly: with the same time, timers
        and random numbers. It ends with the test. Nodes with real drivers stay with the original.
        """
        from kubedra.plane.fork import Fork, fork_of

        plane = self.plane
        if isinstance(plane, Fork) or plane.forkable or self._template is None:
            fork = plane.fork(name)
        else:
            from kubedra.client.snapshots import NOW, delete, read, send
            from kubedra.client.steps import walk

            other = self._template().client()
            content = walk(read(NOW), self.client())
            described = walk(send("forked", content, "the snapshot"), other)
            fork = fork_of(
                other, name, virtual=False, jobs_exit_after=plane.jobs_exit_after, snapshot=described["name"]
            )
            walk(delete(described["name"]), other)
        self._forks.append(Kube(fork))
        return self._forks[-1]

    def driver_calls(self, **options: Unpack[CallFilters]) -> list[Json]:
        """Return the calls of real drivers in this test, oldest first; see `Client.driver_calls`."""
        return self.client().driver_calls(**options)

    def explain(self, target: str, *, namespace: str | None = None) -> Json:
        """See `Client.explain`."""
        return self.client().explain(target, namespace=namespace)

    def history(
        self, target: str, *, namespace: str | None = None, limit: int = 100, objects: bool = False
    ) -> list[Json]:
        """Return the changes of an object in this test, oldest first; see `Client.history`."""
        return self.client().history(target, namespace=namespace, limit=limit, objects=objects)

    def timeline(self, target: str, *, namespace: str | None = None) -> Json:
        """See `Client.timeline`."""
        return self.client().timeline(target, namespace=namespace)

    def revision(self, at: Moment) -> str:
        """See `Client.revision`."""
        return self.client().revision(at)

    def scale(self, target: str, replicas: int, *, namespace: str | None = None) -> Json:
        """See `Client.scale`."""
        return self.client().scale(target, replicas, namespace=namespace)

    def list(
        self, /, word: str, *, namespace: str | None = None, at: Moment | None = None, **params: str
    ) -> list[Json]:
        """See `Client.list`."""
        return self.client().list(word, namespace=namespace, at=at, **params)

    def create(self, obj: Json, *, strict: bool = True) -> Json:
        """See `Client.create`."""
        return self.client().create(obj, strict=strict)

    def patch(self, target: str, patch: Json, **options: Unpack[PatchOptions]) -> Json:
        """See `Client.patch`."""
        return self.client().patch(target, patch, **options)

    def delete(self, target: str, **options: Unpack[DeleteOptions]) -> Json:
        """See `Client.delete`."""
        return self.client().delete(target, **options)

    def wait(self, target: str, until: str | Callable[[Json], object], **options: Unpack[WaitOptions]) -> Json:
        """See `Client.wait`. Virtual time advances during the wait, and `timeout` is in seconds of virtual time."""
        return self.client().wait(target, until, virtual=self.plane.virtual, **options)

    @property
    def clock(self) -> Clock:
        """The clock of the control plane; see `kubedra.client.clock.Clock`."""
        from kubedra.client.clock import Clock

        if self._clock is None:
            self._clock = Clock(self.client)
        return self._clock

    def advance(self, delay: timedelta | None = None, **options: Unpack[AdvanceOptions]) -> Json:
        """Advance virtual time: `kube.advance(minutes=5)`; see `Clock.advance`."""
        return self.clock.advance(delay, **options)

    def run_until_idle(self, limit: timedelta | None = None, **options: Unpack[IdleOptions]) -> Json:
        """Advance virtual time until the control plane is idle; see `Clock.run_until_idle`."""
        return self.clock.run_until_idle(**options) if limit is None else self.clock.run_until_idle(limit, **options)

    def add_node(
        self,
        name: str,
        *,
        devices: int = 0,
        slices: Iterable[Manifest] = (),
        labels: Mapping[str, str] | None = None,
        driver: Driver | None = None,
        plugin_dir: Path | str | None = None,
        registry_dir: Path | str | None = None,
        run: bool = False,
        jobs_exit_after: str = "",
        **options: Unpack[NodeOptions],
    ) -> Json:
        """Add an emulated node (see `Client.add_node`) or a node with real drivers.

        `plugin_dir`, `registry_dir`, `driver` or `run` starts a kubelet in a child process, which `node` returns; see
        `kubedra.plane.node_process`. `driver` is started on that node. With `run`, container commands run as local
        processes. Raises ValueError if these are combined with options of an emulated node.
        """
        if plugin_dir is not None or registry_dir is not None or driver is not None or run:
            from kubedra.plane.node_process import NodeProcess

            emulated = {"devices": devices, "slices": [*slices], **options}
            if refused := ", ".join(option for option, value in emulated.items() if value):
                raise ValueError(
                    f"node {name}: {refused} cannot be combined with driver, plugin_dir, registry_dir or run: these"
                    " start a node with real drivers"
                )
            flags = ["--run"] if run else []
            if limit := jobs_exit_after or self.plane.jobs_exit_after:
                flags.append(f"--jobs-exit-after={limit}")
            self._nodes[name] = node = NodeProcess(name, self.kubeconfig, plugin_dir, registry_dir, args=flags)
            node.start()
            # In real time: the kubelet is a process that virtual time does not wait for.
            ready = self.client().wait(f"node/{name}", "condition=Ready", fail_fast=False)
            if driver is not None:
                node.run_driver(driver)
            return self.client().patch(f"node/{name}", {"metadata": {"labels": dict(labels)}}) if labels else ready
        return self.client().add_node(
            name, devices=devices, slices=slices, labels=labels, jobs_exit_after=jobs_exit_after, **options
        )

    def kill_node(self, name: str) -> Json:
        """See `Client.kill_node`; a node with real drivers is killed by `kube.node(name).kill()`."""
        return self.client().kill_node(name)

    def start_node(self, name: str) -> Json:
        """See `Client.start_node`."""
        return self.client().start_node(name)

    def drain(self, name: str, *, timeout: float | None = None, grace_period: int | None = None) -> Sequence[Json]:
        """See `Client.drain`. Virtual time advances during the wait."""
        return self.client().drain(name, timeout=timeout, grace_period=grace_period, virtual=self.plane.virtual)

    def node(self, name: str) -> NodeProcess:
        """Return the kubelet process of a node with real drivers."""
        return self._nodes[name]

    def dump(self) -> str:
        """Return the text of a failing test's report: one line per object, then the events."""
        from kubedra.client.report import dump

        return dump(self.client())

    def timelines(self) -> str:
        """Return the timelines of the objects that the test read or awaited last, for a failing test's report."""
        from kubedra.client.report import timelines

        return timelines(self.client())

    def log(self) -> str:
        """Return the log of the control plane since the test began, and those of nodes with real drivers."""
        parts = [self.plane.log(self._log_begin)]
        parts += [f"node {name}:\n{node.log()}" for name, node in self._nodes.items()]
        return "\n".join(part.rstrip("\n") for part in parts if part.strip()) or "nothing was logged"

    def renew(self) -> None:
        """Empty the control plane and stop the nodes of the test, for another run of it."""
        self._close_others()
        self.plane.reset()
        self._log_begin = self.plane.log_size()

    def _close_others(self) -> None:
        """Stop the nodes and the forks of the test."""
        nodes, self._nodes = self._nodes, {}
        for node in nodes.values():
            node.close()
        forks, self._forks = self._forks, []
        for fork in forks:
            fork.close()
            fork.plane.stop()

    def close(self) -> None:
        """Stop the nodes and the client of the test; the fixture calls it."""
        self._close_others()
        if self._client is not None:
            self._client.close()
