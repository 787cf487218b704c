"""A control plane is copied while it runs, and the copies share nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubedra import ControlPlane
from kubedra.archive.differences import compare
from kubedra.archive.objects import read_objects
from kubedra.client.client import ApiError, Client
from kubedra.client.clock import Clock
from tests.package.test_plugin import project, run_pytest
from tests.package.test_same_history import template
from tests.package.test_snapshots import DEPLOYMENT, config_map, facts
from tests.support.patience import CLOCK

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(clock="virtual", nodes=2, devices="gpu.example.com", seed=3) as plane:
        yield plane


@pytest.fixture
def client(plane: ControlPlane) -> Iterator[Client]:
    plane.reset()
    with plane.client() as client:
        yield client


def names(client: Client) -> list[str]:
    return [each["metadata"]["name"] for each in client.list("configmaps", namespace="default")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_gone(pid: int) -> None:
    end = CLOCK.seconds + 30
    while is_alive(pid):
        assert CLOCK.seconds < end, f"process {pid} is still there"
        time.sleep(0.05)


def test_a_fork_begins_with_the_state_and_shares_no_changes(plane: ControlPlane, client: Client) -> None:
    client.create(config_map("both"))
    uid = client.get("configmap/both")["metadata"]["uid"]
    with plane.fork() as one, plane.fork("two") as two, one.client() as first, two.client() as second:
        assert len({plane.url, one.url, two.url}) == 3
        assert len({plane.pid, one.pid, two.pid}) == 3
        assert {first.get("configmap/both")["metadata"]["uid"], second.get("configmap/both")["metadata"]["uid"]} == {
            uid
        }
        first.create(config_map("first"))
        second.delete("configmap/both")
        client.create(config_map("original"))
        assert (names(first), names(second), names(client)) == (["both", "first"], [], ["both", "original"])


def test_a_fork_has_components_and_a_clock_of_its_own(plane: ControlPlane, client: Client) -> None:
    client.create(template())
    client.create(DEPLOYMENT)
    with plane.fork() as fork, fork.client() as copy:
        clock, before = Clock(lambda: copy), Clock(lambda: client).now()
        clock.run_until_idle()
        clock.advance(minutes=5)
        assert len(facts(copy)) == 4
        assert (clock.now() - before).total_seconds() >= 300
        assert Clock(lambda: client).now() == before


def test_two_forks_of_one_moment_have_the_same_history(plane: ControlPlane, client: Client, tmp_path: Path) -> None:
    """Byte for byte, like the original would have it: with the same timers and random numbers."""
    client.create(template())
    client.create(DEPLOYMENT)
    histories = []
    for name in ("one", "two"):
        with plane.fork() as fork, fork.client() as copy:
            Clock(lambda copy=copy: copy).advance(minutes=3)  # type: ignore[misc]
            copy.scale("deployment/web", 3)
            Clock(lambda copy=copy: copy).advance(minutes=3)  # type: ignore[misc]
            copy.snapshot().save(tmp_path / name)
            histories.append(read_objects(str(tmp_path / name)))
    one, two = histories
    assert compare(one, two) == []
    assert one == two
    assert len([key for key in one.objects if key.startswith("/registry/pods/")]) == 3


def test_a_watch_of_the_original_stays_with_the_original(plane: ControlPlane, client: Client) -> None:
    watch = client.watch("/api/v1/namespaces/default/configmaps", timeout=20)
    client.create(config_map("before"))
    assert next(watch)["object"]["metadata"]["name"] in {"before", "kube-root-ca.crt"}
    with plane.fork() as fork, fork.client() as copy:
        copy.create(config_map("of-the-fork"))
        client.create(config_map("after"))
        seen = []
        while "after" not in seen:
            seen.append(next(watch)["object"]["metadata"]["name"])
        assert "of-the-fork" not in seen


def test_a_fork_can_begin_with_a_snapshot_and_be_forked_again(plane: ControlPlane, client: Client) -> None:
    client.create(config_map("kept"))
    client.snapshot("s")
    client.create(config_map("later"))
    client.request("POST", "/-/clusters", {"name": "old", "snapshot": "s"})
    found = client.request("GET", "/-/clusters")["value"]
    assert [each["name"] for each in found] == ["old"]
    with Client.from_kubeconfig(found[0]["kubeconfig"]) as old:
        assert names(old) == ["kept"]
        again = old.request("POST", "/-/clusters", {"name": "again"})
        with Client.from_kubeconfig(again["kubeconfig"]) as second:
            assert names(second) == ["kept"]
    client.request("DELETE", "/-/clusters/old")
    wait_gone(again["pid"])
    assert client.request("GET", "/-/clusters")["value"] == []


def test_mistakes_are_named(client: Client) -> None:
    for body, code, message in [
        ({"name": "a", "snapshot": "none"}, 404, "no snapshot 'none'"),
        ({"name": "No Label"}, 400, "name: "),
        ({}, 400, "name: Field required"),
    ]:
        with pytest.raises(ApiError, match=message) as error:
            client.request("POST", "/-/clusters", body)
        assert error.value.code == code
    with pytest.raises(ApiError, match="no cluster 'none'"):
        client.request("DELETE", "/-/clusters/none")


def test_a_server_that_cannot_be_forked_says_what_it_needs() -> None:
    with (
        ControlPlane(controllers=False) as plane,
        pytest.raises(ApiError, match="this server cannot be forked: start it with --forks"),
    ):
        plane.fork()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_forks_end_with_their_server(number: int) -> None:
    plane = ControlPlane(controllers=False, args=["--forks"]).start()
    forks = [plane.fork() for _ in range(2)]
    pids = [fork.pid for fork in forks]
    assert all(map(is_alive, pids))
    os.kill(plane.pid, number)
    for pid in pids:
        wait_gone(pid)
    for fork in forks:
        fork.stop()
    plane.stop()


def test_the_fixture_forks_in_real_and_in_virtual_time(tmp_path: Path) -> None:
    test = """
import pytest

@pytest.mark.parametrize("clock", [pytest.param("real", marks=pytest.mark.kube()), pytest.param("virtual", marks=pytest.mark.kube(clock="virtual"))])
def test_it(kube, clock):
    kube.add_node("a", devices=1)
    fork = kube.fork()
    fork.delete("node/a")
    fork.wait("node/a", "delete")
    assert [node["metadata"]["name"] for node in kube.list("nodes")] == ["a"]
    assert fork.url != kube.url
"""
    done = run_pytest(project(tmp_path, test), "-q")
    assert done.returncode == 0, done.stdout + done.stderr
