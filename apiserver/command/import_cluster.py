"""`kubedra import`: `kubedra.cluster_copy.importing` with a server in this process that writes the file."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson

from apiserver.api.values.times import timestamp
from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.options.settings import read
from apiserver.registry.catalog.adoption import Adoption
from apiserver.resources.coordination.leases import LEASES
from apiserver.runtime.clock import now
from apiserver.state.contents import build_header, render_item
from kubedra.archive.archive import write_archive
from kubedra.cluster_copy.importing import run
from kubedra.runtime.objects import Json


def main() -> int:
    """Run the command; return the exit code."""
    return run(sys.argv[1:], write_copy)


def write_copy(place: Path, objects: Sequence[Json]) -> Json:
    """Write a copy as a snapshot. Return its counts and refusals. Raise ArchiveError."""
    return asyncio.run(_write(place, objects))


async def _write(place: Path, objects: Sequence[Json]) -> Json:
    with tempfile.TemporaryDirectory() as directory:
        settings = read(["--storage=memory", "--etcd-compaction-interval=0", f"--data-dir={directory}"])
        server = await Server.open(settings)
        try:
            adopted = await Adoption(server.registry, server.catalog, ADMIN).store("", orjson.dumps(objects), 1)
            state = await server.log.state()
        finally:
            await server.close()
    release = ".".join(map(str, settings.features.release))
    fields = build_header(
        release=release, time=timestamp(now()), revision=state.revision, virtual=False, seed=None, meta={}
    )
    with write_archive(place, fields) as archive:
        for record in state.records:
            if not record.key.startswith(LEASES.prefix()):  # those of this process
                archive.write(render_item(record))
    return adopted.as_json()


if __name__ == "__main__":
    sys.exit(main())
