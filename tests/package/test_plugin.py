"""The pytest plugin, as a project of its own meets it."""

import subprocess
import sys
from pathlib import Path

import pytest

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
    from kubedra import ControlPlane

    plane = ControlPlane(data_dir=tmp_path).start()
    pid, begin = plane.pid, CLOCK.seconds
    plane.stop()
    assert CLOCK.seconds - begin < 5
    assert not Path(f"/proc/{pid}").exists()
