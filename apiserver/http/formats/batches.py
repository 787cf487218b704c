"""The encoded events of a watch, shared by all watchers with the same view."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from apiserver.registry.store.results import WatchEvent
from apiserver.storage.watchcache.entry import Batch

__all__ = ["join_batch"]

#: A larger batch is joined again for each watcher instead of being cached until the next one.
_SHARED_BYTES: Final = 1024 * 1024


def join_batch(events: Sequence[WatchEvent], key: Hashable, make: Callable[[WatchEvent], bytes]) -> bytes:
    """Return the lines or frames of the events, joined.

    Each event is encoded once; a whole batch for several watchers is joined once.
    """
    forms = events.forms if isinstance(events, Batch) else {}
    whole: bytes | None = forms.get(key)
    if whole is None:
        parts = []
        for event in events:
            made = event.encodings.get(key)
            if made is None:
                made = event.encodings[key] = make(event)
            parts.append(made)
        whole = b"".join(parts)
        if len(whole) <= _SHARED_BYTES:
            forms[key] = whole
    return whole
