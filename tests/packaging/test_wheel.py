"""The built wheel: alone in an empty directory, and inside a host whose own packages bear the names of ours."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.patience import run_command

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pytest-project"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory with the wheel in it, as pip unpacks it; its dependencies are this environment's."""
    made = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = made.glob("kubedra-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(made / "site")
    return made / "site"


def run(installed: Path, directory: Path, *args: str, also: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(part) for part in (installed, also) if part)
    environment = {**os.environ, "PYTHONPATH": path}
    return run_command([sys.executable, *args], cwd=directory, env=environment, text=True, seconds=110)


@pytest.fixture
def hostile(tmp_path):
    """A project that has an `apiserver`, a `controllers` that cannot even be imported, `migrations` and `tests` of its
    own.
    """
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


def test_only_one_package_stands_at_the_top_of_the_wheel(installed):
    tops = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"kubedra"}


def test_the_package_is_importable_alone_and_brings_nothing_of_the_server(installed, tmp_path):
    code = (
        "import kubedra, sys; print(kubedra.__file__, sorted(m for m in sys.modules if m.split('.')[0] in ('apiserver',"
        " 'controllers')))"
    )
    done = run(installed, tmp_path, "-c", code)
    assert done.stdout.strip() == f"{installed}/kubedra/__init__.py []", done.stderr


def test_the_wheel_serves_from_an_empty_directory(installed, tmp_path):
    code = (
        "from kubedra import ControlPlane\n"
        "with ControlPlane(nodes=1, devices='gpu.example.com') as plane, plane.client() as client:\n"
        "    client.wait('node/node-1', 'condition=Ready')\n"
        "    print(len(client.list('deviceclasses')), client.request('GET', '/openapi/v3')['paths'] != {})\n"
    )
    done = run(installed, tmp_path, "-c", code)
    assert done.stdout.split() == ["1", "True"], done.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_a_hosts_packages_of_the_same_names_and_ours_do_not_meet(installed, hostile, workers):
    done = run(installed, hostile, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, also=hostile)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_an_intruder_on_the_servers_path_is_named_in_one_line(installed, hostile):
    server = installed / "kubedra" / "_server"
    code = (
        f"import sys; sys.path.insert(0, {str(server)!r}); import apiserver.__main__ as m; sys.path.insert(0,"
        f" {str(hostile)!r}); sys.exit(m.main([]))"
    )
    done = run(installed, hostile, "-P", "-c", code)
    assert done.returncode == 2
    assert "the package 'controllers' that Python finds is" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
