"""The common form of answers: what differs from run to run is replaced by names, everything else stays.

Uids, times, resource versions (equal ones stay equal), generated names, continue tokens, ages in tables, the
conversation's namespace and the addresses of its webhooks. A list's own resource version is `<now>`; descriptions of
table columns are left out.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
#: Letters of the shortest time.
_SHORTEST: Final = len("2006-01-02T15:04:05Z")
_AGE = re.compile(r"(\d+(ms|s|m|h|d|y))+|<unknown>|<invalid>")
_AGE_COLUMNS: Final = ("Age", "Last Seen", "First Seen")
#: Letters that a server appends to generateName.
_SUFFIX_LENGTH: Final = 5


class CommonForm:
    """The names that one conversation's values have got so far. Calling it gives an answer's common form."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._generated: dict[str, str] = {}
        self._places: dict[str, str] = {}

    def __call__(self, answer: Any) -> Any:
        self._note_generated_names(answer)
        return self.value(answer)

    def name_place(self, text: str, name: str) -> None:
        """Show `text` as `<name>` from now on."""
        self._places[text] = f"<{name}>"

    def text(self, text: str) -> str:
        text = text.replace(self._namespace, "<ns>")
        for place, name in self._places.items():
            text = text.replace(place, name)
        for generated in sorted(self._generated, key=len, reverse=True):
            text = text.replace(generated, self._generated[generated])
        if len(text) < _SHORTEST:
            return text
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"<uid#{len(self._uids) + 1}>"), text)
        return _TIME.sub("<time>", text)

    def value(self, value: Any, key: str = "") -> Any:
        match value:
            case dict():
                shown = _without_ages(value) if _is_table(value) else value
                return {self.text(name): self.value(item, name) for name, item in _as_of_now(shown).items()}
            case list():
                return [self.value(item) for item in value]
            case str() if key == "resourceVersion" and value.isdigit() and value != "0":
                return self._versions.setdefault(value, f"<rv#{len(self._versions) + 1}>")
            case str() if key == "continue" and value:
                return "<continue>"
            case str():
                return self.text(value)
        return value

    def _note_generated_names(self, value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                self._note_generated_names(item)
        elif isinstance(value, dict):
            metadata = value.get("metadata")
            if isinstance(metadata, dict):
                self._note_name(metadata.get("generateName"), metadata.get("name"))
            for item in value.values():
                self._note_generated_names(item)

    def _note_name(self, prefix: str | None, name: str | None) -> None:
        if not prefix or not name or not name.startswith(prefix) or len(name) != len(prefix) + _SUFFIX_LENGTH:
            return
        prefix, name = (text.replace(self._namespace, "<ns>") for text in (prefix, name))
        self._generated.setdefault(name, f"{prefix}<rand#{len(self._generated) + 1}>")


def _is_table(value: dict[str, Any]) -> bool:
    return value.get("kind") == "Table" and isinstance(value.get("rows"), list)


def _without_ages(table: dict[str, Any]) -> dict[str, Any]:
    """Ages replaced; where the columns are not said (later events of a watch), every cell that looks like one is."""
    columns = table.get("columnDefinitions")
    aging = {number for number, column in enumerate(columns or ()) if column.get("name") in _AGE_COLUMNS}

    def cell(number: int, content: Any) -> Any:
        may_age = number in aging or not columns
        return "<age>" if may_age and isinstance(content, str) and _AGE.fullmatch(content) else content

    rows = [
        {**row, "cells": [cell(number, content) for number, content in enumerate(row.get("cells") or ())]}
        for row in table["rows"]
    ]
    shown = {**table, "rows": rows}
    if columns:
        shown["columnDefinitions"] = [{k: v for k, v in column.items() if k != "description"} for column in columns]
    return shown


def _as_of_now(value: dict[str, Any]) -> dict[str, Any]:
    """Mask a list's or a table's own resource version; it counts writes of the whole database."""
    metadata = value.get("metadata")
    if (
        isinstance(metadata, dict)
        and metadata.get("resourceVersion")
        and str(value.get("kind", "")).endswith(("List", "Table"))
    ):
        return {**value, "metadata": {**metadata, "resourceVersion": "<now>"}}
    return value


def decode(raw: bytes, content_type: str | None) -> Any:
    """Decode a body: JSON if its type names JSON and it parses, else text."""
    if "json" in (content_type or ""):
        try:
            return json.loads(raw)
        except ValueError:
            pass
    return raw.decode(errors="replace")


def dig(value: Any, path: str) -> Any:
    """Return the value at a path `a.b.0.c`, or None. In a key, `~` stands for a dot."""
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(part.replace("~", "."))
        else:
            return None
    return value


def leave_out(value: Any, path: str) -> None:
    """Take the value at a path out of an answer; `*` stands for every item of a list. An item itself becomes None."""
    head, _, rest = path.partition(".")
    if isinstance(value, dict):
        key = head.replace("~", ".")
        if not rest:
            value.pop(key, None)
        elif key in value:
            leave_out(value[key], rest)
    elif isinstance(value, list):
        chosen = [int(head)] if head.isdigit() and int(head) < len(value) else []
        if chosen and not rest:
            value[chosen[0]] = None
        for number in range(len(value)) if head == "*" else chosen:
            leave_out(value[number], rest)


def in_any_order(answer: dict[str, Any]) -> dict[str, Any]:
    """Sort an answer's errors, warnings and field managers, which come in no order."""
    headers, body = answer["headers"], answer["body"]
    if "warning" in headers:
        headers["warning"] = ", ".join(sorted(headers["warning"].split(", ")))
    if not isinstance(body, dict):
        return answer
    if isinstance(body.get("message"), str):
        errors = body["message"].partition(" is invalid: ")[2] or body["message"]
        body["message"] = ", ".join(sorted(re.sub(r"[\[\]]", "", errors).split(", ")))
    causes = dig(body, "details.causes") or body.get("details.causes")
    if isinstance(causes, list):
        causes.sort(key=lambda cause: json.dumps(cause, sort_keys=True))
    managers = dig(body, "metadata.managedFields")
    if isinstance(managers, list):
        managers.sort(key=lambda m: [m.get(part, "") for part in ("manager", "operation", "subresource", "apiVersion")])
    return answer
