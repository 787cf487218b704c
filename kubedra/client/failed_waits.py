"""The text of a failed wait.

The reason comes first, then why the wait ended, then at most ten lines of the last status, then the last changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kubedra.client.conditions import conditions_of, describe_condition, mappings
from kubedra.runtime.objects import Json

#: Maximum lines of a status.
_LINES = 10
#: Maximum number of changed fields per change, and fields that follow from others.
_FIELDS = 3
_UNREMARKABLE = ("observedGeneration", "lastTransitionTime", "lastProbeTime", "metadata.generation")
#: Maximum length of a line of a status.
_WIDTH = 160


def describe_failed_wait(
    head: str, end: str, last: Json | None, warnings: Sequence[str], changes: Sequence[Json] = ()
) -> str:
    """Return the text of the error.

    `head` names object and condition, `end` is why the wait ended, `last` is the last state of the object (None if it
    does not exist), and `warnings` are the texts of its latest warning events, oldest first. `changes`
    are its last changes, oldest first (`Client.history`).
    """
    reason, *others = [*dict.fromkeys(reversed(warnings))] or [_find_reason(last)]
    lines = [f"{head}: {reason}" if reason else head, *others, *([end] if end else [])]
    return "\n".join([*lines, *describe_status(last), *describe_changes(changes)])


def _find_reason(last: Json | None) -> str:
    """Return the reason in an object's state, or ""."""
    if last is None:
        return "it does not exist"
    status = last.get("status")
    if not isinstance(status, dict):
        return ""
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            text = f": {waiting['message']}" if waiting.get("message") else ""
            return f"container {container.get('name')} waits: {waiting['reason']}{text}"
    bad = [describe_condition(condition) for condition in conditions_of(status) if condition["status"] != "True"]
    return next((text for text in bad if text.endswith(")")), "")


def _containers(status: Json) -> Iterator[Json]:
    for part in ("initContainerStatuses", "containerStatuses"):
        yield from mappings(status.get(part))


def describe_status(last: Json | None) -> list[str]:
    """Return a status in at most ten lines: scalars, then conditions, then the other fields in short form."""
    status = (last or {}).get("status")
    if not isinstance(status, dict) or not status:
        return [] if last is None else ["last status: none"]
    scalars = [key for key, value in status.items() if not isinstance(value, dict | list)]
    lines = [", ".join(f"{key}: {status[key]}" for key in scalars)] if scalars else []
    lines += [f"condition {describe_condition(condition)}" for condition in conditions_of(status)]
    lines += [
        f"{key}: {json.dumps(value)}" for key, value in status.items() if key not in scalars and key != "conditions"
    ]
    if (more := len(lines) - _LINES) > 0:
        lines = [*lines[: _LINES - 1], f"… and {more + 1} more lines"]
    return ["last status:", *(f"  {_shorten(line)}" for line in lines)]


def describe_changes(changes: Sequence[Json]) -> list[str]:
    """Return one line per change: time, verb, author and the first changed fields."""
    lines = []
    for change in changes:
        verb = " ".join(filter(None, (change["verb"], change["subresource"])))
        by = change["manager"] or change["userAgent"].partition("/")[0] or "unknown"
        fields = [field for field in change["fields"] or () if not field["path"].endswith(_UNREMARKABLE)]
        texts = [f"{field['path']}: {_value(field['old'])} → {_value(field['new'])}" for field in fields[:_FIELDS]]
        more = [f"{len(fields) - _FIELDS} more fields"] if len(fields) > _FIELDS else []
        lines.append(f"{change['time']} {verb} by {by}{': ' if texts else ''}{', '.join([*texts, *more])}")
    return [f"last {len(lines)} changes:", *(f"  {_shorten(line)}" for line in lines)] if lines else []


def _value(value: Any) -> str:
    if isinstance(value, dict) and "status" in value:
        return describe_condition({"type": "", **value}).removeprefix("=")
    return "none" if value is None else json.dumps(value)


def _shorten(line: Any) -> str:
    text = " ".join(str(line).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
