"""The projects of the cookbook pass their own tests, and their pages show their files."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from kubedra.version import __version__
from tests.clients.install import installed
from tests.support.patience import run_command
from tests.support.projects import EXAMPLES, GO, ROOT, copied, environment, run

pytestmark = pytest.mark.integration

COOKBOOK = ROOT / "docs" / "cookbook"
#: Projects whose tests are Python, and the modules that they need.
PROJECTS = {
    "kopf-operator": ("kopf", "pykube"),
    "scheduler": (),
    "dra-driver": (),
    "capacity-check": (),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_passes_its_own_tests(project: Path, name: str) -> None:
    missing = [module for module in PROJECTS[name] if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    copied(project, name)
    done = run(
        project,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        seconds=300,
        env={"KUBEDRA_WAIT_TIMEOUT": "120"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(2000)
@pytest.mark.skipif(GO is None, reason="Go is not installed")
def test_the_driver_in_go_serves_a_pod(project: Path) -> None:
    """It is compiled in a Go module that has Kubernetes' library for drivers, because none is installed here."""
    module = os.environ.get("KUBEDRA_KUBELETPLUGIN")
    if not module:
        pytest.skip("not installed: kubeletplugin; set KUBEDRA_KUBELETPLUGIN=DIR, a Go module that has it")
    for name in ("clients/go", "examples/go-driver"):
        shutil.copytree(ROOT / name, project / name)
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOPROXY": "off", "DRIVER": str(project / "driver")}
    env = environment(project, **settings)
    build = [str(GO), "build", "-buildvcs=false", "-o", settings["DRIVER"], str(project / "examples/go-driver/main.go")]
    built = run_command(build, cwd=Path(module), env=env, text=True, seconds=1800)
    assert built.returncode == 0, built.stderr
    done = run(project, str(GO), "-C", "examples/go-driver/e2e", "test", "-count=1", "./...", seconds=150, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr


HELM = [*installed("helm"), *map(Path, filter(None, [shutil.which("helm")]))]


@pytest.mark.skipif(not HELM, reason="not installed: helm (./dev clients)")
def test_a_chart_passes_the_script_for_ci(project: Path) -> None:
    copied(project, "helm")
    (project.parent / "bin" / "helm").symlink_to(HELM[0])
    done = run(project, "./ci.sh", "web", "replicas=3", seconds=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Phase:          Succeeded" in done.stdout, "of the chart's own test"


def test_the_page_of_testcontainers_agrees_with_the_image() -> None:
    page, image = (ROOT / "docs/howto/testcontainers.md").read_text(), (ROOT / "Dockerfile").read_text()
    assert "HEALTHCHECK" in image
    assert set(re.findall(r"^EXPOSE (\d+)$", image, re.MULTILINE)) == {"6443"}
    directory = re.search(r'"--dir=([^"]+)"', image)
    assert directory is not None
    # In each language and in the table.
    assert page.count(f"{directory[1]}/kubeconfig") == 4
    assert set(re.findall(r"ghcr.io/\S+:v(\d+\.\d+\.\d+)", page)) == {__version__}


@pytest.mark.timeout(400)
def test_the_control_plane_runs_in_a_container_of_testcontainers(project: Path) -> None:
    image = os.environ.get("KUBEDRA_IMAGE")
    if image is None or importlib.util.find_spec("testcontainers") is None:
        pytest.skip("set KUBEDRA_IMAGE=kubedra:local, built from this tree, and install testcontainers")
    copied(project, "testcontainers")
    done = run(project, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_recipe_is_in_the_table_of_the_cookbook() -> None:
    pages = {page.name for page in COOKBOOK.glob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", (COOKBOOK / "index.md").read_text())) >= pages


@pytest.mark.parametrize("page", sorted(COOKBOOK.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_shows_every_source_file_of_its_project(page: Path) -> None:
    text = page.read_text()
    for name in set(re.findall(r"<!-- examples/([a-z-]+)/", text)):
        files = [
            file for file in (EXAMPLES / name).rglob("*") if file.suffix in (".py", ".go") and "__" not in str(file)
        ]
        assert not [file.name for file in files if f"examples/{file.relative_to(EXAMPLES)} -->" not in text]


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if (path / "README.md").exists()))
def test_the_readme_of_a_project_fits_on_a_screen(name: str) -> None:
    assert len((EXAMPLES / name / "README.md").read_text().splitlines()) <= 40
