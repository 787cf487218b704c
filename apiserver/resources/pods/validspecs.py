"""Cache valid pod specs.

All pods of a template have the same spec, and each write validates it again. The rules cost as much as the rest of a
small write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import orjson

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.objects import Json
from apiserver.api.values.bounded_cache import CHARACTERS
from apiserver.resources.pods.gates import PodGates

__all__ = ["MIRROR", "VALID_SPECS"]

MIRROR: Final = "kubernetes.io/config.mirror"


class ValidSpecs:
    """A cache of encoded specs, with limits on their number and total bytes. It is cleared when it is full."""

    __slots__ = ("_held", "_kept", "_most", "_room")

    def __init__(self, most: int = 2048, room: int = CHARACTERS) -> None:
        self._most, self._room, self._held = most, room, 0
        self._kept: set[bytes] = set()

    def judged(
        self, spec: Json, metadata: Json, gates: PodGates, judge: Callable[[], list[FieldError]]
    ) -> list[FieldError]:
        """Return the errors of a spec: none if it is cached, otherwise the result of `judge`."""
        text = _text_of(spec, metadata, gates)
        if text in self._kept:
            return []
        errors = judge()
        if not errors and 0 < len(text) <= self._room:
            self._held += len(text)
            if self._held > self._room or len(self._kept) >= self._most:
                self._kept.clear()
                self._held = len(text)
            self._kept.add(text)
        return errors


def _text_of(spec: Json, metadata: Json, gates: PodGates) -> bytes:
    """Encode everything that the rules depend on; empty if it cannot be encoded."""
    try:
        text = orjson.dumps(spec)
    except TypeError:  # an integer exceeds 64 bits
        return b""
    # The claims generated for volumes contain the pod's name.
    name = metadata.get("name", "") if text.find(b'"ephemeral":') >= 0 else ""
    mirror = MIRROR in (metadata.get("annotations") or ())
    return text + orjson.dumps((name, mirror, bool(metadata), *gates))


VALID_SPECS: Final = ValidSpecs()
