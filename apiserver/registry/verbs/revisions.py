"""The revision in a read: parsing it, and waiting until the cache has reached it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.errors.status import StatusError, bad_request
from apiserver.api.values.numbers import parse_uint64
from apiserver.registry.store.store import WAIT_SECONDS
from apiserver.storage.log.types import FutureRevision

if TYPE_CHECKING:
    from apiserver.storage.watchcache.cache import Cache

__all__ = ["parse_version", "reached", "too_large"]


def too_large(revision: int, current: int, *, retry: bool = True) -> StatusError:
    """Return a 504 for a revision that the store has not reached.

    Upstream's watch cache sets a retry time, its storage does not.
    """
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    if not retry:
        return StatusError(504, "Timeout", message, {"causes": causes})
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}, (("Retry-After", "1"),))


def parse_version(text: str, *, cached: bool = True) -> int:
    """Parse the resourceVersion parameter of a get or watch.

    An invalid one is upstream's bare 500, or a 400 if no cache answers.
    """
    if not text:
        return 0
    try:
        return parse_uint64(text)
    except ValueError as error:
        message = f'resourceVersion: Invalid value: "{text}": {error}'
        raise (
            StatusError(500, "", message) if cached else bad_request(f"invalid resource version: {message}")
        ) from None


async def reached(cache: Cache, revision: int, *, cached: bool = True) -> None:
    """Wait until the cache has reached a revision."""
    if revision > cache.revision:
        try:
            await cache.wait_for(revision, WAIT_SECONDS)
        except FutureRevision as error:
            raise too_large(revision, error.bound, retry=cached) from None
