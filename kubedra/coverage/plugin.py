"""The pytest side of coverage: collects the hits of control planes, merges those of workers, and reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kubedra.client.client import ApiError
from kubedra.coverage.data import Coverage, Difference, find_difference, read_coverage
from kubedra.coverage.report import html_page, terminal_lines

if TYPE_CHECKING:
    from kubedra.plane.control_plane import ControlPlane

__all__ = ["FORMATS", "CoveragePlugin"]

#: The reports of `--kubedra-cov=…`.
FORMATS: Final = ("term", "term-missing", "html", "json")
#: The output of a worker of xdist, for the process that prints the summary.
_OUTPUT: Final = "kubedra_coverage"


class CoveragePlugin:
    """Registered with `--kubedra-cov`. `formats` are the reports, `directory` has their files."""

    def __init__(self, formats: list[str], directory: Path, fail_under: float | None) -> None:
        if unknown := [each for each in formats if each not in FORMATS]:
            raise pytest.UsageError(
                f"--kubedra-cov={unknown[0]}: use {', '.join(FORMATS)}; before a path write --kubedra-cov=term"
            )
        self._formats, self._directory, self._fail_under = formats, directory, fail_under
        self._coverage = Coverage()
        self._difference: Difference | None = None
        self._planes = 0
        self._problem = ""

    def collect(self, plane: ControlPlane) -> None:
        """Add the hits of a control plane that is about to stop."""
        try:
            with plane.client() as client:
                self._coverage.add(client.request("GET", "/-/coverage"))
        except (ApiError, OSError, RuntimeError) as error:
            self._problem = f"a control plane is missing: {error}"
        else:
            self._planes += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add the hits of a worker of xdist."""
        output = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if output is None:
            self._problem = f"worker {node.gateway.id} is missing: it crashed"
        else:
            self._coverage.add(output["hits"])
            self._planes += output["planes"]
            self._problem = self._problem or output["problem"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config = session.config
        if hasattr(config, "workeroutput"):
            config.workeroutput[_OUTPUT] = {
                "hits": self._coverage.hits, "planes": self._planes, "problem": self._problem,
            }  # fmt: skip
            return
        if not self._planes:
            return
        self._compare_and_save()
        if self._is_too_low() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _is_too_low(self) -> bool:
        # The printed percentage is what a threshold is compared with.
        return self._fail_under is not None and round(self._coverage.percent(), 2) < self._fail_under

    def _compare_and_save(self) -> None:
        """Compare with the run before, and write the reports."""
        data = self._directory / "coverage.json"
        try:
            before = read_coverage(data)
            self._difference = None if before is None else find_difference(self._coverage, before)
        except ValueError as error:
            self._problem = str(error)
        try:
            self._coverage.save(data)
            if "html" in self._formats:
                page = html_page(self._coverage, self._difference)
                (self._directory / "index.html").write_text(page)
            if "json" in self._formats:
                (self._directory / "report.json").write_text(json.dumps(self._to_json(), indent=2) + "\n")
        except OSError as error:
            self._problem = f"{error.filename}: {(error.strerror or str(error)).lower()}"

    def _to_json(self) -> dict[str, Any]:
        difference = self._difference or Difference([], [])
        return {
            "percent": round(self._coverage.percent(), 2),
            "hits": self._coverage.hits,
            "gained": [list(each) for each in difference.gained],
            "lost": [list(each) for each in difference.lost],
        }

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_sep("-", "kubedra coverage")
        if self._planes:
            if any(each.startswith("term") for each in self._formats):
                missing = "term-missing" in self._formats
                for line in terminal_lines(self._coverage, self._difference, missing=missing):
                    terminalreporter.write_line(line)
            if "html" in self._formats:
                terminalreporter.write_line(f"written to {self._directory / 'index.html'}")
            if "json" in self._formats:
                terminalreporter.write_line(f"written to {self._directory / 'report.json'}")
        else:
            terminalreporter.write_line("no test used a control plane")
        if self._problem:
            terminalreporter.write_line(f"kubedra coverage: {self._problem}", yellow=True)
        if self._planes and self._is_too_low():
            terminalreporter.write_line(
                f"FAIL: {self._coverage.percent():.2f}% reached, --kubedra-cov-fail-under requires"
                f" {self._fail_under:g}%",
                red=True,
            )
