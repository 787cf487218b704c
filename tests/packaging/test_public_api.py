"""The public API: recorded, announced where it breaks callers, and typed for a project that uses it."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import kubedra
import kubedra.driver
from kubedra import Client, ControlPlane
from kubedra.client import options
from kubedra.client.clock import Clock
from kubedra.driver import Claim, Driver
from kubedra.driver.driver import RunOptions
from kubedra.pytest_plugin import _OWN_ONLY, Kube
from tests.support.patience import run_command
from tools import surface

ROOT = Path(__file__).parents[2]
ANNOUNCED = "# Changelog\n\n## Unreleased\n\n### Changed\n\n- `Client.get` takes `kind`.\n\n## 0.1.0\n"
SILENT = "# Changelog\n\n## Unreleased\n\n### Added\n\n- `Client.get`\n\n## 0.1.0\n\n### Changed\n\n- `Client.get`\n"
RECORDED = "class Client:\n    def get(self, target: str, *, namespace: str | None = None) -> Json: ...\n"

#: A program with every form of use that a type checker must accept.
USES = """
from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from kubedra import ApiError, AsyncClient, Client, ControlPlane
from kubedra.driver import Claim, Driver, Pool
from kubedra.pytest_plugin import Kube


class Gpus(Driver):
    name = "gpu.example.com"

    def pools(self, node: str) -> Mapping[str, Pool]:
        return {node: Pool.of([{"name": "gpu-0"}])}

    def prepare(self, claim: Claim) -> Mapping[str, Iterable[str]] | None:
        return {device: [f"vendor.com/gpu={device}"] for device in claim.devices}


@pytest.mark.kube(own=True, emulated_version="1.35")
def test_a_pod_runs(kube: Kube) -> None:
    kube.add_node("worker", devices=8, labels={"zone": "a"})
    kube.add_node("other", driver=Gpus(), plugin_dir="plugins")
    kube.apply("pod.yaml", force=True)
    node: str = kube.wait("pod/job", "phase=Running", timeout=3)["spec"]["nodeName"]
    names = [pod["metadata"]["name"] for pod in kube.list("pods", labelSelector="app=web")]
    assert node in names
    kube.advance(minutes=5)
    with kube.fault(resource="pods", status=409, count=1) as fault:
        assert fault.fired() + 1 == 1


def use(client: Client, plane: ControlPlane) -> str:
    try:
        return client.logs("pod/web", container="c")
    except ApiError as error:
        return f"{error.code} {plane.url}"


async def use_async(client: AsyncClient) -> int:
    return len(await client.list("pods")) + len((await client.get("pod/web", namespace="n"))["spec"])


Gpus().serve(node="n1", plugin_dir="plugins", kubeconfig="kubeconfig")
"""
#: Lines that a type checker must reject.
MISUSES = [
    'kube.wait("pod/job", "phase=Running", timeot=3)',
    "kube.fault(statuss=409)",
    'kube.fault(close="during")',
    "kube.advance(minuets=5)",
    'kube.delete("pod/job", grace_period="now")',
    'Driver().serve(plugin_dir="plugins")',
    "ControlPlane(node=2)",
]
MISUSE = (
    "from kubedra import ControlPlane\nfrom kubedra.driver import Driver\nfrom kubedra.pytest_plugin import Kube\n"
    "def use(kube: Kube) -> None:\n    " + "\n    ".join(MISUSES) + "\n"
)


def test_the_record_is_current() -> None:
    assert surface.RECORD.read_text() == surface.render(), "run python -m tools.surface --write"
    assert not surface.list_unannounced(surface.RECORD.read_text(), surface.render(), surface.CHANGELOG.read_text())


@pytest.mark.parametrize(
    ("current", "breaks"),
    [
        ("class Client:\n    def get(self, kind: str, *, namespace: str | None = None) -> Json: ...\n", True),
        ("class Client:\n    def get(self, target: str) -> Json: ...\n", True),
        ("class Client: ...\n", True),
        (RECORDED.replace("= None", "= None, more: int = 0"), False),
        (f"{RECORDED}    def put(self) -> None: ...\n", False),
    ],
    ids=["renamed", "parameter removed", "method removed", "optional parameter", "new method"],
)
def test_only_a_change_that_breaks_callers_must_be_announced(current: str, breaks: bool) -> None:
    assert bool(surface.list_unannounced(RECORDED, current, SILENT)) is breaks
    assert not surface.list_unannounced(RECORDED, current, ANNOUNCED)


def test_an_unannounced_break_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record, changelog = tmp_path / "api.txt", tmp_path / "CHANGELOG.md"
    monkeypatch.setattr(surface, "RECORD", record)
    monkeypatch.setattr(surface, "CHANGELOG", changelog)
    before = surface.render().replace("    def logs(", "    def read_logs(self) -> str: ...\n    def logs(")
    record.write_text(before)
    changelog.write_text(SILENT)
    assert surface.main(["--write"]) == 1
    assert "CHANGELOG does not announce it: Client.read_logs: " in capsys.readouterr().err
    assert record.read_text() == before
    changelog.write_text(ANNOUNCED.replace("Client.get", "read_logs"))
    assert surface.main(["--write"]) == 0
    assert surface.main(["--check"]) == 0


def parameters(function: Any) -> dict[str, str]:
    """Return the annotations of the keyword-only parameters."""
    found = inspect.signature(function).parameters.values()
    return {each.name: str(each.annotation) for each in found if each.kind is each.KEYWORD_ONLY}


def fields(kind: type) -> dict[str, str]:
    declared: dict[str, Any] = {}
    for base in (*getattr(kind, "__orig_bases__", ()), kind):
        if typing.is_typeddict(base):
            declared |= base.__annotations__
    hints = {name: getattr(hint, "__forward_arg__", str(hint)) for name, hint in declared.items()}
    return {name: re.sub(r"^Required\[(.*)\]$", r"\1", hint) for name, hint in hints.items()}


@pytest.mark.parametrize(
    ("kind", "method", "others"),
    [
        (options.ApplyOptions, Client.apply, set()),
        (options.CallFilters, Client.driver_calls, set()),
        (options.DeleteOptions, Client.delete, set()),
        (options.FaultOptions, Client.fault, set()),
        (options.LogOptions, Client.logs, set()),
        (options.PatchOptions, Client.patch, set()),
        (options.RequestFilters, Client.requests, set()),
        (options.WaitOptions, Client.wait, {"virtual"}),
        (options.IdleOptions, Clock.run_until_idle, set()),
        (options.NodeOptions, Client.add_node, {"devices", "slices", "labels", "jobs_exit_after"}),
        (options.ControlPlaneOptions, ControlPlane.__init__, {"attached"}),
        (RunOptions, Driver.run, set()),
    ],
)
def test_the_typed_options_are_the_parameters_of_the_method(kind: type, method: Any, others: set[str]) -> None:
    assert fields(kind) == {name: hint for name, hint in parameters(method).items() if name not in others}


def test_the_marker_takes_options_of_a_control_plane() -> None:
    assert fields(options.ControlPlaneOptions).keys() >= _OWN_ONLY


def test_every_public_name_has_words_and_no_untyped_options() -> None:
    text = surface.RECORD.read_text()
    assert not re.search(r"\*\*\w+: Any|\*\*\w+[,)]", text)
    for cls in (*(getattr(kubedra, name) for name in kubedra.__all__ if name != "__version__"), Kube, Claim, Driver):
        for name in dir(cls):
            if not name.startswith("_") and inspect.getmodule(value := getattr(cls, name)) is not None:
                assert inspect.getdoc(value), f"{cls.__name__}.{name}"


def test_the_fixture_takes_what_the_client_takes() -> None:
    for name in ("get", "events", "patch_status", "explain", "scale", "list", "create"):
        (_, *fixture), (_, *client) = (
            inspect.signature(getattr(of, name)).parameters.values() for of in (Kube, Client)
        )
        assert fixture == client, name


@pytest.mark.integration
def test_the_examples_of_the_packages_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}"
    Path("pod.yaml").write_text(pod)
    exec(_example(kubedra.__doc__), {})
    names: dict[str, Any] = {"Driver": Driver}
    driver = sys.modules["kubedra.driver.driver"].__doc__
    exec(_example(driver).partition("Gpus().serve")[0], names)
    claim = Claim("default", "1", "c", results=({"device": "gpu-0"},))
    assert names["Gpus"]().prepare(claim) == {"gpu-0": ["vendor.com/gpu=gpu-0"]}


def _example(text: str | None) -> str:
    """Return the indented block of a docstring."""
    return inspect.cleandoc("\n" + "\n".join(line for line in (text or "").split("\n")[1:] if not line[:1].strip()))


@pytest.mark.integration
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_project_that_uses_the_api_passes_a_type_checker(tmp_path: Path, checker: str) -> None:
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "misuse.py").write_text(MISUSE)
    found = _check(checker, tmp_path)
    first = 1 + MISUSE.split("\n").index(f"    {MISUSES[0]}")
    lines = {int(line) for line in re.findall(r"misuse\.py:(\d+)[:\d]* (?:- )?error", found)}
    assert lines == set(range(first, first + len(MISUSES))), found
    assert not re.search(r"uses\.py:\d+[:\d]* (- )?error", found), found


def _check(checker: str, project: Path) -> str:
    """Return the output of a type checker in strict mode."""
    files = ["uses.py", "misuse.py"]
    if checker == "mypy":
        pytest.importorskip("mypy")
        command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={project / 'cache'}", *files]
    else:
        program = shutil.which("pyright")
        if program is None:
            pytest.skip("no pyright on PATH (npm install -g pyright)")
        (project / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
        command = [program, "--pythonpath", sys.executable]
    done: subprocess.CompletedProcess[str] = run_command(command, cwd=project, text=True, seconds=110)
    return done.stdout + done.stderr
