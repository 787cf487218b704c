"""A start waits for its nodes while they make progress; a node and a plugin directory have one kubelet."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from controllers.kubelet.emulation.readiness import NodeReadiness
from kubedra import ControlPlane
from kubedra.plane.node_process import NodeProcess
from kubedra.runtime import process
from kubedra.runtime.exclusive import take_name
from kubedra.runtime.failures import check_socket_path
from tests.support.patience import ended, run_command

pytestmark = pytest.mark.integration


async def test_nodes_are_waited_for_as_long_as_others_get_ready() -> None:
    readiness, loop = NodeReadiness(), asyncio.get_running_loop()
    begun = loop.time()
    for number in range(4):
        loop.call_later(8 * number, readiness.mark, f"n{number}")
    assert await readiness.wait(f"n{number}" for number in range(4)) == (4, [])
    assert loop.time() - begun == pytest.approx(24)


async def test_nodes_without_progress_are_named_after_ten_seconds() -> None:
    readiness, loop = NodeReadiness(), asyncio.get_running_loop()
    begun = loop.time()
    readiness.mark("a")
    assert await readiness.wait(["a", "b", "c"]) == (1, ["2 of 3 nodes are not Ready yet: b, c"])
    assert loop.time() - begun == pytest.approx(10)


async def test_a_deleted_node_is_not_waited_for() -> None:
    readiness = NodeReadiness()
    asyncio.get_running_loop().call_later(1, readiness.remove, "b")
    readiness.mark("a")
    assert (await readiness.wait(["a", "b"]))[1] == []
    readiness.clear()
    assert (await readiness.wait(["a"]))[1] == ["1 of 1 nodes are not Ready yet: a"]


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets")
def test_a_name_belongs_to_one_process_until_it_ends(tmp_path: Path) -> None:
    code = f"from kubedra.runtime.exclusive import take_name; print(take_name({str(tmp_path)!r}), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env=process.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    assert not take_name(str(tmp_path))
    child.kill()
    ended(child)
    child.communicate()
    assert take_name(str(tmp_path))


def test_a_second_kubelet_for_a_node_or_a_directory_is_refused(tmp_path: Path) -> None:
    with ControlPlane(nodes=1) as plane, plane.client() as client:
        first = NodeProcess("n1", plane.kubeconfig)
        first.start()
        try:
            client.wait("node/n1", "condition=Ready")

            def refused(name: str, directory: Path) -> str:
                flags = (f"--kubeconfig={plane.kubeconfig}", f"--plugin-dir={directory}")
                command = [sys.executable, "-m", "kubedra", "node", "run", name, *flags]
                done = run_command(command, env=process.environment(), text=True)
                assert done.returncode == 2, done.stderr
                return str(done.stderr)

            assert "node n1: another kubelet already runs for this node" in refused("n1", tmp_path / "a")
            assert "another kubelet uses it" in refused("n2", first.plugin_dir)
            assert "node node-1 is emulated by the control plane; use another name" in refused("node-1", tmp_path / "b")
            deep = Path("/tmp") / ("x" * 100)
            command = [sys.executable, "-m", "kubedra", "up", "--port=0", "--storage=memory", f"--plugin-dir={deep}"]
            long = run_command(command, cwd=tmp_path, env=process.environment(), text=True)
            assert long.returncode == 2
            assert long.stderr.endswith("use a shorter directory\n")
            assert len(long.stderr.splitlines()) == 1
        finally:
            first.close()


def test_the_limit_of_a_sockets_path_is_counted_in_bytes() -> None:
    check_socket_path(Path("/" + "x" * 100))
    with pytest.raises(ValueError, match=r"has at most 10[37] bytes, this one has 121; use a shorter directory"):
        check_socket_path(Path("/" + "é" * 60))
