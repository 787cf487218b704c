"""Specs of pods in which nothing was found: all pods of a template say the same, and each of them again with every
write, so that rules are asked once which cost as much as all else of a small write.
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
    """Kept as texts, so many of so many bytes in all; beyond that all are dropped."""

    __slots__ = ("_held", "_kept", "_most", "_room")

    def __init__(self, most: int = 2048, room: int = CHARACTERS) -> None:
        self._most, self._room, self._held = most, room, 0
        self._kept: set[bytes] = set()

    def judged(
        self, spec: Json, metadata: Json, gates: PodGates, judge: Callable[[], list[FieldError]]
    ) -> list[FieldError]:
        """What is wrong with a spec, as `judge` says unless it is known that nothing is."""
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
    """All that the rules look at; empty where that cannot be written."""
    try:
        text = orjson.dumps(spec)
    except TypeError:  # it has integers that do not fit
        return b""
    # Claims that are made for volumes have the pod's name in theirs.
    name = metadata.get("name", "") if text.find(b'"ephemeral":') >= 0 else ""
    mirror = MIRROR in (metadata.get("annotations") or ())
    return text + orjson.dumps((name, mirror, *gates))


VALID_SPECS: Final = ValidSpecs()
