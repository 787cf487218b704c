"""The text of a failed wait has the reason first, and at most ten lines of the status."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.client.failed_waits import describe_failed_wait, describe_status

HEAD = "pod/web did not reach phase=Running within 30 s"


def test_the_latest_warning_is_the_reason_and_earlier_ones_follow() -> None:
    text = describe_failed_wait(HEAD, "the end", {"status": {"phase": "Pending"}}, ["Failed: old", "Failed: new"])
    assert text.splitlines() == [
        f"{HEAD}: Failed: new", "Failed: old", "the end", "last status:", "  phase: Pending",
    ]  # fmt: skip


def test_a_repeated_warning_is_shown_once() -> None:
    assert describe_failed_wait(HEAD, "", None, ["Failed: same", "Failed: same"]) == f"{HEAD}: Failed: same"


def waiting(reason: str, message: str = "") -> Json:
    return {"name": "c", "state": {"waiting": {"reason": reason, **({"message": message} if message else {})}}}


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (None, ": it does not exist"),
        ({}, ""),
        ({"status": "odd"}, ""),
        ({"status": {"containerStatuses": [waiting("ErrImagePull", "no")]}}, ": container c waits: ErrImagePull: no"),
        ({"status": {"initContainerStatuses": [waiting("Crashed")]}}, ": container c waits: Crashed"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "no GPU"}]}}, ": Ready=False (no GPU)"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, ""),
        ({"status": {"conditions": [{"type": "Ready", "status": "True", "message": "fine"}]}}, ""),
        ({"status": {"conditions": {"odd": 1}}}, ""),
    ],
)  # fmt: skip
def test_without_a_warning_the_object_itself_has_the_reason(last: Json | None, reason: str) -> None:
    assert describe_failed_wait(HEAD, "", last, []).splitlines()[0] == HEAD + reason


@pytest.mark.parametrize(("fields", "lines"), [(9, 10), (10, 11), (11, 11), (100, 11)])
def test_a_status_has_at_most_ten_lines(fields: int, lines: int) -> None:
    """The first line is the heading."""
    status: dict[str, Any] = {f"field{number}": {"deep": "x" * 1000} for number in range(fields)}
    found = describe_status({"status": status})
    assert len(found) == lines
    assert max(map(len, found)) < 170
    assert found[-1].startswith("  … and ") == (fields > 10)
