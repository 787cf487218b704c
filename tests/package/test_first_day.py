"""The first day: a start is short and ends when its nodes can be used; what does not fit the flags is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from kubedra import ControlPlane
from kubedra.plane.background import running
from kubedra.plane.status import collect_status
from kubedra.runtime import process
from tests.support.patience import communicate, run_command, wait_until

pytestmark = pytest.mark.integration

QUICK = ("--port=0", "--durability=off")
PODS = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


def environment() -> dict[str, str]:
    return {name: value for name, value in process.environment().items() if name != "KUBECONFIG"}


def kubedra(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "kubedra", *args], cwd=directory, env=environment(), text=True)


def test_a_control_plane_is_ready_when_its_nodes_are_and_their_slices_are_published() -> None:
    with httpx.Client() as client, ControlPlane(nodes=40, devices="gpu.example.com") as plane:

        def assert_usable() -> None:
            # The first request: it must not need time in which nodes could get ready.
            nodes = client.get(f"{plane.url}/api/v1/nodes").json()["items"]
            conditions = [c for node in nodes for c in node["status"].get("conditions") or () if c["type"] == "Ready"]
            assert [c["status"] for c in conditions] == ["True"] * 40
            slices = client.get(f"{plane.url}/apis/resource.k8s.io/v1/resourceslices").json()["items"]
            assert len(slices) == 40

        assert_usable()
        assert "nodes       40 Ready\n" in plane.log()
        plane.reset()
        assert_usable()


def test_a_start_prints_a_line_per_phase_and_each_component_only_with_v() -> None:
    for flags, most in (((), 8), (("-v",), 100)):
        with ControlPlane(nodes=1, args=flags) as plane:
            phases = [line for line in plane.log().splitlines() if "INFO" not in line and " I " not in line]
            assert [line.split("  ")[0] for line in phases if not line.startswith("component   ")] == [
                "storage", "api server", "components", "nodes",
            ]  # fmt: skip
            assert len(phases) <= most
            assert any(line == "component   scheduler" for line in phases) is bool(flags)


def test_a_start_in_the_foreground_is_short_and_plain_without_a_terminal(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "kubedra", "up", *QUICK],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    lines = []
    while not (line := child.stdout.readline()).startswith("ready"):
        assert line, "the server ended"
        lines.append(line)
    child.send_signal(signal.SIGINT)
    communicate(child)
    assert len(lines) < 15
    assert not [line for line in lines if "\x1b" in line or "✓" in line]
    assert "nodes       2 Ready\n" in lines
    assert "stopped at" in kubedra(tmp_path, "status").stdout
    assert "Ctrl-C" in kubedra(tmp_path, "status").stdout


def test_existing_nodes_that_differ_from_the_flags_are_reported_and_fresh_deletes_them(tmp_path: Path) -> None:
    first = kubedra(tmp_path, "up", "--detach", "--nodes=3", *QUICK)
    assert (first.returncode, first.stderr) == (0, "")
    kubedra(tmp_path, "down")
    again = kubedra(tmp_path, "up", "--detach", "--devices=foo.example.com", *QUICK)
    kubedra(tmp_path, "down")
    assert again.stderr == (
        "warning: nodes of an earlier start differ from the flags: node-1 has gpu.example.com=8, node-2 has"
        " gpu.example.com=8, node-3 exists; start with --fresh to delete the old data, or use another --data-dir\n"
    )
    fresh = kubedra(tmp_path, "up", "--detach", "--devices=foo.example.com", "--fresh", *QUICK)
    found = json.loads(kubedra(tmp_path, "status", "-o", "json").stdout)
    refused = kubedra(tmp_path, "serve", "--fresh", "--port=0")
    kubedra(tmp_path, "down")
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert [node["name"] for node in found["nodes"]] == ["node-1", "node-2"]
    assert (refused.returncode, "in use by another server" in refused.stderr) == (2, True)


def test_of_two_starts_at_the_same_time_the_loser_reports_its_own_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kubedra", "serve", "--detach", *QUICK]
    both = [
        subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    errors = {child: communicate(child)[1] for child in both}
    kubedra(tmp_path, "down")
    assert sorted(child.returncode for child in both) == [0, 2], errors
    (loser,) = (child for child in both if child.returncode)
    assert len(errors[loser].splitlines()) == 1
    assert "in use by another server" in errors[loser] or "already running" in errors[loser]
    log = (tmp_path / ".kubedra" / "server.log").read_text()
    assert "in use" not in log, "the log is the winner's"
    assert not list((tmp_path / ".kubedra").glob("server.log.*"))


def test_the_status_counts_devices_and_says_why_pods_wait(tmp_path: Path) -> None:
    with ControlPlane(nodes=2, devices="gpu.example.com", data_dir=tmp_path) as plane, plane.client() as client:
        client.apply(PODS / "one-gpu-each.yaml")
        client.apply(PODS / "too-many.yaml")
        client.wait("pod/trainer-a", "phase=Running", namespace="quickstart")
        client.wait("pod/trainer-b", "phase=Running", namespace="quickstart")
        wait_until(lambda: _reason(tmp_path), "greedy was tried")
        found, code = collect_status(tmp_path)
        table = kubedra(tmp_path, "status", f"--data-dir={tmp_path}").stdout
    assert code == 0
    assert sum(node["used"] for node in found["nodes"]) == 2
    assert sum(node["free"] for node in found["nodes"]) == 14
    assert [pod["name"] for pod in found["pending"]] == ["greedy"]
    assert "pending     quickstart/greedy: 0/2 nodes are available" in table
    assert "why         kubedra explain pod greedy -n quickstart" in table


def test_explain_and_simulate_read_the_cluster_of_kubectl_with_flags_anywhere(tmp_path: Path) -> None:
    with ControlPlane(nodes=1, devices="gpu.example.com", data_dir=tmp_path) as plane, plane.client() as client:
        client.apply(PODS / "too-many.yaml")
        client.wait("pod/greedy", "create", namespace="quickstart")

        def run(*args: str) -> str:
            command = [sys.executable, "-m", "kubedra", *args]
            done = run_command(command, env={**environment(), "KUBECONFIG": str(plane.kubeconfig)}, text=True)
            assert done.returncode in (0, 1), done.stderr
            return str(done.stdout)

        assert "pod quickstart/greedy" in run("explain", "pod", "-n", "quickstart", "greedy")
        assert "pod quickstart/greedy" in run("explain", "-n", "quickstart", "pod/greedy")
        simulated = run("simulate", "-f", str(PODS / "too-many.yaml"), "-o", "table")
        assert "node-1  0/8" in simulated
        assert "fit" not in simulated, "only tables"


def _reason(data_dir: Path) -> bool:
    return any("nodes are available" in pod["reason"] for pod in collect_status(data_dir)[0]["pending"])


def test_the_status_says_that_the_last_server_was_killed(tmp_path: Path) -> None:
    with ControlPlane(data_dir=tmp_path, controllers=False) as plane:
        pid = plane.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: running(tmp_path) is None, "the kernel has dropped its lock")
    done = kubedra(tmp_path, "status", f"--data-dir={tmp_path}")
    assert (done.returncode, done.stdout) == (
        1,
        (
            f"{tmp_path}: no server is running\n"
            f"the last server (pid {pid}) ended without a shutdown: it was killed or it crashed\n"
        ),
    )


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["sttus"], "kubedra: unknown command 'sttus'; did you mean status?"),
        (["up", "--devces=x"], "kubedra up: unrecognized arguments: --devces=x; did you mean --devices?"),
        (["up", "--controllers=schedulr"], 'unknown controller "schedulr"; did you mean scheduler?'),
        (["up", "--feature-gates=DRADeviceTaint=true"], "gate: DRADeviceTaint; did you mean DRADeviceTaints?"),
        (["node", "run", "n1", "--plugin-dr=x"], "did you mean --plugin-dir?"),
        (["node", "add", "n1", "--devices=-3", "--server=http://127.0.0.1:1"], "devices -3: cannot be negative"),
        (["node", "add", "n1"], ".kubedra/kubeconfig: no such file or directory; start a server with `kubedra up`"),
        (["explain", "pod", "x", "--server=http://127.0.0.1:1"], "is it running? `kubedra status` shows it"),
        (["node", "add", "n1", "--server=http://127.0.0.1:1"], "is it running? `kubedra status` shows it"),
        (["cel", "true", "--slices=nope.yaml"], "kubedra cel: nope.yaml: no such file or directory\n"),
        (["up", "--token-auth-file=nope"], "kubedra up: --token-auth-file nope: no such file or directory\n"),
        (["controllers", "--kubeconfig=nope"], "kubedra controllers: nope: no such file or directory\n"),
        (["up", "--storage=postgresql://x/y", "--fresh"], "--fresh: only with --storage sqlite"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_mistake_of_the_first_day_is_one_line_with_its_remedy(tmp_path: Path, args: list[str], error: str) -> None:
    done = kubedra(tmp_path, *args)
    assert done.returncode == 2
    assert error in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_up_takes_flags_from_the_file_of_the_directory_and_names_it_in_errors(tmp_path: Path) -> None:
    (tmp_path / "kubedra.toml").write_text('detach = true\nport = 0\nnodes = 1\ndata-dir = "data"\n')
    started = kubedra(tmp_path, "up")
    shown = kubedra(tmp_path, "status")
    stopped = kubedra(tmp_path, "down")
    assert started.returncode == 0, started.stderr
    assert "node-1" in shown.stdout
    assert "node-2" not in shown.stdout
    assert stopped.stdout.startswith("stopped the server of data (pid ")
    (tmp_path / "kubedra.toml").write_text("port = 70000\n")
    refused = kubedra(tmp_path, "up")
    assert refused.stderr == "kubedra up: --port 70000: a port is between 0 and 65535 (set by kubedra.toml)\n"


def test_a_node_that_does_not_get_ready_delays_the_announcement_but_not_readyz(tmp_path: Path) -> None:
    with ControlPlane(storage="sqlite", data_dir=tmp_path) as plane, plane.client() as client:
        client.apply(NO_SECOND_NODE)
    plane = ControlPlane(nodes=2, storage="sqlite", data_dir=tmp_path)
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(plane.start)
        wait_until(lambda: running(tmp_path), "the record is published")
        record = running(tmp_path)
        assert record is not None
        assert not starting.done()
        assert httpx.get(f"{record['url']}/readyz").text == "ok"
        starting.result()
    try:
        assert "warning: 1 of 2 nodes are not Ready yet: node-2" in plane.log()
    finally:
        plane.stop()


#: A policy by which the node node-2 cannot report its status.
NO_SECOND_NODE = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-second-node"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["*"],
                        "resources": ["nodes/status"],
                    }
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'node-2'"}],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-second-node"},
        "spec": {"policyName": "no-second-node", "validationActions": ["Deny"]},
    },
]
