"""The tool that runs other projects' suites: its arguments, and what it makes of their reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools.field.__main__ import compare, describe, main
from tools.field.projects import read_projects
from tools.field.suites import Result, read_ginkgo_report, read_go_log, read_junit_report, run_project

LOG = """
=== RUN   TestSuite
Running Suite: Webhooks - /src/webhooks
--- PASS: TestSuite (1.20s)
=== RUN   TestParts
=== RUN   TestParts/first
=== RUN   TestParts/second
--- FAIL: TestParts (0.00s)
    --- PASS: TestParts/first (0.00s)
    --- FAIL: TestParts/second (0.00s)
=== RUN   TestOther
--- SKIP: TestOther (0.00s)
"""

#: Behaves as a compiled test of Go: lists Ginkgo's flags, and writes its report.
SUITE = f"""#!{sys.executable}
import json, os, pathlib, sys
if "-h" in sys.argv:
    sys.exit(print("  -ginkgo.json-report value", file=sys.stderr))
flags = dict(each.lstrip("-").split("=", 1) for each in sys.argv[1:] if "=" in each)
assets = pathlib.Path(os.environ["KUBEBUILDER_ASSETS"])
spec = {{"LeafNodeType": "It", "LeafNodeText": "starts", "State": "passed" if (assets / "etcd").exists() else "failed"}}
pathlib.Path(flags["ginkgo.json-report"]).write_text(json.dumps([{{"SpecReports": [spec]}}]))
print("=== RUN   TestSuite\\nRunning Suite: S - /\\n--- PASS: TestSuite (0.1s)")
"""


def test_functions_with_subtests_or_specs_are_not_counted_themselves() -> None:
    assert read_go_log(LOG) == {"TestParts/first": "passed", "TestParts/second": "failed", "TestOther": "skipped"}


def test_specs_are_named_by_their_containers_and_broken_preparations_count(tmp_path: Path) -> None:
    def spec(state: str, text: str = "works", kind: str = "It") -> dict[str, object]:
        return {"LeafNodeType": kind, "ContainerHierarchyTexts": ["a", "b"], "LeafNodeText": text, "State": state}

    specs = [spec("passed"), spec("timedout"), spec("pending", "later"), spec("panicked", "", "BeforeSuite")]
    report = tmp_path / "report.json"
    report.write_text(json.dumps([{"SpecReports": [*specs, spec("passed", "", "AfterSuite")]}]))
    assert read_ginkgo_report(report) == {
        "a b works": "passed", "a b works (again)": "failed", "a b later": "skipped", "BeforeSuite": "failed",
    }  # fmt: skip


def test_a_report_of_pytest_has_an_outcome_per_test(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = '<testcase classname="t" name="a"/><testcase classname="t" name="b"><failure/></testcase>'
    more = '<testcase classname="t" name="c"><skipped/></testcase><testcase classname="t" name="d"><error/></testcase>'
    report.write_text(f"<testsuites><testsuite>{cases}{more}</testsuite></testsuites>")
    assert read_junit_report(report) == {"t.a": "passed", "t.b": "failed", "t.c": "skipped", "t.d": "failed"}


def test_only_results_that_differ_are_listed() -> None:
    theirs = Result({"a": "passed", "b": "failed", "c": "passed"})
    ours = Result({"a": "passed", "b": "passed"}, 1.25)
    assert compare(theirs, ours) == [
        "b: failed on kube-apiserver, passed on kubedra",
        "c: passed on kube-apiserver, missing on kubedra",
    ]
    project = read_projects()["lws"]
    assert describe(project, "kubedra", ours) == "lws on kubedra: 2 passed, 0 failed, 0 skipped, 1.2 s"


@pytest.mark.integration
def test_a_compiled_suite_runs_with_kubedras_assets(tmp_path: Path) -> None:
    project = read_projects()["lws"]
    suite = project.suites[0]
    (tmp_path / suite).mkdir(parents=True)
    binary = tmp_path / f"{suite.strip('./').replace('/', '-')}.test"
    binary.write_text(SUITE)
    binary.chmod(0o755)
    result = run_project(project, tmp_path, tmp_path, "kubedra", [suite])
    assert result.outcomes == {f"{suite}: starts": "passed"}
    assert result.seconds > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nothing", "."], "nothing: no such project; known: "),
        (["lws", "missing"], "missing: no such directory"),
        (["lws", ".", "--suite", "./other"], "--suite ./other: lws has ./test/integration/webhooks"),
        (["lws", ".", "--beside"], "not on PATH: go, etcd, kube-apiserver, kube-controller-manager, kube-scheduler"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: list[str],
    error: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert error in capsys.readouterr().err
