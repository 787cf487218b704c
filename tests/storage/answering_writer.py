"""A child that writes as fast as it can and says on standard output what was answered, until it is killed.

usage: answering_writer.py TARGET DURABILITY
"""

from __future__ import annotations

import asyncio
import os
import sys

from apiserver.storage import RevisionLog, Write, open_log


async def writer(log: RevisionLog, name: str) -> None:
    expected = 0
    for turn in range(10**6):
        deleted = bool(expected) and turn % 5 == 4
        record = await log.append(Write(f"a/{name}", b"%d" % turn + b"x" * 200, expected, deleted))
        expected = 0 if deleted else record.revision
        os.write(1, f"{record.revision} {record.key} {turn} {int(deleted)}\n".encode())


async def main(target: str, durability: str) -> None:
    log = await open_log(target, durability=durability)
    compacting = asyncio.create_task(compactor(log))
    await asyncio.gather(*(writer(log, f"{os.getpid()}-{number}") for number in range(8)))
    await compacting


async def compactor(log: RevisionLog) -> None:
    while True:
        await log.compact(max(log.revision - 50, log.compacted))
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
