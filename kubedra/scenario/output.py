"""The results of scenarios as text, JSON and JUnit XML."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from kubedra.runtime.objects import Json
from kubedra.scenario.cases import Case
from kubedra.scenario.runner import Result, StepResult

__all__ = ["TextReport", "to_json", "write_junit"]


class TextReport:
    """Prints cases and their steps as they run. `quiet` prints only failures and the summary."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet, self._verbose = quiet, verbose

    def begin(self, case: Case) -> None:
        if not self._quiet:
            self._print(f"{case.file}: {case}")

    def step(self, done: StepResult) -> None:
        if not self._quiet:
            self._print(f"  {'FAIL' if done.error else 'ok':4} {done.line:4}  {done.text}  {done.seconds:.2f} s")

    def end(self, result: Result) -> None:
        if result.passed:
            return
        self._print(result.error)
        if self._verbose and result.report:
            self._print(result.report)
        if result.kept:
            self._print(result.kept)

    def summary(self, results: Sequence[Result]) -> None:
        failed = [result for result in results if not result.passed]
        seconds = sum(result.seconds for result in results)
        text = f"{len(results) - len(failed)} passed" + (f", {len(failed)} failed" if failed else "")
        self._print(f"{text} in {seconds:.1f} s")

    @staticmethod
    def _print(text: str) -> None:
        print(text)
        sys.stdout.flush()


def to_json(results: Iterable[Result]) -> list[Json]:
    """Return the results as JSON."""
    return [
        {
            "file": str(result.case.file),
            "name": result.case.name,
            "variables": dict(result.case.variables),
            "passed": result.passed,
            "seconds": round(result.seconds, 3),
            "error": result.error,
            "report": result.report,
            "steps": [
                {"line": done.line, "step": done.text, "seconds": round(done.seconds, 3), "error": done.error}
                for done in result.steps
            ],
        }
        for result in results
    ]


def write_junit(file: Path, results: Sequence[Result]) -> None:
    """Write the results as JUnit XML: a test suite per file, a test case per combination of the matrix."""
    suites = ET.Element("testsuites", {"name": "kubedra scenario", **_counts(results)})
    for source in dict.fromkeys(result.case.file for result in results):
        of = [result for result in results if result.case.file == source]
        suite = ET.SubElement(suites, "testsuite", {"name": str(source), **_counts(of)})
        for result in of:
            suite.append(_test_case(result))
    ET.indent(suites)
    ET.ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)


def _counts(results: Sequence[Result]) -> dict[str, str]:
    errors = sum(result.no_start for result in results)
    failures = sum(not result.passed for result in results) - errors
    seconds = sum(result.seconds for result in results)
    return {
        "tests": str(len(results)), "failures": str(failures), "errors": str(errors), "time": f"{seconds:.3f}",
    }  # fmt: skip


def _test_case(result: Result) -> ET.Element:
    case = ET.Element("testcase", classname=str(result.case.file), name=str(result.case), time=f"{result.seconds:.3f}")
    if not result.passed:
        kind = "error" if result.no_start else "failure"
        message = result.error.splitlines()[0]
        ET.SubElement(case, kind, message=_printable(message)).text = _printable(result.error)
    lines = [f"{'FAIL' if done.error else 'ok'} {done.line} {done.text}" for done in result.steps]
    ET.SubElement(case, "system-out").text = _printable("\n".join(lines))
    if result.report:
        ET.SubElement(case, "system-err").text = _printable(result.report)
    return case


def _printable(text: Any) -> str:
    """Return a text without the control characters that XML forbids."""
    return "".join(char if char in "\t\n" or ord(char) >= 32 else "�" for char in str(text))
