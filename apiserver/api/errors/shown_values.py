"""Placeholders for the values that field errors show. Types import it: it must stay light."""

from __future__ import annotations

from typing import Final


class ShownValue:
    """A placeholder for the value that an error shows."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: The error shows no value.
OMITTED: Final = ShownValue("<omitted>")
