"""The error of a patch that cannot be applied."""

from __future__ import annotations

__all__ = ["PatchError"]


class PatchError(ValueError):
    """A patch error: `text` is upstream's, `status` the HTTP status of upstream's answer."""

    def __init__(self, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.text, self.status = text, status
