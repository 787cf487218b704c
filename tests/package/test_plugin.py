"""The pytest plugin, as a project of its own meets it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubedra import Client, ControlPlane, cli
from kubedra.runtime import process
from tests.support.patience import CLOCK, run_command

pytestmark = pytest.mark.integration

EXAMPLE = Path(__file__).parents[2] / "examples" / "pytest-project"


def run_pytest(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    # The plugin is loaded by name where the package is not installed, so that the test holds in a bare checkout too.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    return run_command(command, cwd=directory, env=process.environment(), text=True, seconds=110)


def project(directory: Path, test: str) -> Path:
    (directory / "test_it.py").write_text(test)
    (directory / "pytest.ini").write_text("[pytest]\n")
    return directory


def test_the_example_project_passes_on_two_workers() -> None:
    """On one it does as the jobs of docs/howto/continuous-integration.md (tests/howto/test_howto.py)."""
    done = run_pytest(EXAMPLE, "-q", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_test_finds_the_control_plane_empty(tmp_path: Path) -> None:
    test = """
import pytest

@pytest.mark.parametrize("round", [1, 2])
def test_empty(kube, round):
    assert kube.list("configmaps", namespace="default") == []
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left-over"}})
"""
    done = run_pytest(project(tmp_path, test), "-q")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failing_test_shows_objects_and_events(tmp_path: Path) -> None:
    test = """
def test_fails(kube):
    kube.add_node("worker", devices=1)
    spec = {"nodeSelector": {"zone": "moon"}, "containers": [{"name": "c", "image": "i"}]}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lonely"}, "spec": spec})
    kube.wait("pod/lonely", "condition=PodScheduled=False")
    assert False
"""
    done = run_pytest(project(tmp_path, test), "-q")
    assert done.returncode == 1
    assert "Pod default/lonely: phase=Pending" in done.stdout
    assert "Node worker" in done.stdout
    assert "label node worker zone=moon (then it fits on worker)" in done.stdout


def test_a_failing_test_lists_custom_resources_whatever_their_status(tmp_path: Path) -> None:
    test = """
import pytest

SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERSIONS = [
    {"name": name, "served": True, "storage": name == "v2", "schema": {"openAPIV3Schema": SCHEMA}}
    for name in ("v1", "v2")
]
NAMES = {"plural": "racks", "kind": "Rack"}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "racks.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": NAMES, "versions": VERSIONS},
}

def rack(name, status):
    return {"apiVersion": "example.com/v1", "kind": "Rack", "metadata": {"name": name}, "status": status}

@pytest.fixture
def racks(kube):
    kube.apply([
        CRD,
        rack("good", {"phase": "Up", "conditions": [{"type": "Ready", "status": "False", "message": "no power"}]}),
        rack("odd", {"conditions": {"a": 1}, "allocation": "none", "reservedFor": 3}),
        rack("odder", "up"),
    ])

def test_fails(racks):
    assert False
"""
    done = run_pytest(project(tmp_path, test), "-q")
    assert done.returncode == 1
    assert "Rack default/good: phase=Up Ready=False (no power)" in done.stdout
    assert "Rack default/odd: -" in done.stdout
    assert "Rack default/odder: -" in done.stdout
    assert "CustomResourceDefinition racks.example.com: NamesAccepted=True Established=True" in done.stdout


FAILS_TWICE = """
import pytest

@pytest.fixture
def config(kube):
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left-over"}})

@pytest.mark.parametrize("round", [1, 2])
def test_it(config, kube, round):
    print("server", kube.url)
    assert False
"""


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("marker", ["", "@pytest.mark.kube(own=True)\n"])
def test_the_control_plane_of_the_first_failing_test_can_be_kept(tmp_path: Path, marker: str, workers: str) -> None:
    test = FAILS_TWICE.replace("@pytest.mark.param", f"{marker}@pytest.mark.param")
    done = run_pytest(project(tmp_path, test), "-q", "--kube-keep", "-n", workers)
    assert done.returncode == 1
    assert len(set(re.findall(r"server (http\S+)", done.stdout))) == 2, "the next test has another server"
    ((kubeconfig, down),) = re.findall(r"export KUBECONFIG=(\S+)  # stop it with: kubedra (.+)", done.stdout)
    assert "the control plane of test_it.py::test_it[1] is running" in done.stdout
    with Client.from_kubeconfig(kubeconfig) as client:
        assert client.get("configmap/left-over")
    assert cli.main(down.split()) == 0
    shutil.rmtree(Path(kubeconfig).parent)


def test_without_the_option_no_control_plane_is_left(tmp_path: Path) -> None:
    done = run_pytest(project(tmp_path, FAILS_TWICE), "-q")
    (url,) = set(re.findall(r"server (http\S+)", done.stdout))
    with Client(url) as client, pytest.raises(ConnectionError):
        client.list("pods")


def test_a_control_plane_that_ends_with_its_parent_cannot_be_detached(tmp_path: Path) -> None:
    plane = ControlPlane(data_dir=tmp_path, controllers=False)
    with plane, pytest.raises(RuntimeError, match="create it with attached=False"):
        plane.detach()


def test_the_log_of_a_failing_test_begins_with_the_test(tmp_path: Path) -> None:
    test = """
def test_passes(kube):
    kube.add_node("first")

def test_fails(kube):
    kube.add_node("second", run=True)
    assert False
"""
    done = run_pytest(project(tmp_path, test), "-q", "--kube-log")
    report = done.stdout.partition("kubedra log")[2]
    assert "node second:" in report, done.stdout
    assert "first" not in report
    assert "kubedra log" not in run_pytest(project(tmp_path, test), "-q").stdout


@pytest.mark.parametrize(
    ("marker", "words"),
    [("emulated_version='1.35'", "needs own=True"), ("own=True, emulated='1.35'", "has no option emulated")],
)
def test_an_option_that_cannot_hold_is_named(tmp_path: Path, marker: str, words: str) -> None:
    test = f"import pytest\n@pytest.mark.kube({marker})\ndef test_it(kube): pass\n"
    done = run_pytest(project(tmp_path, test), "-q")
    assert done.returncode != 0
    assert words in done.stdout + done.stderr


def test_importing_the_plugin_brings_nothing_heavy() -> None:
    code = (
        "import sys, pytest, dataclasses; before = set(sys.modules); import kubedra.pytest_plugin; "
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith('kubedra')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=process.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_stopped_control_plane_leaves_no_process(tmp_path: Path) -> None:
    plane = ControlPlane(data_dir=tmp_path).start()
    pid, begin = plane.pid, CLOCK.seconds
    plane.stop()
    assert CLOCK.seconds - begin < 5
    assert not Path(f"/proc/{pid}").exists()


def test_a_test_begins_with_a_snapshot(tmp_path: Path) -> None:
    """With that of a function, which runs once, or of a file beside the test."""
    test = """
import pytest

calls = []

def prepare(kube):
    calls.append(1)
    kube.add_node("worker", devices=1)
    kube.snapshot().save("worker.kubedra")

@pytest.mark.kube(snapshot=prepare)
@pytest.mark.parametrize("round", [1, 2])
def test_prepared(kube, round):
    assert calls == [1]
    kube.delete("node/worker")

@pytest.mark.kube(snapshot="worker.kubedra")
@pytest.mark.parametrize("round", [1, 2])
def test_file(kube, round):
    assert kube.wait("node/worker", "condition=Ready")
    kube.delete("node/worker")

def test_empty(kube):
    assert kube.list("nodes") == []

@pytest.mark.kube(snapshot="none.kubedra")
def test_missing(kube):
    pass
"""
    done = run_pytest(project(tmp_path, test), "-q")
    assert "5 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "cannot read none.kubedra: no such file or directory" in done.stdout
