"""pytest fixtures: a control plane for the session, emptied for each test.

    def test_my_driver(kube):
        kube.add_node("worker-1", devices=8)
        kube.apply(MANIFEST)
        kube.wait("pod/web", "phase=Running")

`kube_server` (session) is the control plane; every xdist worker has its own. `kube` (per test) is that one, emptied
before the test, or with
`@pytest.mark.kube(own=True, emulated_version="1.35", feature_gates={...})` one of the test's own, or with
`@pytest.mark.kube(clock="virtual")` the session's one in virtual time (`kube.advance(minutes=5)`). A failing test's
report shows the objects and events. This module is imported by every run of pytest in its environment, so it imports
nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from kubedra.client.client import Client
    from kubedra.client.clock import Clock
    from kubedra.driver import Driver
    from kubedra.plane.control_plane import ControlPlane
    from kubedra.plane.node_process import NodeProcess

Json = dict[str, Any]
#: A failing test's report ends in the test: pytest leaves this module's frames out.
__tracebackhide__ = True

#: Options of the marker that need a server of the test's own.
_OWN_ONLY = frozenset(
    {
        "emulated_version", "feature_gates", "runtime_config", "nodes", "devices", "controllers", "storage", "seed",
        "args",
    }
)  # fmt: skip


class Kube:
    """What a test does with its control plane: `ControlPlane` and `Client` in one, with the test's own shortcuts."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._nodes: dict[str, NodeProcess] = {}
        self._client: Client | None = None
        self._clock: Clock | None = None

    @property
    def url(self) -> str:
        """The server's address."""
        return self.plane.url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for any client: kubectl, client-go, a driver."""
        return self.plane.kubeconfig

    def client(self) -> Client:
        """The test's client; closed with the test."""
        if self._client is None:
            self._client = self.plane.client()
        return self._client

    def apply(self, manifest: Any, **options: Any) -> list[Json]:
        """See `Client.apply`."""
        return self.client().apply(manifest, **options)

    def __repr__(self) -> str:
        return f"<kube {self.plane!r}>"

    def get(self, target: str, name: str = "", **options: Any) -> Json:
        """See `Client.get`."""
        return self.client().get(target, name, **options)

    def events(self, target: str = "", **options: Any) -> list[Json]:
        """See `Client.events`."""
        return self.client().events(target, **options)

    def logs(self, target: str, **options: Any) -> str:
        """See `Client.logs`."""
        return self.client().logs(target, **options)

    def patch_status(self, target: str, status: Json, **options: Any) -> Json:
        """See `Client.patch_status`."""
        return self.client().patch_status(target, status, **options)

    def requests(self, **options: Any) -> list[Json]:
        """The requests of the test so far, the oldest first; see `Client.requests`."""
        return self.client().requests(**options)

    def explain(self, target: str, **options: Any) -> Json:
        """See `Client.explain`."""
        return self.client().explain(target, **options)

    def scale(self, target: str, replicas: int, **options: Any) -> Json:
        """See `Client.scale`."""
        return self.client().scale(target, replicas, **options)

    def list(self, word: str, **options: Any) -> list[Json]:
        """See `Client.list`."""
        return self.client().list(word, **options)

    def create(self, obj: Json, **options: Any) -> Json:
        """See `Client.create`."""
        return self.client().create(obj, **options)

    def patch(self, target: str, patch: Json, **options: Any) -> Json:
        """See `Client.patch`."""
        return self.client().patch(target, patch, **options)

    def delete(self, target: str, **options: Any) -> Json:
        """See `Client.delete`."""
        return self.client().delete(target, **options)

    def wait(self, target: str, until: Any, **options: Any) -> Json:
        """See `Client.wait`. Virtual time passes meanwhile; then `timeout` counts its seconds."""
        return self.client().wait(target, until, virtual=self.plane.virtual, **options)

    @property
    def clock(self) -> Clock:
        """The control plane's time; see `kubedra.client.clock.Clock`."""
        from kubedra.client.clock import Clock

        if self._clock is None:
            self._clock = Clock(self.client)
        return self._clock

    def advance(self, delay: timedelta | None = None, **options: Any) -> Json:
        """Lets virtual time pass: `kube.advance(minutes=5)`; see `Clock.advance`."""
        return self.clock.advance(delay, **options)

    def run_until_idle(self, limit: timedelta | None = None, **options: Any) -> Json:
        """Lets virtual time pass until nothing is left to happen; see `Clock.run_until_idle`."""
        return self.clock.run_until_idle(**({} if limit is None else {"limit": limit}), **options)

    def add_node(
        self,
        name: str,
        *,
        devices: int = 0,
        slices: Iterable[Any] = (),
        labels: Mapping[str, str] | None = None,
        driver: Driver | None = None,
        plugin_dir: Path | str | None = None,
        registry_dir: Path | str | None = None,
        run: bool = False,
        **options: Any,
    ) -> Json:
        """An emulated node; see `Client.add_node`. With a plugin directory it is a process of its own with real
        drivers, which `node` gives; see `kubedra.plane.node_process`. A `kubedra.driver.Driver` is started with it.
        With `run` it is such a process, too, and containers that have a command are processes. Raises ValueError for
        options of an emulated node beside these.
        """
        if plugin_dir is not None or registry_dir is not None or driver is not None or run:
            from kubedra.plane.node_process import NodeProcess

            emulated = {"devices": devices, "slices": [*slices], **options}
            if refused := ", ".join(option for option, value in emulated.items() if value):
                raise ValueError(
                    f"node {name}: {refused} cannot be given with driver, plugin_dir, registry_dir or run, which make"
                    " it a node with real drivers"
                )
            flags = ("--run",) if run else ()
            self._nodes[name] = node = NodeProcess(name, self.kubeconfig, plugin_dir, registry_dir, args=flags)
            node.start()
            made = self.wait(f"node/{name}", "condition=Ready", fail_fast=False)
            if driver is not None:
                node.run_driver(driver)
            return self.client().patch(f"node/{name}", {"metadata": {"labels": dict(labels)}}) if labels else made
        return self.client().add_node(name, devices=devices, slices=slices, labels=labels, **options)

    def node(self, name: str) -> NodeProcess:
        """The process of a node that was added with a plugin directory."""
        return self._nodes[name]

    def dump(self) -> str:
        """Every object in one line, then every event: what a failing test's report shows."""
        from kubedra.client.report import dump

        return dump(self.client())

    def close(self) -> None:
        """End what the test started; the fixture does it."""
        for node in self._nodes.values():
            node.close()
        if self._client is not None:
            self._client.close()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kube(own=False, clock=..., **options): options of the `kube` fixture; with own=True those of"
        " kubedra.ControlPlane",
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("kubedra_clock", "the session's control plane: real (default) or virtual time", default="real")


@pytest.fixture(scope="session")
def _kube_servers() -> Iterator[Callable[[str], ControlPlane]]:
    """The session's control planes by their clock, each started when it is first asked for."""
    from kubedra.plane.control_plane import ControlPlane

    started: dict[str, ControlPlane] = {}

    def server(clock: str) -> ControlPlane:
        if clock not in started:
            started[clock] = ControlPlane(clock=clock).start()
        return started[clock]

    yield server
    for plane in started.values():
        plane.stop()


@pytest.fixture(scope="session")
def kube_server(pytestconfig: pytest.Config, _kube_servers: Callable[[str], ControlPlane]) -> ControlPlane:
    """The session's control plane: memory storage, all controllers, no nodes, time as `kubedra_clock` says."""
    return _kube_servers(pytestconfig.getini("kubedra_clock"))


@pytest.fixture
def kube(request: pytest.FixtureRequest) -> Iterator[Kube]:
    """An empty control plane for one test."""
    options = _options(request.node)
    own = options.pop("own")
    options.setdefault("clock", request.config.getini("kubedra_clock"))
    if own:
        from kubedra.plane.control_plane import ControlPlane

        with ControlPlane(**options) as plane:
            yield from _lend(plane)
        return
    plane = request.getfixturevalue("_kube_servers")(options["clock"])
    plane.reset()
    yield from _lend(plane)


def _lend(plane: ControlPlane) -> Iterator[Kube]:
    kube = Kube(plane)
    try:
        yield kube
    finally:
        kube.close()


def _options(node: pytest.Item) -> dict[str, Any]:
    """The marker's options; what only a server of its own can have is an error without own=True."""
    marker = node.get_closest_marker("kube")
    options: dict[str, Any] = {"own": False, **(marker.kwargs if marker else {})}
    unknown = sorted(set(options) - _OWN_ONLY - {"own", "clock"})
    if unknown:
        raise pytest.UsageError(f"{node.nodeid}: mark.kube knows no option {', '.join(unknown)}")
    needs_own = sorted(set(options) & _OWN_ONLY)
    if needs_own and not options["own"]:
        raise pytest.UsageError(
            f"{node.nodeid}: mark.kube({', '.join(needs_own)}) needs own=True: the session's server is shared"
        )
    return options


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    kube = getattr(item, "funcargs", {}).get("kube")
    if report.when == "call" and report.failed and isinstance(kube, Kube):
        try:
            report.sections.append(("kubedra", kube.dump()))
        except Exception as error:  # noqa: BLE001 - a report must not fail because the server did
            report.sections.append(("kubedra", f"no dump: {error}\n{kube.plane.log()[-2000:]}"))
    return report
