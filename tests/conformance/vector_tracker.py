"""Slice tracker vectors: slices with the taints of DeviceTaintRules."""

from __future__ import annotations

import json
from typing import Any

from controllers.resourceclaims import SliceChange, SliceTracker
from tests.conformance.vectors import Case, Difference, Skipped, expect


def handle(case: Case) -> Skipped | str | None:
    """Replay the events one group after the other; then compare with the slices made from the final objects."""
    expected = case["expected"]
    tracker = SliceTracker()
    changes = [_apply(tracker, event) for group in case["eventGroups"] for event in group]
    outcomes = [expected["patchedSlices"], *expected["patchedSlicesAlternatives"]]
    _among("slices after the events", _by_name(tracker), outcomes)
    fresh = SliceTracker()
    for item in case["finalSlices"]:
        fresh.upsert_slice(item)
    for rule in case["finalRules"]:
        fresh.upsert_rule(rule)
    _among("slices from the final objects", _by_name(fresh), outcomes)
    if expected["notifications"] is not None:
        _compare_changes(changes, list(expected["notifications"]))
    return None


def _apply(tracker: SliceTracker, event: dict[str, Any]) -> list[SliceChange]:
    item = event["new"] or event["old"]
    deleted = event["event"] == "delete"
    if item["kind"] == "ResourceSlice":
        return tracker.remove_slice(item["metadata"]["name"]) if deleted else tracker.upsert_slice(item)
    if item["kind"] == "DeviceTaintRule":
        return tracker.remove_rule(item["metadata"]["name"]) if deleted else tracker.upsert_rule(item)
    return []


def _by_name(tracker: SliceTracker) -> list[dict[str, Any]]:
    return [item for _, item in sorted(tracker.slices.items())]


def _among(what: str, got: Any, outcomes: list[Any]) -> None:
    if _text(got) not in [_text(outcome or []) for outcome in outcomes]:
        raise Difference(f"{what}: got {got!r}, want {outcomes[0]!r}")


def _compare_changes(changes: list[list[SliceChange]], want: list[dict[str, Any]]) -> None:
    """Compare changes; those that follow from one event have no order."""
    for group in changes:
        expected, want = want[: len(group)], want[len(group) :]
        got = sorted(_text({"old": change.old, "new": change.new}) for change in group)
        expect("notifications", got, sorted(_text({"old": item["old"], "new": item["new"]}) for item in expected))
    expect("notifications left", want, [])


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
