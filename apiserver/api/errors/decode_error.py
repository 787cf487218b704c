"""The error of a body that cannot be decoded."""

from __future__ import annotations

__all__ = ["DecodeError"]


class DecodeError(ValueError):
    """The body cannot be decoded; the text is upstream's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
