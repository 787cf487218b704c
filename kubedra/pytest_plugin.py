"""pytest fixtures: a control plane per session, reset before each test.

    def test_my_driver(kube):
        kube.add_node("worker-1", devices=8)
        kube.apply(MANIFEST)
        kube.wait("pod/web", "phase=Running")

- `kube_server` (session scope) is the control plane; each xdist worker has its own.
- `kube` (test scope) is that control plane, reset before the test.
- `@pytest.mark.kube(own=True, emulated_version="1.35", feature_gates={...})` starts a control plane for one test.
- `@pytest.mark.kube(explore=200)` runs the test under 200 schedules of faults, delays and orders.
- `@pytest.mark.kube(snapshot="two-nodes.kubedra")` begins with the state of a file; `snapshot=prepare` with that after
  `prepare(kube)`, which runs once per session.
- `@pytest.mark.kube(clock="virtual")` uses the session's control plane in virtual time (`kube.advance(minutes=5)`).

The report of a failing test shows the objects and events. `--kube-log` adds the log of the control plane, and
`--kube-keep` leaves the control plane of the first failing test running. Every run of pytest in the environment imports
this module, so it imports nothing heavy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pytest

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
        ControlPlaneOptions,
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
    from kubedra.coverage.plugin import CoveragePlugin
    from kubedra.driver import Driver
    from kubedra.exploration.plane import LoopControlPlane
    from kubedra.exploration.search import Trials
    from kubedra.plane.control_plane import ControlPlane
    from kubedra.plane.fork import Fork
    from kubedra.plane.node_process import NodeProcess
    from kubedra.runtime.objects import Json

__all__ = ["Kube", "kube", "kube_server"]

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True

#: Options of the marker that need own=True.
_OWN_ONLY = frozenset(
    {
        "emulated_version", "feature_gates", "runtime_config", "nodes", "devices", "controllers", "storage", "seed",
        "jobs_exit_after", "history", "args",
    }
)  # fmt: skip


_KEPT = pytest.StashKey[bool]()


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


_KUBE = pytest.StashKey[Kube]()
_COVERAGE: pytest.StashKey[CoveragePlugin] = pytest.StashKey()
_EXPLORER: pytest.StashKey[Trials] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kube(own=False, clock=..., snapshot=..., explore=N, **options): options of the `kube` fixture; with own=True,"
        " the options of kubedra.ControlPlane; with explore, run the test under N schedules",
    )
    if (formats := config.getoption("--kubedra-cov")) is not None:
        from kubedra.coverage.plugin import CoveragePlugin

        directory = config.rootpath / config.getini("kubedra_cov_dir")
        chosen = [each.strip() for each in formats.split(",")]
        plugin = CoveragePlugin(chosen, directory, config.getoption("--kubedra-cov-fail-under"))
        config.stash[_COVERAGE] = plugin
        config.pluginmanager.register(plugin, "kubedra-coverage")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kubedra")
    group.addoption(
        "--kube-keep",
        action="store_true",
        help="leave the control plane of the first failing test running, and print its kubeconfig",
    )
    group.addoption(
        "--kube-log", action="store_true", help="show the log of the control plane, at info level, if a test fails"
    )
    group.addoption(
        "--kubedra-cov",
        nargs="?",
        const="term",
        metavar="term|term-missing|html|json",
        help="report which behaviours of the control plane the suite has reached; several reports with commas",
    )
    group.addoption(
        "--kubedra-cov-fail-under",
        type=float,
        metavar="PERCENT",
        help="with --kubedra-cov: fail if the suite reaches a smaller share of the known behaviours",
    )
    group.addoption(
        "--kubedra-explore", type=int, metavar="N", help="run each explored test under N schedules, not its own number"
    )
    group.addoption(
        "--kubedra-schedule", metavar="LINE", help="run explored tests once, under this schedule of a failure"
    )
    parser.addini("kubedra_cov_dir", "directory of --kubedra-cov (default .kubedra-cov)", default=".kubedra-cov")
    parser.addini("kubedra_clock", "time of the session's control plane: real (default) or virtual", default="real")


class _Servers:
    """The session's control planes by clock, started on first use."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started: dict[str, ControlPlane] = {}
        #: The names of snapshots in the servers, by server and source.
        self._snapshots: dict[tuple[int, object], str] = {}

    def template(self) -> ControlPlane:
        """Return the control plane whose copies are the forks of those that cannot be forked."""
        if "forks" not in self._started:
            self._started["forks"] = _plane(self._config, args=["--forks"]).start()
        return self._started["forks"]

    def begin(self, kube: Kube, snapshot: Path | Callable[[Kube], object] | None) -> None:
        """Bring a control plane into the state in which a test begins."""
        if snapshot is None:
            kube.plane.reset()
            return
        from kubedra.client.snapshots import restore
        from kubedra.client.steps import walk

        known = kube.plane.pid, snapshot
        if known not in self._snapshots:
            self._snapshots[known] = _load(kube, snapshot)
        walk(restore(self._snapshots[known], reset=True), kube.client())

    def get(self, clock: str) -> ControlPlane:
        if clock not in self._started:
            self._started[clock] = _plane(self._config, clock=clock).start()
        return self._started[clock]

    def drop(self, plane: ControlPlane) -> None:
        """Hand a control plane over; the next test starts another one."""
        self._started = {clock: each for clock, each in self._started.items() if each is not plane}

    def stop(self) -> None:
        for plane in self._started.values():
            _collect(self._config, plane)
            plane.stop()


def _load(kube: Kube, snapshot: Path | Callable[[Kube], object]) -> str:
    """Keep a snapshot in the server, from a file or after a function. Return its name."""
    from kubedra.client.snapshots import upload
    from kubedra.client.steps import walk

    if callable(snapshot):
        kube.plane.reset()
        snapshot(kube)
        return kube.snapshot().name
    return str(walk(upload(snapshot.name, snapshot), kube.client())["name"])


def _plane(config: pytest.Config, **options: Unpack[ControlPlaneOptions]) -> ControlPlane:
    """Build a control plane that follows the command line of pytest."""
    from kubedra.plane.control_plane import ControlPlane

    if config.getoption("--kube-log"):
        options["args"] = [*options.get("args", ()), "-v"]
    if _COVERAGE in config.stash:
        options["args"] = [*options.get("args", ()), "--coverage"]
    return ControlPlane(**options, attached=not config.getoption("--kube-keep"))


def _collect(config: pytest.Config, plane: ControlPlane) -> None:
    """Collect the coverage of a control plane that is about to stop, with `--kubedra-cov`."""
    if _COVERAGE in config.stash:
        config.stash[_COVERAGE].collect(plane)


@pytest.fixture(scope="session")
def _kube_servers(pytestconfig: pytest.Config) -> Iterator[_Servers]:
    """Yield the session's control planes."""
    servers = _Servers(pytestconfig)
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def kube_server(pytestconfig: pytest.Config, _kube_servers: _Servers) -> ControlPlane:
    """Return the session's control plane: memory storage, all controllers, no nodes, the clock of `kubedra_clock`."""
    return _kube_servers.get(pytestconfig.getini("kubedra_clock"))


@pytest.fixture
def kube(request: pytest.FixtureRequest) -> Iterator[Kube | LoopControlPlane]:
    """Yield an empty control plane for one test; for an explored coroutine test, one on the test's own loop."""
    options = _options(request.node)
    explored = options.pop("explore", None) is not None
    if explored and _is_coroutine(request.node):
        yield from _explored(request.node, options)
        return
    own = options.pop("own")
    options.setdefault("clock", request.config.getini("kubedra_clock"))
    snapshot = options.pop("snapshot")
    servers: _Servers = request.getfixturevalue("_kube_servers")
    if own:
        plane = _plane(request.config, **options).start()
        stop = plane.stop
    else:
        plane = servers.get(options["clock"])
        stop = lambda: None  # noqa: E731
    kube = Kube(plane, None if own else servers.template)
    if snapshot is not None or not own:
        servers.begin(kube, snapshot)
    request.node.stash[_KUBE] = kube
    if explored:
        from kubedra.exploration.outside import OutsideExplorer

        request.node.stash[_EXPLORER] = OutsideExplorer(kube)
    try:
        yield kube
    finally:
        kube.close()
        if own or kube.kept:
            _collect(request.config, plane)
        if kube.kept:
            plane.detach()
            if not own:
                servers.drop(plane)
        else:
            stop()


def _explored(item: pytest.Function, options: dict[str, Any]) -> Iterator[LoopControlPlane]:
    from kubedra.exploration.plugin import make_explorer

    options.pop("own")
    explorer = make_explorer(options)
    item.stash[_EXPLORER] = explorer
    try:
        yield explorer.kube
    finally:
        explorer.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an explored test under its schedules."""
    explorer = pyfuncitem.stash.get(_EXPLORER, None)
    if explorer is None:
        return None
    from kubedra.exploration.plugin import explore

    config = pyfuncitem.config
    count = config.getoption("--kubedra-explore")
    count = _options(pyfuncitem)["explore"] if count is None else count
    explore(pyfuncitem, explorer, count, config.getoption("--kubedra-schedule"))
    return True


def _is_coroutine(node: pytest.Item) -> bool:
    return isinstance(node, pytest.Function) and inspect.iscoroutinefunction(inspect.unwrap(node.obj))


def _options(node: pytest.Item) -> dict[str, Any]:
    """Return the options of the marker. Raises UsageError for unknown ones and for those that need own=True."""
    marker = node.get_closest_marker("kube")
    options: dict[str, Any] = {"own": False, "snapshot": None, **(marker.kwargs if marker else {})}
    known = _OWN_ONLY | {"own", "clock", "snapshot", "explore"}
    if on_loop := "explore" in options and _is_coroutine(node):
        from kubedra.exploration.plugin import OPTIONS

        if options.pop("snapshot") is not None:
            raise pytest.UsageError(f"{node.nodeid}: mark.kube has no option snapshot for an explored test")
        known = OPTIONS | {"own", "explore"}
    if unknown := sorted(set(options) - known):
        where = " for an explored coroutine test" if on_loop else ""
        raise pytest.UsageError(f"{node.nodeid}: mark.kube has no option {', '.join(unknown)}{where}")
    if on_loop:
        return options
    needs_own = sorted(set(options) & _OWN_ONLY)
    if needs_own and not options["own"]:
        raise pytest.UsageError(
            f"{node.nodeid}: mark.kube({', '.join(needs_own)}) needs own=True, because the session's server is shared"
        )
    if isinstance(options["snapshot"], str):
        # A file beside the test wins.
        beside = node.path.parent / options["snapshot"]
        options["snapshot"] = beside if beside.exists() else Path(options["snapshot"])
    return options


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # Also if only a fixture of the test uses `kube`.
    kube = item.stash.get(_KUBE, None)
    if report.when == "teardown" or not report.failed or kube is None:
        return report
    try:
        report.sections.append(("kubedra", kube.dump()))
        if timelines := kube.timelines():
            report.sections.append(("kubedra timelines", timelines))
    except Exception as error:  # noqa: BLE001 - a server that failed must not break the report
        report.sections.append(("kubedra", f"no dump: {error}\n{kube.plane.log()[-2000:]}"))
    if item.config.getoption("--kube-log"):
        report.sections.append(("kubedra log", kube.log()))
    if item.config.getoption("--kube-keep") and not item.config.stash.get(_KEPT, False):
        item.config.stash[_KEPT] = kube.kept = True
        # An attribute of the report reaches the process that prints the summary also from a worker of xdist.
        stop = f"kubedra down --data-dir {kube.plane.data_dir}"
        vars(report)["kubedra_kept"] = f"export KUBECONFIG={kube.kubeconfig}  # stop it with: {stop}"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how to reach the control planes that were kept, and how to stop them."""
    for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
        if kept := getattr(report, "kubedra_kept", None):
            terminalreporter.write_sep("-", f"kubedra: the control plane of {report.nodeid} is running")
            terminalreporter.write_line(kept)
