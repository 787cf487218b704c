"""The conflicts of an apply with other managers' fields, and their message."""

from __future__ import annotations

import orjson

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import StatusError
from apiserver.registry.fields.managers import Manager
from apiserver.registry.fields.set import FieldSet, paths

__all__ = ["Conflicts"]


class Conflicts(Exception):
    """Fields of other managers that the configuration would change."""

    def __init__(self, found: dict[Manager, FieldSet]) -> None:
        self.found = found

    def refusal(self) -> StatusError:
        """Return the 409 that names each manager and field."""
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {_named_manager(key)}", "field": path}
            for key, fields in self.found.items() for path in paths(fields)
        ]  # fmt: skip
        if len(causes) == 1:
            message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            lines = []
            for key in sorted(self.found, key=_identifier):
                lines.append(f"conflicts with {_named_manager(key)}:")
                lines += [f"- {path}" for path in paths(self.found[key])]
            message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
        return StatusError(409, "Conflict", message, {"causes": causes})


def _named_manager(key: Manager) -> str:
    shown = go_quote(key.name)
    if key.subresource:
        shown += f" with subresource {go_quote(key.subresource)}"
    return f"{shown} using {key.version}" if key.operation == "Update" else shown


def _identifier(key: Manager) -> str:
    """Return the text by which upstream sorts managers."""
    parts = {"manager": key.name, "operation": key.operation, "apiVersion": key.version, "subresource": key.subresource}
    return orjson.dumps({name: value for name, value in parts.items() if value}).decode()
