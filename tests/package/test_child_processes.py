"""A control plane and a node are processes of their own that live as long as their owner, however that ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kubedra import ControlPlane
from kubedra.plane.control_plane import StartError
from kubedra.runtime import process
from tests.support.patience import ended, wait_until

pytestmark = pytest.mark.integration

#: Starts both, says their process ids, and does what `{end}` says.
OWNER = """
import os, signal, sys
from pathlib import Path
from kubedra import ControlPlane
from kubedra.plane.node_process import NodeProcess
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
plane = ControlPlane().start()
node = NodeProcess("n1", plane.kubeconfig)
node.start()
def read(said):
    try:
        print(said, flush=True)
        return sys.stdin.readline()
    except KeyboardInterrupt:
        return read("interrupted")
read(str(plane.pid) + " " + str(node._process.pid))
print(len(plane.client().list("namespaces")), flush=True)
sys.stdin.readline()
{end}
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks /proc which processes live")
@pytest.mark.parametrize(
    "end",
    ["pass", "raise RuntimeError('a bug')", "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"],
    ids=["exit", "exception", "_exit", "kill -9"],
)
def test_ctrl_c_is_the_owners_and_the_children_end_with_it(end: str) -> None:
    # A session of its own is what a terminal gives; Ctrl-C is a SIGINT to its foreground process group.
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(end=end)],
        env=process.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner:
        children = [int(word) for word in owner.stdout.readline().split()]
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.stdout.readline() == "interrupted\n"
        owner.stdin.write("\n")
        owner.stdin.flush()
        assert int(owner.stdout.readline()) >= 4, "the server answers after Ctrl-C"
        assert all(alive(pid) for pid in children)
        owner.stdin.write("\n")
        owner.stdin.flush()
        ended(owner)
    wait_until(lambda: not any(alive(pid) for pid in children), "the children end with their owner")


def test_a_child_that_never_gets_ready_is_an_error_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "command", lambda *_: [sys.executable, "-c", "import time; time.sleep(600)"])
    plane = ControlPlane(start_patience=0.2)
    with pytest.raises(StartError, match=r"logged nothing for 0\.2 s"):
        plane.start()
    with pytest.raises(RuntimeError, match="not running"):
        _ = plane.pid
