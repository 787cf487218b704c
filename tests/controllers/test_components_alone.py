"""`kubedra controllers`: processes of their own against a server, one leading; flags as kube-controller-manager's."""

from __future__ import annotations

import asyncio
import http.client
import importlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.manager.flags import read
from controllers.manager.manager import COMPONENTS, UnknownComponentError, choose
from controllers.options.command_line import FlagError
from controllers.options.names import CONCURRENT
from controllers.runtime.client import Client
from controllers.runtime.health import answer
from controllers.runtime.http import HttpTransport
from controllers.runtime.informer import Informers
from kubedra.kubeconfig.reader import Cluster
from kubedra.runtime import process
from tests.support.patience import ended, wait_until
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
QUICK = (
    "--leader-elect-lease-duration=6s",  # a leader on a busy machine keeps it
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=100ms",
)


@contextmanager
def components(url: str, log: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kubedra", "controllers", f"--server={url}", *flags]
    with log.open("w") as errors:
        child = subprocess.Popen(command, env=process.environment(), stderr=errors, text=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        ended(child)


def holder(wire: Wire, lease: str) -> str:
    found = wire.get(f"{LEASES}/{lease}")
    return str(found.json["spec"]["holderIdentity"]) if found.status == 200 else ""


def default_account(wire: Wire, namespace: str) -> bool:
    """Return whether a controller has done its work in a new namespace."""
    return wire.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default").status == 200


def test_of_two_instances_one_leads_and_the_other_takes_over_when_it_stops_or_is_killed(tmp_path: Path) -> None:
    flags = (*QUICK, "--controllers=serviceaccount-controller")
    lease = "kubedra-serviceaccount"
    with Child(tmp_path / "data") as server, components(server.url, tmp_path / "1", *flags) as first:
        wire = server.wire()
        wait_until(lambda: holder(wire, lease) != "", "the first leads")
        leader = holder(wire, lease)
        with components(server.url, tmp_path / "2", *flags) as second:
            wait_until(lambda: f"standing by, {leader} leads" in (tmp_path / "2").read_text(), "the second stands by")
            first.terminate()
            assert ended(first) == 0
            wait_until(lambda: holder(wire, lease) not in ("", leader), "the second leads")
            assert wire.get(f"{LEASES}/{lease}").json["spec"]["leaseTransitions"] == 1
            wire.post("/api/v1/namespaces", {"metadata": {"name": "one"}})
            wait_until(lambda: default_account(wire, "one"), "the second works")
            with components(server.url, tmp_path / "3", *flags):
                wait_until(lambda: "standing by" in (tmp_path / "3").read_text(), "the third stands by")
                second.kill()
                wire.post("/api/v1/namespaces", {"metadata": {"name": "two"}})
                wait_until(lambda: default_account(wire, "two"), "the third works")
        events = wire.get("/api/v1/namespaces/kube-system/events").json["items"]
        assert {
            event["message"].rpartition("_")[2][36:] for event in events if event["reason"] == "LeaderElection"
        } == {" became leader"}


def test_an_instance_that_loses_its_lease_exits_with_code_one(tmp_path: Path) -> None:
    with Child(tmp_path / "data") as server, components(server.url, tmp_path / "log", *QUICK) as child:
        wire = server.wire()
        wait_until(lambda: holder(wire, "kubedra-controllers") != "", "it leads")
        patch = json.dumps({"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 3600}}).encode()
        headers = {"Content-Type": "application/merge-patch+json"}
        assert wire.request("PATCH", f"{LEASES}/kubedra-controllers", patch, headers).status == 200
        assert ended(child) == 1
        assert (tmp_path / "log").read_text().splitlines()[
            -1
        ] == "kubedra controllers: the lease kube-system/kubedra-controllers was taken by usurper"
        assert holder(wire, "kubedra-controllers") == "usurper"


def test_without_election_nothing_is_elected(tmp_path: Path) -> None:
    with (
        Child(tmp_path / "data") as server,
        components(server.url, tmp_path / "log", "--leader-elect=false", "--controllers=serviceaccount"),
    ):
        wire = server.wire()
        wait_until(lambda: default_account(wire, "default"), "it works")
        assert wire.get(LEASES).json["items"] == []


def test_a_token_that_the_server_does_not_know_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,admin,1,"system:masters"\n')
    with (
        Child(tmp_path / "data", f"--token-auth-file={tokens}") as server,
        components(server.url, tmp_path / "log", "--token=wrong") as child,
    ):
        assert ended(child) == 2
        said = f"kubedra controllers: {server.url} does not accept these credentials (401 Unauthorized)\n"
        assert (tmp_path / "log").read_text() == said


def test_the_health_endpoint_distinguishes_waiting_from_leading(tmp_path: Path) -> None:
    port = free_port()
    with Child(tmp_path / "data") as server:
        server.process.send_signal(signal.SIGSTOP)
        with components(
            server.url, tmp_path / "log", f"--healthz-bind-address=127.0.0.1:{port}", "--controllers=resourceclaim"
        ):
            wait_until(lambda: ask(port, "/healthz") == (200, "ok"), "it lives")
            assert ask(port, "/readyz") == (500, f"waiting for {server.url}")
            assert ask(port, "/other")[0] == 404
            assert ask(port, "/metrics") == (200, ""), "nothing works yet"
            server.process.send_signal(signal.SIGCONT)
            wait_until(lambda: ask(port, "/readyz") == (200, "ok"), "it works")
            wait_until(lambda: 'workqueue_depth{name="resource_claim"} 0\n' in ask(port, "/metrics")[1], "it counts")


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path)
        got = connection.getresponse()
        return got.status, got.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def test_health_answers_only_reads_of_its_paths() -> None:
    assert answer("POST /healthz HTTP/1.1\r\n", str, str).startswith(b"HTTP/1.1 405 ")
    assert answer("HEAD /readyz?verbose HTTP/1.1\r\n", lambda: "no", str).endswith(
        b"content-length: 2\r\nconnection: close\r\n\r\n"
    )
    assert answer("", str, str).startswith(b"HTTP/1.1 404 ")
    assert answer("DELETE /metrics HTTP/1.1\r\n", str, str).startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        (["resource-claim-controller"], ["resourceclaim-controller"]),
        (["resourceclaim", "kube-scheduler"], ["resourceclaim-controller", "scheduler"]),
        (["*", "-garbagecollector"], [name for name in COMPONENTS if name != "garbage-collector-controller"]),
        (["*", "-service-lb-controller"], list(COMPONENTS)),
        (["scheduler", "-scheduler"], ["scheduler"]),
        (["-scheduler", "scheduler"], []),
        ([], []),
    ],
)
def test_names_aliases_and_order_are_kube_controller_managers(named: list[str], chosen: list[str]) -> None:
    assert choose(named) == chosen


def test_a_controller_that_is_not_built_cannot_be_asked_for() -> None:
    with pytest.raises(
        UnknownComponentError,
        match='controller "service-lb-controller" is not supported; use one of: namespace-controller, ',
    ):
        choose(["service-lb-controller"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "one of the arguments --server --kubeconfig is required"),
        (["--server=x:1"], "--server: x:1 is not an http:// or https:// address"),
        (
            ["--server=http://x", "--leader-elect-lease-duration=soon"],
            '--leader-elect-lease-duration: "soon" is not a duration such as 15s or 1m30s',
        ),
        (
            ["--server=http://x", "--leader-elect-lease-duration=5s"],
            "--leader-elect-renew-deadline: must be less than the lease duration",
        ),
        (
            ["--server=http://x", "--leader-elect-resource-lock=endpoints"],
            '--leader-elect-resource-lock: "endpoints" is not "leases"',
        ),
        (["--server=http://x", "--leader-elect=maybe"], '--leader-elect: "maybe" is not true or false'),
        (["--server=http://x", "--controllers=-scheduler"], '--controllers: "-scheduler" selects no controllers'),
        (["--server=http://x", "--healthz-bind-address=80"], '--healthz-bind-address: "80" is not IP:PORT'),
        (
            ["--server=https://x", "--certificate-authority=pyproject.toml"],
            "pyproject.toml: not a usable certificate: ",
        ),
        (["--server=http://x", "--feature-gates=JobManagedBy=false"], "cannot set feature gate JobManagedBy to false"),
        (
            ["--server=http://x", "--emulated-version=1.32"],
            "--emulated-version: [emulation version 1.32 is not between",
        ),
        (["--server=http://x", "--nope"], "unrecognized arguments: --nope"),
    ],
)
def test_wrong_flags_are_reported(flags: list[str], said: str) -> None:
    with pytest.raises(FlagError, match="^" + re.escape(said)):
        read(flags)


def test_the_lease_bears_the_names_of_what_runs() -> None:
    def lease(*flags: str) -> str:
        election = read(["--server=http://x", *flags]).election
        return str(election)

    assert lease() == "kube-system/kubedra-controllers"
    assert lease("--controllers=resourceclaim-controller,scheduler") == "kube-system/kubedra-resourceclaim-scheduler"
    assert lease("--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=here") == "here/mine"
    assert lease("--leader-elect=false") == "None"


@pytest.mark.parametrize(("component", "flag"), [(component, flag) for component, (flag, _) in CONCURRENT.items()])
def test_a_flag_sets_the_number_of_workers(component: str, flag: str) -> None:
    module = importlib.import_module(COMPONENTS[component])

    async def workers(*flags: str) -> int:
        options = read(["--server=http://127.0.0.1:1", *flags]).options
        gates = {"DRADeviceTaints": True, "DRADeviceTaintRules": True}
        client = Client(HttpTransport(Cluster(server="http://127.0.0.1:1")), "test")
        built = module.build(client, Informers(client), replace(options, gates=gates))
        found: int = built._controller._workers
        return found

    assert asyncio.run(workers()) == CONCURRENT[component][1]
    assert asyncio.run(workers(f"--{flag}=3")) == 3


@pytest.mark.parametrize(
    ("component", "workers"),
    [
        ("ttl-controller", [5]),
        ("certificatesigningrequest-approving-controller", [5]),
        ("certificatesigningrequest-signing-controller", [5]),
        ("node-lifecycle-controller", [8, 4]),
    ],
)
def test_components_without_such_a_flag_work_on_as_many_objects_at_once_as_upstream(
    component: str, workers: list[int]
) -> None:
    module = importlib.import_module(COMPONENTS[component])

    async def found() -> list[int]:
        client = Client(HttpTransport(Cluster(server="http://127.0.0.1:1")), "test")
        built = module.build(client, Informers(client), read(["--server=http://127.0.0.1:1"]).options)
        controllers = getattr(built, "_controllers", None) or (built._controller,)
        return [controller._workers for controller in controllers]

    assert asyncio.run(found())[: len(workers)] == workers
