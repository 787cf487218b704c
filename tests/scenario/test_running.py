"""Scenarios run on real control planes: what passes, what a failure prints, and what is left."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kubedra import Client, cli
from kubedra.pytest_plugin import Kube
from tests.scenario.test_checking import EXAMPLES
from tests.support.objects import pod_manifest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
POD = json.dumps(pod_manifest("web"))
PENDING = json.dumps(pod_manifest("web", nodeSelector={"zone": "moon"}))
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(kube: Kube, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run steps on the test's control plane. Return the exit code and the output."""

    def run(steps: str, *flags: str, head: str = "") -> tuple[int, str]:
        file = tmp_path / "s.yaml"
        file.write_text(f"{head}steps:\n{steps}")
        code = cli.main(["scenario", "run", str(file), f"--kubeconfig={kube.kubeconfig}", *flags])
        printed = capsys.readouterr()
        return code, (printed.out + printed.err).replace(f"{tmp_path}/", "")

    return run


@pytest.mark.timeout(300)
def test_the_examples_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    files = sorted(map(str, EXAMPLES.glob("*-*.yaml")))
    junit = tmp_path / "reports" / "junit.xml"
    driver = f"DRIVER={sys.executable} driver.py"
    code = cli.main(["scenario", "run", *files, f"--junit={junit}", "--set", driver])
    assert code == 0, capsys.readouterr().out
    suites = ET.parse(junit).getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == (str(len(files)), "0", "0")


def test_a_failed_wait_prints_its_line_the_reason_and_the_explanation(kube: Kube, run: Run, tmp_path: Path) -> None:
    kube.add_node("worker")
    junit = tmp_path / "junit.xml"
    steps = f"- apply: {PENDING}\n\n- wait: pod/web\n  until: phase=Running\n- delete: pod/web\n"
    code, printed = run(steps, f"--junit={junit}", "-v")
    assert code == 1
    lines = printed.splitlines()
    assert re.fullmatch(r"  ok      2  apply Pod/web  \d+\.\d\d s", lines[1])
    assert re.fullmatch(r"  FAIL    4  wait pod/web until phase=Running  \d+\.\d\d s", lines[2])
    assert re.match(
        r"s.yaml:4: pod/web will not reach phase=Running: FailedScheduling: 0/1 nodes are available: .*affinity/selector",
        lines[3],
    )
    assert "label node worker zone=moon (then it fits on worker)" in printed
    assert "Pod default/web: phase=Pending" in printed
    assert re.fullmatch(r"0 passed, 1 failed in \d+\.\d s", lines[-1])
    case = ET.parse(junit).getroot()[0][0]
    assert (case.get("name"), case[0].tag) == ("s", "failure")
    assert (case[0].get("message") or "").partition(": ")[2].startswith("pod/web will not reach phase=Running")
    assert "Pod default/web: phase=Pending" in (case.findtext("system-err") or "")


def test_the_results_as_json_have_every_step(run: Run) -> None:
    code, printed = run(f"- apply: {POD}\n- expect: pods\n  count: 2\n  within: 0s\n", "-o", "json")
    assert code == 1
    (result,) = json.loads(printed)
    assert (result["name"], result["passed"]) == ("s", False)
    assert [(step["line"], step["step"]) for step in result["steps"]] == [
        (2, "apply Pod/web"),
        (3, "expect pods count 2 within 0s"),
    ]
    assert result["steps"][1]["error"] == "found 1 pods, expected 2: default/web matches"


@pytest.mark.kube(clock="virtual")
def test_every_change_of_a_step_is_made(kube: Kube, run: Run) -> None:
    code, printed = run(
        f"""\
- addNode: worker
  devices: 2
  labels: {{zone: a}}
- apply: {POD}
- wait: [pod/web, node/worker]
  until: create
- wait: pod/web
  until: phase=Running
- label: pod/web
  with: {{app: web, count: 1}}
- annotate: node/worker
  with: {{kubedra.dev/lost-devices: gpu-1}}
- advance: 1s
- expect: resourceslices
  matches: {{spec: {{devices: [{{name: gpu-0}}]}}}}
- expect: resourceslices
  matches: {{spec: {{devices: [{{name: gpu-1}}]}}}}
  count: 0
- patch: pod/web
  subresource: status
  with: {{status: {{message: by hand}}}}
- expect: pod/web
  matches: {{metadata: {{labels: {{app: web, count: "1"}}}}, status: {{message: by hand}}, spec: {{nodeName: worker}}}}
- logs: pod/web
  contains: started
- explain: pod/web
  verdict: scheduled
- taint: worker
  with: broken=yes:NoSchedule
- cordon: node/worker
- expect: node/worker
  matches: {{spec: {{unschedulable: true, taints: [{{key: broken, value: "yes", effect: NoSchedule}}]}}}}
- untaint: worker
- uncordon: worker
- advance: 1s
- expect: node/worker
  matches: {{spec: {{taints: [{{key: broken}}]}}}}
  count: 0
- delete: pod/web
  gracePeriod: 0
- expect: pod/web
  count: 0
- apply: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a b}}}}
  fails: metadata.name
- requests: {{verb: delete, resource: pods, userAgent: kubedra}}
  count: 1
"""
    )
    assert code == 0, printed


@pytest.mark.kube(clock="virtual")
def test_a_scenario_goes_back_to_a_snapshot_and_begins_with_one(kube: Kube, run: Run, tmp_path: Path) -> None:
    steps = f"""\
- apply: {POD}
- snapshot: pending
  file: s.kubedra
- addNode: worker
- wait: pod/web
  until: phase=Running
- restore: pending
- expect: nodes
  count: 0
- expect: pod/web
  matches: {{status: {{phase: Pending}}}}
- addNode: other
- restore: s.kubedra
- expect: nodes
  count: 0
- restore: none.kubedra
  fails: no such file
"""
    code, printed = run(steps)
    assert code == 0, printed
    begin = tmp_path / "from.yaml"
    begin.write_text("plane: {from: s.kubedra, controllers: false}\nsteps:\n- expect: pod/web\n")
    assert cli.main(["scenario", "run", str(begin)]) == 0


def test_a_step_that_has_to_fail_and_does_not_is_a_failure(run: Run) -> None:
    assert "s.yaml:2: it did not fail; expected an error with 'no'" in run(f"- apply: {POD}\n  fails: 'no'\n")[1]
    text = run("- delete: pod/none\n  fails: other\n")[1]
    assert "s.yaml:2: it failed without 'other': pods \"none\" not found" in text


def test_faults_end_with_the_scenario_and_their_hits_can_be_checked(kube: Kube, run: Run) -> None:
    steps = """\
- fault: f
  match: {resource: configmaps, userAgent: "kubedra*"}
  status: 503
  retryAfter: 1s
  count: 5
- expect: configmaps
  fails: unable to handle
- fired: f
  count: 1
- fault: f
  fails: already injected
- clear: f
- expect: configmaps
  count: 0
  namespace: default
- fired: f
  count: 1
- fault: g
  match: {resource: configmaps}
  status: 500
"""
    code, printed = run(steps)
    assert code == 0, printed
    assert kube.list("configmaps", namespace="default") == []
    assert "s.yaml:2: no fault x is injected; injected: none" in run("- clear: x\n")[1]


def test_commands_have_the_kubeconfig_and_their_failures_the_output(run: Run) -> None:
    code, printed = run(
        '- run: \'test -f "$KUBECONFIG" && echo "$KUBEDRA_URL $MORE"\'\n  env: {MORE: 3}\n  output: " 3"\n'
    )
    assert code == 0, printed
    code, printed = run("- run: [sh, -c, 'echo first; echo second; exit 4']\n")
    assert code == 1
    assert "s.yaml:2: exit code 4, expected 0\n  first\n  second\n" in printed
    assert "s.yaml:2: no-such-program: no such file or directory" in run("- run: [no-such-program]\n")[1]
    code, printed = run("- start: process/p\n  command: echo hello\n  ready: never\n")
    assert "process/p ended with exit code 0\n  hello\n" in printed
    assert "did not end within 0.2 s" in run("- run: sleep 60\n  timeout: 200ms\n")[1]


def test_processes_end_with_the_scenario(run: Run, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; trap 'echo stopped > {tmp_path}/stopped; exit' TERM; echo ready; while :; do sleep 0.05; done"
    code, printed = run(
        f"- start: process/p\n  command: {json.dumps(script)}\n  ready: ready\n- kill: process/p\n- start: process/p\n"
    )
    assert code == 0, printed
    assert (tmp_path / "stopped").read_text() == "stopped\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_namespace_is_created_and_objects_stay_unless_the_server_is_reset(kube: Kube, run: Run) -> None:
    head = "namespace: team\n"
    for flags in ((), ("--reset",)):
        code, printed = run(f"- apply: {POD}\n- expect: pod/web\n  namespace: team\n", *flags, head=head)
        assert code == 0, printed
        assert [pod["metadata"]["namespace"] for pod in kube.list("pods", namespace="")] == ["team"]
        kube.create(pod_manifest("other"))
    assert run(f"- apply: {POD}\n", "--reset", "-q")[0] == 0
    assert [pod["metadata"]["name"] for pod in kube.list("pods", namespace="")] == ["web"]


@pytest.mark.kube(clock="virtual")
def test_a_drain_waits_for_budgets_and_names_the_pods_that_are_left(kube: Kube, run: Run) -> None:
    kube.add_node("worker")
    kube.apply([pod_manifest("web"), pod_manifest("free")])
    kube.patch("pod/web", {"metadata": {"labels": {"app": "web"}}})
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    kube.apply({**budget, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}})
    kube.wait("pod/web", "condition=Ready")
    code, printed = run("- drain: worker\n  timeout: 1m\n")
    assert code == 1
    message = "node/worker was not drained within 60 s; left are pods default/web: Cannot evict pod as it would violate the pod's disruption budget."
    assert message in printed
    assert [pod["metadata"]["name"] for pod in kube.list("pods")] == ["web"]
    kube.delete("poddisruptionbudget/b")
    assert [pod["metadata"]["name"] for pod in kube.drain("worker")] == ["web"]
    assert kube.get("node/worker")["spec"]["unschedulable"]


def test_a_control_plane_that_cannot_start_is_an_error_of_its_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text("plane: {flags: [--no-such-flag]}\nsteps:\n- apply: x.yaml\n")
    junit = tmp_path / "junit.xml"
    assert cli.main(["scenario", "run", str(tmp_path / "s.yaml"), f"--junit={junit}"]) == 1
    assert "unrecognized arguments: --no-such-flag" in capsys.readouterr().out
    assert ET.parse(junit).getroot().get("errors") == "1"


def test_the_control_plane_of_the_first_failure_can_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(
        f"plane: {{controllers: false}}\nsteps:\n- apply: {POD}\n- expect: pod/other\n  within: 0s\n"
    )
    assert cli.main(["scenario", "run", "--keep", "-q", str(tmp_path / "s.yaml")]) == 1
    printed = capsys.readouterr().out
    assert "s.yaml:4: pod/other does not exist\n" in printed
    ((kubeconfig, down),) = re.findall(r"export KUBECONFIG=(\S+)  # stop it with: kubedra (.+)", printed)
    with Client.from_kubeconfig(kubeconfig) as client:
        assert client.get("pod/web")
    assert cli.main(down.split()) == 0
