"""Validate references of ingresses and their classes to objects of any kind."""

from __future__ import annotations

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.values.names import dns_subdomain, path_segment

__all__ = ["reference"]


def reference(path: Path, value: Json) -> list[FieldError]:
    """Validate the group, kind and name of a reference."""
    group = value.get("apiGroup")
    errors = [] if group is None else [invalid(path / "apiGroup", group, text) for text in dns_subdomain(group)]
    for field in ("kind", "name"):
        text = value.get(field, "")
        if not text:
            errors.append(required(path / field))
        errors += [invalid(path / field, text, wrong) for wrong in path_segment(text)]
    return errors
