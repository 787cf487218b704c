"""Resource amounts in the notation of manifests."""

from __future__ import annotations

from typing import Final

_BINARY: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def amount_text(resource: str, value: int) -> str:
    """Format an amount. CPU: millicores as cores, `1.5`. Bytes: the largest unit with at most two decimals, `1.5Gi`."""
    if resource == "cpu":
        return f"{value / 1000:g}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for size, unit in _BINARY:
            if value >= size and value * 100 % size == 0:
                return f"{value / size:g}{unit}"
    return str(value)
