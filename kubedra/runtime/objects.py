"""The form of objects: JSON as dicts."""

from __future__ import annotations

from typing import Any

__all__ = ["Json"]

Json = dict[str, Any]
