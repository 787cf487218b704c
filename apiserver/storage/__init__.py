"""Store revisions of keys and serve lists and watches from memory.

Values are bytes; nothing here knows Kubernetes kinds.

Reading order: `log.types` (writes, rows, errors, the RevisionLog protocol) -> `watchcache` (what the server reads and
watches) -> `sqlite` and `postgres` (the two logs) -> `log.tables` and `log.schema` (their tables) ->
docs/adr/0002-revision-log.md.

    log = await open_log("sqlite:///var/lib/kubedra")     # also "memory:", "postgresql://user@host/database"
    caches = WatchCache(log, decode=orjson.loads)
    pods = caches.add("/registry/pods/")
    await caches.start()
    record = await log.append(Write("/registry/pods/default/a", b'{"metadata":{"name":"a"}}', expected=0))
    assert pods.get(record.key).revision == record.revision    # the feed runs before the write is answered

Only this package imports a database driver or sqlalchemy. It imports them when `open_log` needs them.
"""

from apiserver.storage.log.types import (
    Compacted,
    DamagedRow,
    Durability,
    Expired,
    FutureRevision,
    HistoryEvent,
    KeyExists,
    KeyMissing,
    Record,
    RevisionConflict,
    RevisionLog,
    RevisionUnavailable,
    Snapshot,
    StorageError,
    StorageFull,
    StorageUnavailable,
    UnusableDatabase,
    Write,
    WriteRefused,
)
from apiserver.storage.opening import open_log
from apiserver.storage.watchcache.cache import Cache, Cursor, Entry, Event, Listing
from apiserver.storage.watchcache.watchcache import WatchCache

__all__ = [
    "Cache",
    "Compacted",
    "Cursor",
    "DamagedRow",
    "Durability",
    "Entry",
    "Event",
    "Expired",
    "FutureRevision",
    "HistoryEvent",
    "KeyExists",
    "KeyMissing",
    "Listing",
    "Record",
    "RevisionConflict",
    "RevisionLog",
    "RevisionUnavailable",
    "Snapshot",
    "StorageError",
    "StorageFull",
    "StorageUnavailable",
    "UnusableDatabase",
    "WatchCache",
    "Write",
    "WriteRefused",
    "open_log",
]
