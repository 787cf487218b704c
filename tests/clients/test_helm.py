"""Helm installs, upgrades, rolls back, tests and uninstalls the charts of examples/helm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.api.objects import Json
from kubedra import ApiError, Client, ControlPlane
from tests.clients.install import installed
from tests.support.patience import run_command

pytestmark = [pytest.mark.integration, pytest.mark.slow]

CHARTS = Path(__file__).parents[2] / "examples" / "helm"
KEEP = "helm.sh/resource-policy"


@dataclass(frozen=True, slots=True)
class Change:
    """The values of an upgrade, and the field that they change."""

    values: str
    target: str
    path: tuple[str | int, ...]
    before: Any
    after: Any
    #: Number of tests of the chart.
    tests: int = 0


def _replicas(target: str, before: int, values: str = "replicas=3", **more: Any) -> Change:
    return Change(values, target, ("spec", "replicas"), before, 3, **more)


CHANGES = {
    "custom-kind": Change("mode=exclusive", "domain/r", ("spec", "mode"), "shared", "exclusive"),
    "database": _replicas("statefulset/r", 2),
    "driver": Change(
        "version=2", "daemonset/r", ("spec", "template", "spec", "containers", 0, "image"),
        "registry.example.com/driver:1", "registry.example.com/driver:2", tests=1,
    ),
    "generated-secret": Change("user=root", "secret/r-login", ("data", "user"), "YWRtaW4=", "cm9vdA=="),
    "hooks": Change("schema=2", "configmap/r-schema", ("data", "version"), "1", "2", tests=1),
    "operator": Change("schedule=@daily", "cronjob/r", ("spec", "schedule"), "0 3 * * *", "@daily"),
    "umbrella": _replicas("deployment/r-worker", 1, "worker.replicas=3,cache.enabled=false"),
    "web": _replicas("deployment/r", 2, tests=1),
    "webhook": Change(
        "failurePolicy=Fail", "mutatingwebhookconfiguration/r", ("webhooks", 0, "failurePolicy"), "Ignore", "Fail"
    ),
    "with-library": Change("message=bye", "configmap/r", ("data", "message"), "hello", "bye"),
}  # fmt: skip


def helms() -> list[Path | None]:
    """Return the Helm on PATH and the installed ones; None if there is none."""
    on_path = shutil.which("helm")
    found = [Path(on_path).resolve()] if on_path else []
    return [*dict.fromkeys([*found, *(file.resolve() for file in installed("helm"))])] or [None]


@dataclass(slots=True)
class Helm:
    """A Helm whose releases are in one namespace."""

    file: Path
    namespace: str
    environment: dict[str, str] = field(repr=False)

    def attempt(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.file), *words, "--namespace", self.namespace]
        return run_command(command, env=self.environment, text=True)

    def run(self, *words: str) -> str:
        done = self.attempt(*words)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    def install(self, chart: str, *words: str) -> str:
        return self.run("install", "r", str(CHARTS / chart), "--create-namespace", "--wait", *words)

    def upgrade(self, chart: str, *words: str) -> str:
        return self.run("upgrade", "r", str(CHARTS / chart), "--wait", *words)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(
        nodes=1, devices="gpu.example.com", jobs_exit_after="1s", args=["--storage-class=standard"]
    ) as plane:
        yield plane


@pytest.fixture
def kube(plane: ControlPlane) -> Iterator[Client]:
    plane.reset()
    with plane.client() as client:
        yield client


def identify(param: object) -> str | None:
    return param.parent.name if isinstance(param, Path) else "none" if param is None else None


@pytest.fixture(params=helms(), ids=identify)
def helm(
    request: pytest.FixtureRequest, plane: ControlPlane, tmp_path: Path, record_property: Callable[[str, object], None]
) -> Helm:
    if request.param is None:
        pytest.skip("Helm is not there: ./dev clients")
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(tmp_path)}
    made = Helm(request.param, "charts", {name: each for name, each in environment.items() if "HELM_" not in name})
    record_property("client", f"Helm {made.run('version', '--template', '{{.Version}}').removeprefix('v')}")
    return made


def value(kube: Client, change: Change) -> Any:
    found: Any = kube.get(change.target, namespace="charts")
    for key in change.path:
        found = found[key]
    return found


def manifest(helm: Helm) -> list[Json]:
    return [each for each in yaml.safe_load_all(helm.run("get", "manifest", "r")) if each]


def is_there(kube: Client, obj: Json) -> bool:
    try:
        kube.get(f"{obj['kind'].lower()}/{obj['metadata']['name']}", namespace="charts")
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return True


def test_every_chart_is_tried() -> None:
    assert set(CHANGES) == {chart.parent.name for chart in CHARTS.glob("*/Chart.yaml")}


#: The charts that every Helm installs; one Helm installs all of them.
_FOR_ALL = ("custom-kind", "hooks", "web")


@pytest.mark.parametrize(
    ("helm", "chart"),
    [(file, chart) for n, file in enumerate(helms()) for chart in (CHANGES if n == 0 else _FOR_ALL)],
    indirect=["helm"],
    ids=identify,
)
def test_a_chart_is_installed_upgraded_rolled_back_tested_and_uninstalled(helm: Helm, kube: Client, chart: str) -> None:
    change = CHANGES[chart]
    helm.install(chart)
    assert value(kube, change) == change.before
    helm.upgrade(chart, "--set", change.values)
    assert value(kube, change) == change.after
    helm.run("rollback", "r", "1", "--wait")
    assert value(kube, change) == change.before
    assert helm.run("test", "r").count("Phase:          Succeeded") == change.tests
    history = json.loads(helm.run("history", "r", "--output", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]
    objects = manifest(helm)
    assert all(is_there(kube, each) for each in objects)
    helm.run("uninstall", "r", "--wait")
    kept = [each for each in objects if (each["metadata"].get("annotations") or {}).get(KEEP) == "keep"]
    assert [each for each in objects if is_there(kube, each)] == kept
    assert "not found" in helm.attempt("status", "r").stderr


def test_hooks_run_in_the_order_of_their_weights_before_the_objects_and_after(helm: Helm, kube: Client) -> None:
    helm.install("hooks")
    jobs = {each["metadata"]["name"]: each["status"] for each in kube.list("jobs", namespace="charts")}
    first, migrate, seed = (jobs[f"r-{name}"] for name in ("first", "migrate", "seed"))
    made = kube.get("configmap/r-schema", namespace="charts")["metadata"]["creationTimestamp"]
    assert first["completionTime"] <= migrate["startTime"]
    assert migrate["completionTime"] <= made <= seed["startTime"]


def test_a_generated_password_survives_upgrades_and_a_new_installation(helm: Helm, kube: Client) -> None:
    def password() -> str:
        return str(kube.get("secret/r-login", namespace="charts")["data"]["password"])

    helm.install("generated-secret")
    generated = password()
    helm.upgrade("generated-secret", "--set", "user=root")
    helm.run("uninstall", "r", "--wait")
    helm.install("generated-secret", *(["--take-ownership"] if "4." in helm.run("version", "--short") else []))
    assert password() == generated
    cluster = kube.get("configmap/r-cluster", namespace="charts")["data"]
    assert cluster == {"version": kube.request("GET", "/version")["gitVersion"], "allocation": "true", "nodes": "1"}


def test_notes_are_printed_and_a_schema_of_values_is_enforced(helm: Helm, kube: Client) -> None:
    assert "r has 2 replicas at http://r.charts.svc" in helm.install("web")
    wrong = helm.attempt("install", "w", str(CHARTS / "webhook"), "--set", "failurePolicy=Never")
    assert wrong.returncode != 0
    assert "failurePolicy" in wrong.stderr


def test_an_upgrade_that_does_not_get_ready_is_rolled_back(helm: Helm, kube: Client) -> None:
    missing = {"metadata": {"annotations": {"kubedra.dev/missing-images": "registry.example.com/web:2"}}}
    kube.patch("node/node-1", missing)
    helm.install("web")
    failed = helm.attempt(
        "upgrade", "r", str(CHARTS / "web"), "--atomic", "--timeout=3s", "--set=image=registry.example.com/web:2"
    )
    assert failed.returncode != 0
    assert "rolled back" in failed.stdout + failed.stderr
    (container,) = kube.get("deployment/r", namespace="charts")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/web:1"


def test_a_custom_resource_definition_stays_when_its_chart_is_uninstalled(helm: Helm, kube: Client) -> None:
    helm.install("custom-kind")
    helm.run("uninstall", "r", "--wait")
    assert kube.get("crd/domains.example.com")["spec"]["group"] == "example.com"
