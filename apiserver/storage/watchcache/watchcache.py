"""The watch cache of a server: one `Cache` per prefix (per resource), fed with the committed rows of its prefix.

`apiserver.storage.watchcache.cache` lists the invariants of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from apiserver.storage.log.types import Compacted, Record, RevisionLog, Snapshot
from apiserver.storage.watchcache.cache import Cache, RowConverter
from apiserver.storage.watchcache.entry import Decode
from apiserver.storage.watchcache.index import Terms
from apiserver.storage.watchcache.window import Progress

LOAD_ROWS = 5000
LOAD_SECONDS = 10.0
_ROUTES = 10_000


class WatchCache:
    """All caches of a server, fed by one log.

    `add` the known kinds, then `start`. Kinds can be added and removed later.
    """

    def __init__(self, log: RevisionLog, decode: Decode) -> None:
        self._log = log
        self._decode = decode
        self._progress = Progress(log.revision)
        self._caches: dict[str, Cache] = {}
        self._routes: dict[str, Cache | None] = {}
        self._loading: dict[Cache, list[Record]] = {}
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def revision(self) -> int:
        """The revision of the whole feed, which a bookmark of any resource may carry."""
        return self._progress.revision

    def retire(self, revision: int) -> None:
        """Drop past events up to a revision, except the newest few of each kind."""
        self._progress.retire(revision)

    def __getitem__(self, prefix: str) -> Cache:
        return self._caches[prefix]

    async def wait_for(self, revision: int, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Return once the caches have reached a revision; raise FutureRevision after `timeout` seconds."""
        await self._progress.wait_for(revision, timeout)

    def add(
        self, prefix: str, indexes: Mapping[str, Terms] | None = None, to_current: RowConverter | None = None
    ) -> Cache:
        """Add a cache for a prefix, which must end with "/". `to_current`: see `Cache`.

        After `start` the cache is empty until `load` completes.
        """
        if not prefix.endswith("/"):
            raise ValueError(f"a prefix ends with a slash, unlike {prefix!r}")
        cache = self._caches[prefix] = Cache(prefix, self._log, self._progress, self._decode, indexes or {}, to_current)
        self._routes.clear()
        self._loading[cache] = []
        return cache

    def remove(self, prefix: str) -> None:
        """Remove a prefix's cache and end its watches; the log is unchanged."""
        cache = self._caches.pop(prefix)
        self._loading.pop(cache, None)
        self._routes.clear()
        cache.close()

    async def start(self) -> None:
        """Subscribe to the log and load every added cache."""
        self._unsubscribe = self._log.subscribe(self._feed, self._replace)
        self._progress.advance(self._log.revision)
        await self.load(*self._caches.values())

    async def load(self, *caches: Cache) -> None:
        """Fill added caches with the state at the current revision, then with the rows that came meanwhile."""
        while True:
            revision = self.revision
            rows: dict[Cache, list[Record]] = {cache: [] for cache in caches}
            try:
                async for record in self._rows(caches[0].prefix if len(caches) == 1 else "", revision):
                    cache = self._route(record.key)
                    if cache in rows:
                        rows[cache].append(record)
                break
            except Compacted:  # another server compacted while the pages were read
                await self._progress.wait_for(await self._log.current_revision(), LOAD_SECONDS)
        for cache, records in rows.items():
            meanwhile = self._loading.pop(cache, None)
            if meanwhile is None:
                continue  # removed, or loaded by a snapshot of all
            cache.load(records, revision)
            for record in meanwhile:
                if record.revision > revision:
                    cache.apply(record)
            cache.wake()

    async def _rows(self, prefix: str, revision: int) -> AsyncIterator[Record]:
        start = ""
        while True:
            page = await self._log.state(prefix, revision, start=start, limit=LOAD_ROWS)
            for record in page.records:
                yield record
            if not page.remaining:
                return
            start = page.records[-1].key + "\0"

    def close(self) -> None:
        """End the subscription and all watches."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        for cache in self._caches.values():
            cache.close()

    def _feed(self, records: Sequence[Record]) -> None:
        touched: dict[Cache, None] = {}
        loading = self._loading
        for record in records:
            cache = self._route(record.key)
            if cache is None:
                continue
            if loading and cache in loading:
                loading[cache].append(record)
                continue
            try:
                cache.apply(record)
            except ValueError as error:  # not an object: it cannot be served, but later rows must arrive
                context = {"message": "a row of the revision log is unreadable", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
            touched[cache] = None
        self._progress.advance(records[-1].revision)
        for cache in touched:
            cache.wake()

    def _replace(self, snapshot: Snapshot) -> None:
        """Replace the contents of all caches, after rows were compacted before this server could read them."""
        self._progress.advance(snapshot.revision)
        self._loading.clear()
        rows: dict[Cache, list[Record]] = {cache: [] for cache in self._caches.values()}
        for record in snapshot.records:
            cache = self._route(record.key)
            if cache is not None:
                rows[cache].append(record)
        for cache, records in rows.items():
            cache.load(records, snapshot.revision)
            cache.wake()

    def _route(self, key: str) -> Cache | None:
        """Return the cache with the longest prefix of the key, memoized by the key's directory."""
        directory = key[: key.rfind("/") + 1]
        try:
            return self._routes[directory]
        except KeyError:
            pass
        prefix = directory
        while prefix and prefix not in self._caches:
            prefix = prefix[: prefix.rfind("/", 0, -1) + 1]
        if len(self._routes) >= _ROUTES:
            self._routes.clear()
        cache = self._routes[directory] = self._caches.get(prefix)
        return cache
