"""The examples of docs/howto are files that run, and the CI instructions work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.api.features.gates import Features
from kubedra.client.client import Client
from tests.support.patience import communicate, run_command
from tests.support.projects import EXAMPLES, GO, ROOT, copied, environment, run

pytestmark = pytest.mark.integration

HOWTO = ROOT / "docs" / "howto"
#: The pages of the features; those of contributors quote no examples.
PAGES = sorted([*HOWTO.glob("*.md"), *(HOWTO / "dra").glob("*.md"), *(ROOT / "docs" / "cookbook").glob("*.md")])
_QUOTED = re.compile(r"<!-- (part of )?((?:clients|examples|kubedra)/\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
_FENCED = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_quoted_example_is_the_file_or_a_part_of_it(page: Path) -> None:
    for part, name, text in _QUOTED.findall(page.read_text()):
        whole = (ROOT / name).read_text()
        assert text in whole if part else text == whole, name


def test_every_manifest_of_a_dra_feature_is_used_by_a_page_and_every_page_is_in_the_table() -> None:
    pages = {page.name: page.read_text() for page in (HOWTO / "dra").glob("*.md")}
    used = set(re.findall(r"examples/dra/(\S+\.yaml)", "".join(pages.values())))
    assert used == {manifest.name for manifest in (EXAMPLES / "dra").iterdir()}
    assert set(re.findall(r"\]\(dra/([^)#]+)", (HOWTO / "dra-features.md").read_text())) == set(pages)


def test_the_table_of_dra_features_has_every_gate_with_its_release() -> None:
    table = (HOWTO / "dra-features.md").read_text()
    gates = [name for name in Features().stages() if name.startswith("DRA") or name == "ResourceHealthStatus"]
    for gate in gates:
        on = next((f"1.{minor}" for minor in range(32, 37) if is_on(gate, minor)), "no release")
        assert re.search(rf"^\|.*`{gate}` *\| {re.escape(on)} ", table, re.MULTILINE), (gate, on)


def is_on(gate: str, minor: int) -> bool:
    return Features((1, minor)).stages().get(gate, ("", False))[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_unittest_project_passes(project: Path) -> None:
    copied(project, "unittest-project")
    done = run(project, sys.executable, "-m", "unittest", "-v")
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


def test_the_protocol_that_any_language_follows(project: Path) -> None:
    """The server prints one line of JSON when ready, ends when standard input ends, and leaves nothing."""
    command = re.search(r"^ +(kubedra serve .*)$", (HOWTO / "any-language.md").read_text(), re.MULTILINE)
    assert command
    child = subprocess.Popen(
        ["sh", "-c", f"exec {command[1]}"],
        cwd=project,
        env=environment(project, DIRECTORY=str(project / "data")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    announced = json.loads(child.stdout.readline())
    assert set(announced) == {"url", "kubeconfig", "pid", "token"}
    assert announced["url"] in Path(announced["kubeconfig"]).read_text()
    output, errors = communicate(child)
    assert (child.returncode, output) == (0, ""), errors


def test_a_server_that_cannot_start_ends_its_output_and_says_why(project: Path) -> None:
    done = run(project, "kubedra", "serve", "--port=0", "--announce", "--storage=nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_shell_suite_passes_and_leaves_nothing(project: Path) -> None:
    done = run(project, "bash", str(EXAMPLES / "shell" / "suite.sh"), env={"TMPDIR": str(project)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["ok", "node/worker created"]
    assert list(project.iterdir()) == []


@pytest.mark.timeout(500)
@pytest.mark.skipif(GO is None, reason="Go is not installed")
@pytest.mark.parametrize("module", ["clients/go", "examples/go-project"])
def test_the_go_module_and_the_project_that_uses_it_pass(project: Path, module: str) -> None:
    for name in ("clients/go", "examples/go-project"):
        shutil.copytree(ROOT / name, project / name)
    # The standard library is compiled first: as fast as the compiler can, whatever the result is like.
    settings = {
        "GOFLAGS": "-vet=off '-gcflags=all=-N -l -dwarf=false' -ldflags=-w",
        "CGO_ENABLED": "0",
        "GOGC": "400",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "GOCACHE": str(Path(sys.prefix) / "go-build"),  # compiled once for an environment
    }
    command = [str(GO), "-C", module, "test", "-count=1", "./..."]
    done = run(project, *command, seconds=450, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(1000)
@pytest.mark.skipif(GO is None, reason="Go is not installed")
def test_the_envtest_project_passes(project: Path) -> None:
    """It is compiled in a Go module that has controller-runtime among its packages, because none is installed here."""
    module = os.environ.get("KUBEDRA_CONTROLLER_RUNTIME")
    if not module:
        pytest.skip("not installed: controller-runtime; set KUBEDRA_CONTROLLER_RUNTIME=DIR, a Go module that has it")
    copied(project, "envtest-project")
    sources = [str(file) for file in sorted(project.glob("*.go"))]
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOPROXY": "off"}
    command = [str(GO), "test", "-vet=off", "-c", "-o", str(project / "tests"), *sources]
    done = run_command(command, cwd=Path(module), env=environment(project, **settings), text=True, seconds=900)
    assert done.returncode == 0, done.stderr
    assets = run(project, "kubedra", "envtest-assets", "assets").stdout.strip()
    patience = {"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "90s", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT": "90s"}
    done = run(project, "./tests", "-test.v", env={"KUBEBUILDER_ASSETS": assets, **patience})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("--- PASS") == 3


@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java development kit is installed")
def test_the_java_library_and_the_project_that_uses_it_pass_and_leave_nothing(project: Path) -> None:
    library = ROOT / "clients" / "java" / "src"
    tests = [EXAMPLES / "java-project" / "OperatorTest.java", library / "test/java/dev/kubedra/KubedraTest.java"]
    sources = ["-cp", str(library / "main/java"), "-Xlint:all", "-Werror"]
    compiled = run(project, "javac", *sources, "-d", "out", *map(str, tests))
    assert compiled.returncode == 0, compiled.stderr
    (project / "tmp").mkdir()
    for test in ("OperatorTest", "dev.kubedra.KubedraTest"):
        done = run(project, "java", f"-Djava.io.tmpdir={project / 'tmp'}", "-cp", "out", test)
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert not [path for path in (project / "tmp").iterdir() if path.name.startswith("kubedra-")]


def ci_documents() -> list[dict[str, Any]]:
    return [yaml.safe_load(text) for text in _FENCED.findall((HOWTO / "continuous-integration.md").read_text())]


def script(lines: list[str]) -> list[str]:
    return ["bash", "-c", "set -e\n" + "\n".join(lines)]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("job", ["pytest", "any-language"])
def test_the_github_jobs_steps_succeed(project: Path, job: str) -> None:
    """Each step runs in a shell of its own and gets what earlier ones wrote to GITHUB_ENV."""
    copied(project, "pytest-project")
    variables = project.parent / "env"
    variables.touch()
    for step in ci_documents()[0]["jobs"][job]["steps"]:
        if "run" in step:
            given = dict(line.split("=", 1) for line in variables.read_text().splitlines())
            done = run(project, *script([step["run"]]), env={"GITHUB_ENV": str(variables), **given})
            assert done.returncode == 0, f"{step['run']}: {done.stdout}{done.stderr}"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("job", ["pytest", "any-language"])
def test_the_gitlab_jobs_scripts_succeed(project: Path, job: str) -> None:
    copied(project, "pytest-project")
    told = ci_documents()[1][job]
    # One of its tests: GitHub's job runs all of them.
    fewer = {"PYTEST_ADDOPTS": "-k a_pod_gets_a_device"} if job == "pytest" else {}
    given = {name: value.replace("$CI_PROJECT_DIR", str(project)) for name, value in told.get("variables", {}).items()}
    for part in ("script", "after_script"):
        done = run(project, *script(told.get(part, ["true"])), env={**given, **fewer})
        assert done.returncode == 0, f"{part}: {done.stdout}{done.stderr}"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("inputs", "release", "nodes"),
    [({}, "v1.36", 2), ({"kubernetes-version": "1.34", "nodes": "1", "flags": "--devices=none -v"}, "v1.34", 1)],
)
def test_the_github_action_starts_a_control_plane(
    project: Path, inputs: dict[str, str], release: str, nodes: int
) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: field.get("default", "") for name, field in action["inputs"].items()} | inputs
    files = {name: str(project.parent / name) for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
    for step in action["runs"]["steps"]:
        env = {name: given[text[len("${{ inputs.") : -len(" }}")]] for name, text in step["env"].items()}
        done = run(project, *script([step["run"]]), env={**files, "RUNNER_TEMP": str(project.parent), **env})
        assert done.returncode == 0, done.stdout + done.stderr
    name, _, kubeconfig = Path(files["GITHUB_ENV"]).read_text().strip().partition("=")
    assert (name, f"kubeconfig={kubeconfig}\n") == ("KUBECONFIG", Path(files["GITHUB_OUTPUT"]).read_text())
    try:
        with Client.from_kubeconfig(kubeconfig) as client:
            assert client.request("GET", "/version")["gitVersion"].startswith(release)
            assert len(client.list("nodes")) == nodes
    finally:
        run(project, "kubedra", "down", f"--data-dir={Path(kubeconfig).parent}")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_gitlab_component_starts_a_control_plane(project: Path) -> None:
    spec, jobs = (ROOT / "templates" / "kubedra.yml").read_text().split("\n---\n")
    for name, field in yaml.safe_load(spec)["spec"]["inputs"].items():
        jobs = jobs.replace(f"$[[ inputs.{name} ]]", field["default"])
    job = yaml.safe_load(jobs)[".kubedra"]
    env = {name: (value or "").replace("$CI_PROJECT_DIR", str(project)) for name, value in job["variables"].items()}
    done = run(project, *script([*job["before_script"], 'kubedra health --kubeconfig "$KUBECONFIG"']), env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert run(project, *script(job["after_script"]), env=env).returncode == 0


def test_the_compose_page_names_services_variables_and_files_that_there_are(project: Path) -> None:
    page = (HOWTO / "docker-compose.md").read_text()
    text = (ROOT / "docker-compose.yml").read_text()
    services = yaml.safe_load(text)["services"]
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)) == set(services)
    assert set(re.findall(r"^\| `(KUBEDRA_\w+)` \|", page, re.MULTILINE)) == set(re.findall(r"\$\{(KUBEDRA_\w+)", text))
    for name, default in re.findall(r"^\| `(KUBEDRA_\w+)` \|.*\| `(.*)` \|$", page, re.MULTILINE):
        assert f"${{{name}:-{default}}}" in text
    for service, path in re.findall(r"exec -T (\w+) cat (\S+)", page):
        mounts = [volume.split(":")[1] for volume in services[service]["volumes"]]
        assert any(path.startswith(f"{mount}/") for mount in mounts)
        assert Path(path).name == "kubeconfig"
    done = run(project, "kubedra", "credentials", f"--dir={project}/made")
    assert done.returncode == 0
    assert (project / "made" / "kubeconfig").exists()
