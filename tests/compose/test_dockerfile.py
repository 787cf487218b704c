"""The Dockerfile without an engine: its content, and a run of what it starts."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kubedra.kubeconfig.reader import read_kubeconfig
from kubedra.runtime import process
from tests.compose.composefile import KUBEDRA, NETWORK, ROOT
from tests.compose.conftest import run_a_pod
from tests.support.patience import CLOCK, ended, run_command, wait_until
from tests.support.requirements import closure
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

TEXT = re.sub(
    r"\\\n",
    " ",
    "\n".join(line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")),
)
INSTRUCTIONS = [(line.split(None, 1)[0], line.split(None, 1)[1].strip()) for line in TEXT.splitlines() if line.strip()]
#: Of the last stage: what the image is.
IMAGE = INSTRUCTIONS[max(n for n, (word, _) in enumerate(INSTRUCTIONS) if word == "FROM") :]
PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
)


def said(word: str) -> str:
    """Return the argument of an instruction that occurs once in the Dockerfile."""
    (found,) = [rest for name, rest in IMAGE if name == word]
    return found


def test_the_base_image_has_a_version_and_is_the_same_in_both_stages() -> None:
    assert ("ARG", "PYTHON=3.13-slim") in INSTRUCTIONS
    assert [rest for word, rest in INSTRUCTIONS if word == "FROM"] == ["python:${PYTHON} AS build", "python:${PYTHON}"]


def test_nothing_runs_as_root() -> None:
    assert said("USER").split(":")[0].isdigit()
    assert said("USER") != "0:0"
    assert IMAGE.index(("USER", said("USER"))) > max(n for n, (word, _) in enumerate(IMAGE) if word in ("RUN", "COPY"))


def test_what_is_copied_exists_and_is_sent_to_the_engine() -> None:
    ignore = (ROOT / ".dockerignore").read_text().split()
    sources = [
        name for word, rest in INSTRUCTIONS if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]
    ]
    assert {"kubedra", "apiserver", "controllers", "migrations", "openapi", "pyproject.toml"} <= set(sources)
    for name in sources:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore
    assert ignore[0] == "*"
    assert not [entry for entry in ignore if entry.startswith("!") and not fnmatch.filter(sources, entry[1:])]


def test_every_package_that_is_needed_is_fixed_to_a_version_that_the_project_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in (*project["dependencies"], *project["optional-dependencies"]["postgres"]):
        wanted = Requirement(text)
        assert wanted.specifier.contains(PINS[canonicalize_name(wanted.name)]), text


def test_what_builds_the_wheel_is_not_left_to_pip() -> None:
    (build,) = [rest for word, rest in INSTRUCTIONS if word == "RUN" and "pip wheel" in rest]
    assert "--no-build-isolation" in build
    assert all("--constraint constraints.txt" in part for part in build.split("&&") if "pip install" in part)


def test_what_those_packages_need_is_fixed_too() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, build = table["project"], table["build-system"]["requires"]
    image = {
        "python_version": "3.13",
        "python_full_version": "3.13.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
    }
    wanted = (*project["dependencies"], *project["optional-dependencies"]["postgres"], *build)
    assert closure(wanted, **image) <= set(PINS)


def test_the_image_starts_is_healthy_and_ends(tmp_path: Path) -> None:
    """Run the unchanged ENTRYPOINT, CMD and HEALTHCHECK on a directory as volume and a loopback address."""
    address, entry = f"{NETWORK}.200", json.loads(said("ENTRYPOINT"))
    assert entry == ["kubedra"]

    def mapped(words: list[str]) -> list[str]:
        return [re.sub(r"(?<![\w/])/data", str(tmp_path), word).replace("0.0.0.0", address) for word in words]

    command = json.loads(said("CMD"))
    at = command.index("--")
    command[at:at] = [f"--host={address}", f"--server=https://{address}:6443"]
    options, _, check = said("HEALTHCHECK").partition("CMD ")
    assert {"--interval", "--timeout", "--start-period", "--start-interval", "--retries"} == {
        o.partition("=")[0] for o in shlex.split(options)
    }
    started = CLOCK.seconds
    with (tmp_path / "log").open("w") as log:
        child = subprocess.Popen(
            [*KUBEDRA, *mapped(command)], env=process.environment(), cwd=tmp_path, stdout=log, stderr=log
        )
    try:
        asked = [*KUBEDRA, *mapped(json.loads(check)[1:])]

        def healthy() -> bool:
            assert child.poll() is None, (tmp_path / "log").read_text()
            return run_command(asked, env=process.environment()).returncode == 0

        wait_until(healthy, "the container is healthy")
        assert CLOCK.seconds - started < 10
        cluster = read_kubeconfig(tmp_path / "credentials" / "kubeconfig")
        wire = Wire(cluster.server, cluster.credentials.token, cluster.authority.decode())
        run_a_pod(wire, "p")
        assert wire.user("").get("/api/v1/pods").status == 403
    finally:
        child.terminate()
        code = ended(child)
    assert code == 0
    assert said("STOPSIGNAL") == "SIGTERM"
