"""The tool that runs Kubernetes' end-to-end specs: its arguments, and what it makes of a suite's reports."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tools.e2e import MISSING_IMAGES, build_command, main, read_report, read_specs

pytestmark = pytest.mark.integration

#: Records its arguments and the nodes' annotations. A spec of Jobs passes only on its second run.
SUITE = f"""#!{sys.executable}
import json, pathlib, sys
from kubedra import Client
flags = dict(flag.split("=", 1) for flag in sys.argv[1:])
calls = pathlib.Path(__file__).with_name("calls.json")
earlier = json.loads(calls.read_text()) if calls.exists() else []
nodes = Client.from_kubeconfig(flags["--kubeconfig"]).list("nodes")
images = [node["metadata"]["annotations"]["kubedra.dev/missing-images"] for node in nodes]
calls.write_text(json.dumps([*earlier, {{"images": images, **flags}}]))
specs = []
for text in pathlib.Path(__file__).with_name("specs").read_text().splitlines():
    passed = "Job" not in text or earlier
    specs.append({{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-apps]"], "LeafNodeText": text,
                  "State": "passed" if passed else "failed"}})
pathlib.Path(flags["--ginkgo.json-report"]).write_text(json.dumps([{{"SpecReports": specs}}]))
"""
MATCH = r"^\[sig-apps\] (Job should delete a job|ReplicaSet should list and delete a collection of ReplicaSets) "


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    found = tmp_path / "e2e.test"
    found.write_text(SUITE)
    found.chmod(0o755)
    specs = [name.removeprefix("[sig-apps] ") for name in read_specs(MATCH)]
    (tmp_path / "specs").write_text("\n".join(specs))
    return found


@pytest.mark.slow
def test_specs_that_fail_run_again_where_commands_run(
    suite: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(suite), f"--kubectl={sys.executable}", "--match", MATCH, "--report", str(tmp_path / "reports")]
    assert main(arguments) == 0
    assert capfd.readouterr().out.endswith("2 of 2 specs pass\n")
    first, second = json.loads((tmp_path / "calls.json").read_text())
    assert first["images"] == [MISSING_IMAGES] * 3
    assert (first["--provider"], first["--kubectl-path"]) == ("skeleton", sys.executable)
    assert ("ReplicaSet" in first["--ginkgo.focus"], "ReplicaSet" in second["--ginkgo.focus"]) == (True, False)
    assert {file.name for file in (tmp_path / "reports").iterdir()} == {"emulated.json", "run.json"}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--match", "no such spec"], "--match no such spec: no spec in docs/data/e2e.json matches"),
        (["--match", "("], "--match (: missing )"),
        (["--kubectl", "/no/kubectl"], "--kubectl /no/kubectl: no such program"),
        (["--kubect", "x"], "unrecognized arguments: --kubect"),
    ],
)
def test_invalid_arguments_start_nothing(
    suite: Path, more: list[str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(suite), f"--kubectl={sys.executable}", *more])
    assert ended.value.code == 2
    assert problem in capfd.readouterr().err


def test_a_missing_suite_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["/no/e2e.test"])
    assert "/no/e2e.test: no such program" in capfd.readouterr().err


def test_all_specs_of_the_page_are_chosen_exactly() -> None:
    specs = read_specs("")
    assert len(specs) == 241
    command = build_command(Path("/e2e.test"), Path("/kubectl"), Path("/config"), specs, Path("/report"))
    [focus] = [part for part in command if part.startswith("--ginkgo.focus=")]
    pattern = re.compile(focus.removeprefix("--ginkgo.focus="))
    assert all(pattern.search(name) for name in specs)
    assert not pattern.search(f"{specs[0]} and more")


def test_skipped_specs_count_neither_way(tmp_path: Path) -> None:
    states = ("passed", "failed", "skipped", "timedout")
    specs = [{"LeafNodeType": "It", "LeafNodeText": state, "State": state} for state in states]
    specs.append({"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed"})
    report = tmp_path / "report.json"
    report.write_text(json.dumps([{"SpecReports": specs}]))
    assert read_report(report) == {"passed": True, "failed": False, "timedout": False}
    with pytest.raises(ValueError, match="the suite wrote no report"):
        read_report(tmp_path / "none")
