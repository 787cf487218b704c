"""Names that upstream keeps for configurations that are read from files."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["static_name_warnings"]

_SUFFIX: Final = ".static.k8s.io"


def static_name_warnings(obj: dict[str, Any]) -> list[str]:
    """What is said of an object with such a name."""
    if not obj["metadata"].get("name", "").endswith(_SUFFIX):
        return []
    text = f'names ending with "{_SUFFIX}" are reserved for static manifest-based configurations'
    return [f"metadata.name: {text} and cannot be managed via the API"]
