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
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pytest

from kubedra.kube import Kube

if TYPE_CHECKING:
    from kubedra.client.options import ControlPlaneOptions
    from kubedra.coverage.plugin import CoveragePlugin
    from kubedra.exploration.plane import LoopControlPlane
    from kubedra.exploration.search import Trials
    from kubedra.plane.control_plane import ControlPlane

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
