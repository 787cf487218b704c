"""The texts of histories and timelines, for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from apiserver.history.changes import Change, time_of
from apiserver.history.moments import format_time
from apiserver.history.timeline import Entry

__all__ = ["history_text", "timeline_text"]

#: Maximum length of a value of a field and of a detail.
_VALUE, _DETAIL = 100, 300
_TIME: Final = 24


def history_text(changes: Iterable[Change]) -> str:
    """Return each change as a line, followed by a line for each changed field."""
    return "\n".join(line for change in changes for line in _change_lines(change))


def _change_lines(change: Change) -> Iterator[str]:
    author = change.author
    verb = " ".join(filter(None, (author.verb, author.subresource)))
    names = [author.user and f"user {author.user}", author.manager and f"manager {author.manager}"]
    agent = author.agent if author.agent and author.agent != author.manager else ""
    who = ", ".join(filter(None, (*names, agent and f"agent {agent}"))) or "author unknown"
    gone = ", removed" if change.deleted else ""
    yield f"{format_time(time_of(change))}  revision {change.revision}  {verb}{gone}  {who}"
    if change.fields is None and not change.created and not change.deleted:
        yield "    first known state: earlier changes are compacted"
    for field in change.fields or ():
        yield f"    {field.path}: {_value(field.old)} → {_value(field.new)}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if part is not None}
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def timeline_text(title: str, entries: Sequence[Entry]) -> str:
    """Return a table: time, time spent in the stage, stage and detail."""
    width = max(len(entry.name) for entry in entries)
    lines = [title, f"{'TIME':{_TIME}}  {'SPENT':>11}  {'STAGE':{width}}  DETAIL"]
    for entry in entries:
        spent = "" if entry.seconds is None else f"{entry.seconds:.3f} s"
        detail = " ".join(entry.detail.split())
        detail = detail if len(detail) <= _DETAIL else f"{detail[: _DETAIL - 1]}…"
        lines.append(f"{format_time(entry.time)}  {spent:>11}  {entry.name:{width}}  {detail}".rstrip())
    return "\n".join(lines)
