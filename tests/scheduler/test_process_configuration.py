"""A KubeSchedulerConfiguration of the process: server, rate limit and leader election; and kube-scheduler's own file."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.api.features.gates import Features
from controllers.manager.flags import read
from controllers.options.command_line import FlagError, Flags
from controllers.runtime.rate_limit import RateLimitedTransport
from controllers.scheduler.config.arguments import Arguments, read_arguments
from controllers.scheduler.config.configuration import parse
from controllers.scheduler.config.fields import ConfigurationError
from controllers.scheduler.cycle.plugins import PluginDependencies, default_plugins
from controllers.scheduler.cycle.profiles import arrange, load
from tests.scheduler.cluster import Cluster
from tests.scheduler.test_configuration import document
from tests.support.virtual import passes

#: The output of `kube-scheduler --write-config-to` of 1.36.2.
DEFAULTS = Path(__file__).parent / "kube-scheduler-defaults.yaml"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""


def given(tmp_path: Path, *flags: str, **fields: Any) -> Flags:
    """Read a file with these fields, and flags."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    connection = {"kubeconfig": str(tmp_path / "kubeconfig"), **fields.pop("clientConnection", {})}
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump(document(clientConnection=connection, **fields)))
    return read(["--controllers=scheduler", f"--config={path}", *flags])


def test_the_file_that_kube_scheduler_writes_means_the_defaults() -> None:
    found = load(DEFAULTS, Features().enabled)
    cluster = Cluster()
    (profile,) = found.profiles
    plugins = arrange(default_plugins(PluginDependencies(cache=cluster.cache, devices=cluster.devices)), profile)
    usual = [(plugin.name, plugin.weight) for plugin in cluster.evaluator.plugins]
    assert [(plugin.name, plugin.weight) for plugin in plugins] == usual
    assert read_arguments(profile, Features().enabled) == Arguments()
    assert found.process is not None
    expected = ("/etc/kubernetes/scheduler.conf", 50.0, 100)
    assert (found.process.kubeconfig, found.process.qps, found.process.burst) == expected


def test_the_server_is_that_of_the_file_unless_a_flag_names_one(tmp_path: Path) -> None:
    assert given(tmp_path).cluster.server == "http://127.0.0.1:1"
    assert given(tmp_path, "--server=http://x").cluster.server == "http://x"
    with pytest.raises(FlagError, match=r"^one of the arguments --server --kubeconfig is required$"):
        given(tmp_path, clientConnection={"kubeconfig": ""})


def test_the_rate_limit_is_that_of_the_file_unless_a_flag_sets_one(tmp_path: Path) -> None:
    assert given(tmp_path).rate_limit is None
    assert given(tmp_path, clientConnection={"qps": -1, "burst": 7}).rate_limit is None
    assert given(tmp_path, clientConnection={"qps": 12.5}).rate_limit == (12.5, 100)
    assert given(tmp_path, clientConnection={"qps": 50, "burst": 7}).rate_limit == (50, 7)
    assert given(tmp_path, "--kube-api-qps=3", "--kube-api-burst=4", clientConnection={"qps": 50}).rate_limit == (3, 4)
    with pytest.raises(FlagError, match=r"^--kube-api-burst -1: cannot be negative$"):
        given(tmp_path, "--kube-api-burst=-1")


def test_a_file_with_leader_election_uses_the_lease_of_kube_scheduler(tmp_path: Path) -> None:
    usual = given(tmp_path).election
    assert usual is not None
    assert str(usual) == "kube-system/kubedra-scheduler"
    file = given(tmp_path, leaderElection={}).election
    assert file is not None
    assert str(file) == "kube-system/kube-scheduler"
    times = {"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "0s", "resourceName": "mine"}
    found = given(tmp_path, "--leader-elect-resource-namespace=here", leaderElection=times).election
    assert found is not None
    assert str(found) == "here/mine"
    assert [t.total_seconds() for t in (found.lease_duration, found.renew_deadline, found.retry_period)] == [30, 20, 2]
    off = {"leaderElect": False, "leaseDuration": "1s"}
    assert given(tmp_path, leaderElection=off).election is None
    with pytest.raises(FlagError, match=r"less than the lease duration \(see leaderElection of --config\)$"):
        given(tmp_path, "--leader-elect", leaderElection=off)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"leaderElection": {"leaderElect": 1}}, "leaderElection.leaderElect: must be true or false"),
        ({"leaderElection": {"leaseDuration": "soon"}}, "leaderElection.leaseDuration: must be a duration"),
        ({"leaderElection": {"resourceLock": "endpoints"}}, "leaderElection.resourceLock: must be leases"),
        ({"leaderElection": {"lease": "x"}}, "leaderElection.lease: unknown field"),
        ({"leaderElection": {"resourceName": 1}}, "leaderElection.resourceName: must be a string"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: must be an integer from 0"),
        ({"clientConnection": {"qps": "many"}}, "clientConnection.qps: must be a number"),
        ({"clientConnection": {"contentType": "text/xml"}}, "clientConnection.contentType: unknown encoding text/xml"),
        ({"clientConnection": {"acceptContentTypes": "application/json,a/b"}}, "acceptContentTypes: unknown encoding a/b"),
        ({"clientConnection": {"server": "x"}}, "clientConnection.server: unknown field"),
    ],
)  # fmt: skip
def test_an_invalid_field_of_the_process_is_rejected_by_name(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        parse(document(**fields))


class CountingServer:
    """A server that records the time of each request in seconds."""

    def __init__(self) -> None:
        self.times: list[float] = []

    async def request(self, *_: Any) -> Any:
        self.times.append(asyncio.get_running_loop().time())
        return 200, (), b""

    async def stream(self, *_: Any) -> Any:
        return await self.request()

    async def close(self) -> None: ...


async def test_a_burst_passes_immediately_and_the_rest_at_the_rate() -> None:
    server, start = CountingServer(), asyncio.get_running_loop().time()
    paced = RateLimitedTransport(server, qps=2, burst=3)
    await asyncio.gather(*(paced.request("GET", "/", "", {}, b"") for _ in range(4)), paced.stream("GET", "/", "", {}))
    assert [round(at - start, 3) for at in server.times] == [0, 0, 0, 0.5, 1]
    # Two idle seconds refill the burst of three requests, not four.
    await passes(2)
    server.times.clear()
    start = asyncio.get_running_loop().time()
    await asyncio.gather(*(paced.request("GET", "/", "", {}, b"") for _ in range(4)))
    assert [round(at - start, 3) for at in server.times] == [0, 0, 0, 0.5]
