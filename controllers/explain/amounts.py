"""Amounts of resources as people write them."""

from __future__ import annotations

from typing import Final

_BINARY: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def amount_text(resource: str, value: int) -> str:
    """`1.5` cores of 1500 thousandths; bytes in the largest unit that leaves no more than two decimals."""
    if resource == "cpu":
        return f"{value / 1000:g}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for size, unit in _BINARY:
            if value >= size and value * 100 % size == 0:
                return f"{value / size:g}{unit}"
    return str(value)
