"""Table cells that volumes and claims share."""

from __future__ import annotations

from typing import Final

from apiserver.api.helpers.storage_classes import class_of
from apiserver.api.objects import Json

__all__ = ["amount_text", "class_text", "modes_text", "phase_text", "unset"]


_SHORT: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def modes_text(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _SHORT.items() if mode in (modes or ()))


def phase_text(obj: Json) -> str:
    phase: str = (obj.get("status") or {}).get("phase", "")
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else phase


def class_text(obj: Json) -> str:
    return class_of(obj) or ""


def amount_text(amounts: Json | None) -> str:
    text: str = (amounts or {}).get("storage", "0")
    return text


def unset(value: str | None) -> str:
    return "<unset>" if value is None else value
