"""Paths and field selectors of the API, built from names as users write them.

Facts: client-go (rest.Request: names are checked, then escaped), apimachinery (path segment names; fields.EscapeValue).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

#: Characters besides letters and digits that are not escaped in a segment, as in Go's net/url.
_KEPT = "-_.~$&+,:;=@"


def join_path(*segments: str) -> str:
    """Return the escaped path of these segments. Raises ValueError for a name that is invalid in a path."""
    return "".join(f"/{_escape_segment(segment)}" for segment in segments)


def group_path(api_version: str) -> Sequence[str]:
    """Return the segments of a group version: `apps/v1`, or `v1` of the core group."""
    return ("apis" if "/" in api_version else "api", *api_version.split("/"))


def field_selector(fields: Mapping[str, str]) -> str:
    """Return the selector of objects whose fields have these values."""
    return ",".join(f"{field}={_escape_value(value)}" for field, value in fields.items())


def _escape_segment(name: str) -> str:
    if name in {".", ".."}:
        raise ValueError(f"invalid resource name {name!r}: [may not be '{name}']")
    faults = [f"may not contain '{mark}'" for mark in "/%" if mark in name]
    if faults or not name:
        raise ValueError(f'invalid resource name "{name}": [{" ".join(faults) or "may not be empty"}]')
    return quote(name, safe=_KEPT)


def _escape_value(value: str) -> str:
    return value.replace("\\", r"\\").replace(",", r"\,").replace("=", r"\=")
