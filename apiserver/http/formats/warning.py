"""Warning headers: one for each text, in order, within the limits of clients and proxies.

Limits and the forms of the header are k8s.io/apiserver's (endpoints/filters/warning.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from unicodedata import category

_TOTAL: Final = 4 * 1024
_ITEM: Final = 256


def warning_headers(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Build the headers. Texts with control characters are dropped; every text is cut if the total is too long."""
    wanted = [text for text in dict.fromkeys(texts) if text and not any(category(letter) == "Cc" for letter in text)]
    if sum(map(len, wanted)) > _TOTAL:
        wanted = _truncate(wanted)
    return tuple(("Warning", f"299 - {_quote(text)}") for text in wanted)


def _truncate(texts: list[str]) -> list[str]:
    kept, written = [], 0
    for text in texts:
        if written >= _TOTAL:
            break
        kept.append(text[:_ITEM])
        written += len(kept[-1])
    return kept


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
