"""Hits of control planes are merged, compared and reported; the known behaviours are those of the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apiserver.admission.plugins.registered import BUILT
from apiserver.http.sinks.behaviours import EVENTS, SCHEDULING
from apiserver.http.sinks.coverage import CATEGORIES as RECORDED
from apiserver.http.sinks.coverage import REFUSING, split_reasons
from kubedra.coverage.data import CATEGORIES, Coverage, find_difference, read_coverage
from kubedra.coverage.report import html_page, terminal_lines

ROOT = Path(__file__).resolve().parents[2]
_EVENT = re.compile(r'"(?:Normal|Warning)",\s*"([A-Z][A-Za-z]+)"')
_REASON = re.compile(r'"((?:node\(s\)|Insufficient|Too many|cannot allocate|pod has unbound)[^"{}\[\]]*)"')


def sources(directory: str) -> str:
    return "\n".join(file.read_text() for file in sorted((ROOT / directory).rglob("*.py")))


def of(**hits: dict[str, int]) -> Coverage:
    coverage = Coverage()
    coverage.add(hits)
    return coverage


def test_the_known_behaviours_are_those_of_the_components() -> None:
    assert set(EVENTS) == set(_EVENT.findall(sources("controllers"))) - {"Warning"}
    reasons = {reason.strip() for reason in _REASON.findall(sources("controllers/scheduler"))} - {"Insufficient"}
    assert set(SCHEDULING) == reasons | {"scheduled", "unschedulable", "preempted"}
    assert set(REFUSING) <= set(BUILT)
    assert set(RECORDED) == set(CATEGORIES)


@pytest.mark.parametrize(
    ("message", "reasons"),
    [
        (
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). no new claims to deallocate.",
            ["Insufficient cpu", "node(s) had untolerated taint(s)"],
        ),
        ("0/1 nodes are available: 1 cannot allocate all claims.", ["cannot allocate all claims"]),
        ("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.", ["pod has unbound immediate PersistentVolumeClaims"]),
        ("no nodes available to schedule pods", []),
    ],
)  # fmt: skip
def test_reasons_of_unschedulable_pods_are_counted_without_numbers(message: str, reasons: list[str]) -> None:
    assert split_reasons(message) == reasons


def test_hits_of_several_control_planes_are_added() -> None:
    coverage = of(kinds={"pods": 2, "nodes": 0})
    coverage.add({"kinds": {"pods": 1, "nodes": 0, "secrets": 1}, "faults": {"latency": 0}})
    assert (coverage.reached("kinds"), coverage.missed("kinds")) == (["pods", "secrets"], ["nodes"])
    assert coverage.hits["kinds"]["pods"] == 3
    assert coverage.percent() == pytest.approx(100 * (2 / 3 + 0) / 2), "the mean of two categories"
    coverage.add({"causes": {"pods spec: FieldValueInvalid": 1}})
    assert coverage.percent() == pytest.approx(100 / 3), "rejected fields have no known total"


def test_a_run_is_compared_with_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "coverage.json"
    assert read_coverage(file) is None
    of(kinds={"pods": 2, "nodes": 1}).save(file)
    before = read_coverage(file)
    assert before is not None
    now = of(kinds={"pods": 1, "nodes": 0}, faults={"latency": 1})
    difference = find_difference(now, before)
    assert (difference.gained, difference.lost) == ([("faults", "latency")], [("kinds", "nodes")])
    lines = [*terminal_lines(now, difference)]
    assert lines[-2:] == ["new: injected faults: latency", "no longer reached: kinds: nodes"]
    assert [*terminal_lines(now, find_difference(now, now))][-1] == "as in the run before"
    assert [path.name for path in file.parent.iterdir()] == ["coverage.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "hits": {}}'])
def test_another_file_is_one_line_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "coverage.json").write_text(text)
    with pytest.raises(ValueError, match=r"^\S+coverage.json: [^\n]+$"):
        read_coverage(tmp_path / "coverage.json")


def test_the_terminal_shows_what_was_never_reached_first_of_all() -> None:
    coverage = of(rejections={"Conflict": 0, "NotFound": 2}, kinds={f"kind-{n:02}": 0 for n in range(20)})
    lines = [*terminal_lines(coverage, None)]
    assert lines[:2] == ["rejection reasons                 1 of    2    50%", "    never: Conflict"]
    assert lines[2].startswith("kinds ")
    assert lines[-2].endswith("; … 12 more")
    full = [*terminal_lines(coverage, None, missing=True)]
    assert [line for line in full if "kind-" in line] == [f"    never: kind-{n:02}" for n in range(20)]


def test_the_page_needs_no_other_file_and_escapes_names() -> None:
    coverage = of(events={'<b>"x"': 1}, faults={"latency": 0})
    page = html_page(coverage, find_difference(coverage, of()))
    assert "&lt;b&gt;&quot;x&quot;" in page
    assert '<b>"x"' not in page
    assert not re.search(r"(src|href)=|@import|https?:", page)
    assert '<tr class=miss data-name="latency">' in page
