"""Flags of `kubedra node run` and `kubedra controllers`: their settings and errors."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.kubelet import __main__ as node
from controllers.manager import flags as components
from controllers.options.command_line import FlagError, Flags, read_address
from controllers.options.options import AutoscalerOptions, NodeLifecycleOptions, Options, Processes

pytestmark = pytest.mark.integration

SERVER = "--server=http://127.0.0.1:1/"


def of_node(*flags: str) -> Flags:
    return node.read(["n1", SERVER, "--plugin-dir=/p", *flags])


def test_flags_of_a_node_set_its_options() -> None:
    given = of_node()
    assert (given.options.node, given.options.host, given.options.run) == ("n1", "n1", None)
    dirs = given.options.plugin_dirs
    assert dirs is not None
    assert (dirs.plugins, dirs.registry) == (Path("/p"), Path("/p/registry"))
    assert given.options.sync_frequency == timedelta(minutes=1)
    assert (given.names, given.election, given.health, given.verbosity) == (("node-agent",), None, None, 0)
    assert given.cluster.server == "http://127.0.0.1:1"
    more = of_node("--registry-dir=r", "--sync-frequency=5s", "--healthz-bind-address=[::1]:80", "-vv",
                   "--feature-gates=A=true,B=FALSE", "--emulated-version=1.35")  # fmt: skip
    assert more.options.plugin_dirs is not None
    assert more.options.plugin_dirs.registry == Path.cwd() / "r"
    assert (more.options.sync_frequency, more.health, more.verbosity) == (timedelta(seconds=5), ("::1", 80), 2)
    assert (dict(more.options.gates), more.options.emulated_version) == ({"A": True, "B": False}, (1, 35))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--sync-frequency=0s"], "--sync-frequency 0s: must be positive"),
        (["--sync-frequency=soon"], '--sync-frequency: "soon" is not a duration such as 15s or 1m30s'),
        (["--run", "--server=http://192.0.2.1"], "--run with the server http://192.0.2.1: other machines"),
        (["--run", "--server=http://localhost.example.com"], "--run with the server"),
        (["--run", "--server=http://128.0.0.1"], "--run with the server"),
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["--sync", "5s"], "unrecognized arguments"),
    ],
)
def test_an_invalid_flag_of_a_node_is_named(flags: list[str], text: str) -> None:
    with pytest.raises(FlagError) as caught:
        of_node(*flags)
    assert str(caught.value).startswith(text)
    for missing in (["--plugin-dir=/p", SERVER], ["n1", SERVER], ["n1", "--plugin-dir=/p"]):
        with pytest.raises(FlagError, match="required"):
            node.read(missing)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_containers_run_as_processes_for_a_local_server(host: str) -> None:
    run = of_node("--run", f"--server=http://{host}:80", "--cdi-dir=x", "--cdi-dir=/y").options.run
    assert run is not None
    assert (run.directory, run.announcements) == (Path("/p/run"), None), "the Node names its endpoint"
    assert run.cdi == (Path("/etc/cdi"), Path("/var/run/cdi"), Path("/p/cdi"), Path.cwd() / "x", Path("/y"))
    assert Processes.cdi_of(None, [Path("/z")]) == (Path("/etc/cdi"), Path("/var/run/cdi"), Path("/z"))


def test_an_attached_node_ends_with_its_parent_process(monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *given: signals.append(given))
    monkeypatch.setattr(threading, "Thread", ImmediateThread)
    reading, writing = os.pipe()
    kept = os.dup(0)
    try:
        os.dup2(reading, 0)
        of_node()
        os.write(writing, b"a few words")
        os.close(writing)
        of_node("--attached")
        assert signals == [(os.getpid(), signal.SIGTERM)]
        assert os.read(0, 1) == b""
        directory = os.open("/", os.O_RDONLY)
        os.dup2(directory, 0)
        os.close(directory)
        of_node("--attached")
        assert len(signals) == 2
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)


class ImmediateThread:
    """A thread that runs at its start. It must be a daemon, so that the process does not wait for it."""

    def __init__(self, target: Any, daemon: bool) -> None:
        assert daemon
        self.start = target


def test_errors_name_the_program_as_it_was_called(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("KUBEDRA_PROG", raising=False)
    assert node.main(["n1"]) == 2
    monkeypatch.setenv("KUBEDRA_PROG", "kubedra node run")
    assert node.main(["n1"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("python -m controllers.kubelet: ")
    assert second.startswith("kubedra node run: ")


@pytest.mark.parametrize(
    ("text", "found"), [("", None), ("1.2.3.4:80", ("1.2.3.4", 80)), ("[::]:65535", ("::", 65535)), ("h:0", ("h", 0))]
)
def test_an_address_is_a_host_and_a_port(text: str, found: Any) -> None:
    assert read_address(text) == found


@pytest.mark.parametrize("text", ["80", ":80", "h:", "h:x", "h:65536", "h:-1"])
def test_an_invalid_address_is_named(text: str) -> None:
    with pytest.raises(FlagError, match="is not IP:PORT"):
        read_address(text)


def of_components(*flags: str) -> Options:
    return components.read([SERVER, *flags]).options


def test_without_flags_components_behave_as_kube_controller_manager() -> None:
    plain, given = Options(), of_components()
    assert (given.node_lifecycle, given.autoscaler) == (NodeLifecycleOptions(), AutoscalerOptions())
    assert given.node_lifecycle == NodeLifecycleOptions(
        monitor_grace=timedelta(seconds=50), startup_grace=timedelta(minutes=1), eviction_rate=0.1,
        secondary_eviction_rate=0.01, unhealthy_zone_threshold=0.55, large_cluster_size_threshold=50,
    )  # fmt: skip
    assert given.autoscaler == AutoscalerOptions(
        sync_period=timedelta(seconds=15), downscale_stabilization=timedelta(minutes=5), tolerance=0.1,
        cpu_initialization=timedelta(minutes=5), initial_readiness=timedelta(seconds=30),
    )  # fmt: skip
    for name, value in (("terminated_pod_gc_threshold", 12500), ("max_endpoints_per_slice", 100), ("nodes", 0)):
        assert getattr(given, name) == getattr(plain, name) == value
    assert (given.devices, plain.devices_per_node, given.storage_class, given.seed) == ("gpu.example.com", 8, "", None)
    assert (plain.sync_frequency, plain.emulated_version) == (timedelta(minutes=1), (1, 36))
    assert given.scheduler is None


def test_flags_set_options_of_components() -> None:
    given = of_components(
        "--node-monitor-grace-period=1s", "--node-startup-grace-period=2s", "--node-eviction-rate=3",
        "--secondary-node-eviction-rate=4", "--unhealthy-zone-threshold=0.5", "--large-cluster-size-threshold=6",
        "--horizontal-pod-autoscaler-sync-period=7s", "--horizontal-pod-autoscaler-downscale-stabilization=8s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=9s",
        "--horizontal-pod-autoscaler-initial-readiness-delay=10s", "--horizontal-pod-autoscaler-tolerance=0.2",
        "--terminated-pod-gc-threshold=11", "--max-endpoints-per-slice=12", "--nodes=13", "--devices=none",
        "--storage-class=s", "--seed=14", "--emulated-version=1.35",
    )  # fmt: skip
    seconds = [timedelta(seconds=number) for number in range(11)]
    assert given.node_lifecycle == NodeLifecycleOptions(
        monitor_grace=seconds[1], startup_grace=seconds[2], eviction_rate=3, secondary_eviction_rate=4,
        unhealthy_zone_threshold=0.5, large_cluster_size_threshold=6,
    )  # fmt: skip
    assert given.autoscaler == AutoscalerOptions(
        sync_period=seconds[7], downscale_stabilization=seconds[8], cpu_initialization=seconds[9],
        initial_readiness=seconds[10], tolerance=0.2,
    )  # fmt: skip
    assert (given.terminated_pod_gc_threshold, given.max_endpoints_per_slice, given.nodes) == (11, 12, 13)
    assert (given.devices, given.storage_class, given.seed, given.emulated_version) == ("none", "s", 14, (1, 35))


@pytest.mark.parametrize(
    ("value", "elects"),
    [(None, True), ("", True), ("true", True), ("T", True), ("1", True), ("false", False), ("F", False), ("0", False)],
)
def test_components_elect_a_leader_by_default(value: str | None, elects: bool) -> None:
    flags = [] if value is None else ["--leader-elect" if not value else f"--leader-elect={value}"]
    assert (components.read([SERVER, *flags]).election is not None) is elects


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--nodes=-1"], "--nodes -1: cannot be negative"),
        (["--nodes=2", "--controllers=*,-node-agent"], "--nodes 2: needs node-agent, add it to --controllers"),
        (["--devices=d.example.com"], "--devices d.example.com: needs --nodes"),
        (["--concurrent-job-syncs=0"], "--concurrent-job-syncs 0: must be greater than 0"),
        (
            ["--horizontal-pod-autoscaler-sync-period=0s"],
            "--horizontal-pod-autoscaler-sync-period: must be greater than 0",
        ),
        (["--config=/none", "--controllers=job"], "--config: needs the scheduler, add it to --controllers"),
        (["--config=/none/such"], "--config: "),
    ],
)
def test_an_invalid_flag_of_the_components_is_named(flags: list[str], text: str) -> None:
    with pytest.raises(FlagError) as caught:
        of_components(*flags)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_the_configuration_of_the_scheduler_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    assert of_components(f"--config={path}").scheduler is not None
    assert of_components("--nodes=0", "--devices=d.example.com", "--controllers=scheduler").nodes == 0
