"""The built wheel: in an empty directory, beside a host's packages of the same names, and with only its dependencies."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import run_command

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pytest-project"


def run(installed: Path, directory: Path, *args: str, also: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(part) for part in (installed, also) if part)
    environment = {**os.environ, "PYTHONPATH": path}
    return run_command([sys.executable, *args], cwd=directory, env=environment, text=True, seconds=110)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Make a project with its own `apiserver`, `migrations` and `tests`, and a `controllers` that cannot be imported."""
    for package, text in (
        ("apiserver", "mine = True\n"),
        ("controllers", "raise RuntimeError('imported')\n"),
        ("migrations", ""),
        ("tests", ""),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests" / "test_host.py").write_text(
        "def test_the_hosts_own_package_is_the_hosts():\n    import apiserver\n    assert apiserver.mine\n\ndef"
        " test_a_control_plane_runs_beside_it(kube):\n    kube.add_node('n', devices=1)\n    assert"
        " len(kube.list('resourceslices')) == 1\n"
    )
    return tmp_path


def test_only_one_package_stands_at_the_top_of_the_wheel(installed: Path) -> None:
    tops = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"kubedra"}


def test_the_package_is_importable_alone_and_brings_nothing_of_the_server(installed: Path, tmp_path: Path) -> None:
    code = (
        "import kubedra, sys; print(kubedra.__file__, sorted(m for m in sys.modules if m.split('.')[0] in ('apiserver',"
        " 'controllers')))"
    )
    done = run(installed, tmp_path, "-c", code)
    assert done.stdout.strip() == f"{installed}/kubedra/__init__.py []", done.stderr


def test_the_wheel_serves_from_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    code = (
        "from kubedra import ControlPlane\n"
        "with ControlPlane(nodes=1, devices='gpu.example.com') as plane, plane.client() as client:\n"
        "    client.wait('node/node-1', 'condition=Ready')\n"
        "    print(len(client.list('deviceclasses')), client.request('GET', '/openapi/v3')['paths'] != {})\n"
    )
    done = run(installed, tmp_path, "-c", code)
    assert done.stdout.split() == ["1", "True"], done.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_a_hosts_packages_of_the_same_names_and_ours_do_not_meet(
    installed: Path, hostile: Path, workers: tuple[str, ...]
) -> None:
    done = run(installed, hostile, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, also=hostile)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_an_intruder_on_the_servers_path_is_named_in_one_line(installed: Path, hostile: Path) -> None:
    server = installed / "kubedra" / "_server"
    code = (
        f"import sys; sys.path.insert(0, {str(server)!r}); import apiserver.command.start as m; sys.path.insert(0,"
        f" {str(hostile)!r}); sys.exit(m.main([]))"
    )
    done = run(installed, hostile, "-P", "-c", code)
    assert done.returncode == 2
    assert "the package 'controllers' that Python finds is" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_fixture_needs_nothing_but_what_the_wheel_declares(bare: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(
        "def test_a_pod_runs(kube):\n"
        "    kube.add_node('worker', devices=8)\n"
        "    containers = [{'name': 'c', 'image': 'i'}]\n"
        "    kube.apply({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'job'},"
        " 'spec': {'containers': containers}})\n"
        "    assert kube.wait('pod/job', 'phase=Running')['spec']['nodeName'] == 'worker'\n"
    )
    program = Path(bare["PATH"]) / "python"
    done = run_command([program, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path, env=bare, text=True)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_command_and_its_completion_need_nothing_else(bare: dict[str, str], tmp_path: Path) -> None:
    asked = (
        "kubedra up --detach --port 0 --storage memory >&2 && kubedra status >&2; kubedra down >&2; "
        "source <(kubedra completion bash); COMP_WORDS=(kubedra up --emu); COMP_CWORD=2; _kubedra; echo ${COMPREPLY[@]}"
    )
    done = run_command([shutil.which("bash") or "bash", "-c", asked], cwd=tmp_path, env=bare, text=True)
    assert done.stdout.strip() == "--emulated-version", done.stderr
    assert "ready" in done.stderr
    assert "stopped" in done.stderr


def test_the_documentation_travels_with_the_package(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "-P", "-m", "kubedra", "docs", "webhooks")
    assert (done.returncode, done.stdout) == (0, (ROOT / "docs" / "howto" / "webhooks.md").read_text()), done
    assert not (installed / "kubedra" / "_server" / "docs" / "adr").exists()
