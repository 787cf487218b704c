"""Run a project's suites and read their reports."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tools.field.planes import control_plane, envtest_assets
from tools.field.projects import Project

#: A suite that does not end, because of a thread for example, is killed after this time.
_MINUTES: Final = 30
#: How long envtest waits for its servers.
_PATIENT: Final = {"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "5m", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT": "1m"}
#: Packages that replace those which start clusters.
_SHIMS: Final = Path(__file__).with_name("shims")
_RUN: Final = re.compile(r"^=== RUN +(\S+)")
_END: Final = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+)")
_OUTCOMES: Final = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
#: States of Ginkgo's reports; a pending spec is one that its project has switched off.
_STATES: Final = {"passed": "passed", "skipped": "skipped", "pending": "skipped"}


@dataclass(slots=True)
class Result:
    """The outcome of each test, by name, and the total time in seconds."""

    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def _of(self, outcome: str) -> list[str]:
        return [name for name, found in self.outcomes.items() if found == outcome]

    @property
    def passed(self) -> list[str]:
        return self._of("passed")

    @property
    def failed(self) -> list[str]:
        return self._of("failed")

    @property
    def skipped(self) -> list[str]:
        return self._of("skipped")


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one suite: the compiled tests of both servers, and the report and log of one."""

    binary: Path
    report: Path
    log: Path

    @classmethod
    def of(cls, work: Path, server: str, suite: str) -> Files:
        """Return the files of a suite; those of an earlier run are deleted, except the compiled tests."""
        name = re.sub(r"\W+", "-", suite).strip("-") or "root"
        found = cls(work / f"{name}.test", work / f"{name}-{server}.report", work / f"{name}-{server}.log")
        if found.report.is_file():
            found.report.unlink()
        return found

    def run(self, command: Sequence[str | Path], directory: Path, environment: Mapping[str, str]) -> float:
        """Run a command with its output in the log; return the seconds it took."""
        started = time.monotonic()
        with self.log.open("w") as log, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command, cwd=directory, env=environment, stdout=log, stderr=log, check=False, timeout=_MINUTES * 60
            )
        return time.monotonic() - started


def run_project(project: Project, checkout: Path, work: Path, server: str, only: list[str]) -> Result:
    """Run the suites of a project against a server; compiled tests, reports and logs are written to `work`."""
    result = Result()
    run = {"go": _run_go, "python": _run_pytest, "ansible": _run_ansible}[project.language]
    with _prepare(project, work, server) as environment:
        for suite in only or project.suites:
            found = run(project, suite, checkout, Files.of(work, server, suite), environment)
            result.seconds += found.seconds
            result.outcomes.update({f"{suite}: {test}": outcome for test, outcome in found.outcomes.items()})
    return result


@contextlib.contextmanager
def _prepare(project: Project, work: Path, server: str) -> Iterator[dict[str, str]]:
    """Start what the suites need; yield their environment."""
    if project.language == "go":
        assets = envtest_assets(work / f"assets-{server}", server)
        yield {**_PATIENT, **os.environ, **project.environment, "KUBEBUILDER_ASSETS": str(assets)}
        return
    with control_plane(work / f"plane-{server}", server) as kubeconfig:
        yield {**os.environ, **project.environment, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(_SHIMS)}


def _run_go(project: Project, suite: str, checkout: Path, files: Files, environment: Mapping[str, str]) -> Result:
    if not files.binary.exists():
        subprocess.run(["go", "test", "-c", "-vet=off", "-o", files.binary, suite], cwd=checkout, check=True)
    flags = subprocess.run([files.binary, "-h"], capture_output=True, text=True, check=False).stderr
    arguments = ["-test.v", f"-test.timeout={_MINUTES}m", *project.arguments]
    if "ginkgo.json-report" in flags:
        left_out = (f"--ginkgo.skip={re.escape(name)}" for name in project.left_out)
        arguments += [f"--ginkgo.json-report={files.report}", *left_out]
    result = Result(seconds=files.run([files.binary, *arguments], checkout / suite, environment))
    result.outcomes.update(read_go_log(files.log.read_text(errors="replace")))
    if files.report.exists():
        result.outcomes.update(read_ginkgo_report(files.report))
    return result


def read_go_log(text: str) -> dict[str, str]:
    """Return the outcomes of Go tests without subtests; functions that run Ginkgo's specs are left out."""
    found: dict[str, str] = {}
    ginkgo, running = set(), ""
    for line in text.splitlines():
        if match := _RUN.match(line):
            running = match[1]
        elif line.startswith("Running Suite: "):
            ginkgo.add(running)
        elif match := _END.match(line):
            found[match[2]] = _OUTCOMES[match[1]]
    parents = {name.rpartition("/")[0] for name in found}
    return {name: outcome for name, outcome in found.items() if name not in parents | ginkgo}


def read_ginkgo_report(report: Path) -> dict[str, str]:
    """Return the outcomes of specs, and of failed preparations of a suite."""
    found: dict[str, str] = {}
    for suite in json.loads(report.read_text()):
        for spec in suite.get("SpecReports") or ():
            outcome = _STATES.get(spec.get("State", ""), "failed")
            name = " ".join([*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText", "")])
            if spec.get("LeafNodeType") == "It":
                while name in found:
                    name += " (again)"
                found[name] = outcome
            elif outcome == "failed":
                found[spec["LeafNodeType"]] = outcome
    return found


def _run_pytest(project: Project, suite: str, checkout: Path, files: Files, environment: Mapping[str, str]) -> Result:
    left_out = (f"--deselect={name}" for name in project.left_out)
    command = ["python", "-m", "pytest", suite, f"--junitxml={files.report}", *left_out, *project.arguments]
    seconds = files.run(command, checkout, environment)
    return Result(read_junit_report(files.report) if files.report.exists() else {"report": "failed"}, seconds)


def _run_ansible(project: Project, suite: str, checkout: Path, files: Files, environment: Mapping[str, str]) -> Result:
    """Run one integration target of a collection; each task counts."""
    reports, collections = files.report, files.report.parent / "collections"
    shutil.rmtree(reports, ignore_errors=True)
    link = collections / "ansible_collections" / project.name.replace(".", "/")
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(checkout)
    targets = checkout / "tests" / "integration" / "targets"
    playbook = files.report.with_suffix(".yaml")
    playbook.write_text(
        json.dumps([{"connection": "local", "gather_facts": False, "hosts": "localhost", "roles": [suite]}])
    )
    more = {
        "ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_ROLES_PATH": str(targets), "K8S_AUTH_KUBECONFIG": environment["KUBECONFIG"],
        "ANSIBLE_CALLBACKS_ENABLED": "junit", "JUNIT_OUTPUT_DIR": str(reports), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    command: list[str | Path] = [
        "ansible-playbook",
        "-i",
        "localhost,",
        "-e",
        "ansible_python_interpreter={{ ansible_playbook_python }}",
        playbook,
    ]
    result = Result(seconds=files.run(command, targets, {**environment, **more}))
    for report in reports.glob("*.xml"):
        result.outcomes.update(read_junit_report(report))
    return result


def read_junit_report(report: Path) -> dict[str, str]:
    """Return the outcomes of a JUnit report."""
    found = {}
    for case in ET.parse(report).iter("testcase"):
        parts = {part.tag for part in case}
        outcome = "failed" if parts & {"failure", "error"} else "skipped" if "skipped" in parts else "passed"
        name = f"{case.get('classname')}.{case.get('name')}"
        while name in found:
            name += " (again)"
        found[name] = outcome
    return found
