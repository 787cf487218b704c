"""Why a patch cannot be applied."""

from __future__ import annotations

__all__ = ["PatchError"]


class PatchError(ValueError):
    """`text` is upstream's; `status` the HTTP status with which upstream answers it."""

    def __init__(self, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.text, self.status = text, status
