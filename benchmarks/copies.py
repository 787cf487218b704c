"""Seconds to import a cluster, to start from its file, and to replay a recorded hour.

    python -m benchmarks.copies [--nodes 100] [--pods 2000]

The source is a kubedra without components, with bound pods. The recording has one pod per node at the beginning, and
creates `--pods` pods of ten seconds over an hour.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apiserver.command.import_cluster import write_copy
from kubedra import ControlPlane
from kubedra.archive.archive import header, write_archive
from kubedra.cluster_copy.anonymize import anonymize
from kubedra.cluster_copy.collect import Selection, collect
from kubedra.cluster_copy.progress import Progress
from kubedra.cluster_copy.source import Source
from kubedra.cluster_copy.target import send
from kubedra.recording.changes import Change, ChangeType, format_time
from kubedra.recording.replaying import read_script, replay

Json = dict[str, Any]
BEGIN = datetime(2026, 11, 28, 12, tzinfo=UTC)
CREATED = "2026-11-28T11:00:00Z"


def node(index: int) -> Json:
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "500"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": CREATED, "lastTransitionTime": CREATED}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": f"node-{index}", "uid": f"node-{index}", "creationTimestamp": CREATED},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    }  # fmt: skip


def pod(index: int, on: str = "", *, ended: bool = False) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    state = {"terminated": {"startedAt": "2026-11-28T12:00:00Z", "finishedAt": "2026-11-28T12:00:10Z", "exitCode": 0}}
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": state}]} if ended else {}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": f"pod-{index}", "namespace": "default", "uid": f"pod-{index}", "creationTimestamp": CREATED,
            "labels": {"app": "load"},
        },
        "spec": {"containers": [container], **({"nodeName": on} if on else {})}, "status": status,
    }  # fmt: skip


def timed(what: str, since: float) -> None:
    print(f"{what:50} {time.perf_counter() - since:8.2f} s", flush=True)


def import_and_start(nodes: int, pods: int, directory: Path) -> None:
    place = directory / "copy.kubedra"
    objects = [node(index) for index in range(nodes)]
    objects += [pod(index, f"node-{index % nodes}") for index in range(pods)]
    with ControlPlane(controllers=False) as plane, plane.client() as client:
        begin = time.perf_counter()
        send(client, objects)
        timed(f"store {len(objects)} objects in a running server", begin)
        begin = time.perf_counter()
        copy = collect(Source(client), Selection(), Progress())
        timed(f"read {len(copy.objects)} objects", begin)
    begin = time.perf_counter()
    anonymize(copy.objects)
    timed("anonymize", begin)
    begin = time.perf_counter()
    write_copy(place, copy.objects)
    timed(f"write the file ({place.stat().st_size // 1024} KiB)", begin)
    begin = time.perf_counter()
    with ControlPlane(args=[f"--from={place}"]):
        timed("start from the file, until all nodes are Ready", begin)


def replay_hour(nodes: int, pods: int, directory: Path) -> None:
    place = directory / "hour.kubedra"
    pause = timedelta(hours=1) / pods
    with write_archive(place, header("recording", release="1.36", created=format_time(BEGIN))) as file:
        for index in range(nodes):
            file.write(Change(BEGIN, "STATE", node(index)).encode())
        for index in range(pods):
            at = BEGIN + index * pause
            lives: list[tuple[float, ChangeType, Json]] = [
                (0.0, "ADDED", pod(index)), (0.1, "MODIFIED", pod(index, f"node-{index % nodes}")),
                (10.0, "MODIFIED", pod(index, f"node-{index % nodes}", ended=True)),
            ]  # fmt: skip
            for delay, type_, obj in lives:
                file.write(Change(at + timedelta(seconds=delay), type_, obj).encode())
    begin = time.perf_counter()
    script = read_script(place)
    timed(f"read the recording ({place.stat().st_size // 1024} KiB)", begin)
    begin = time.perf_counter()
    result = replay(script)
    timed(f"replay {result.played} writes of one hour", begin)


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--nodes", type=int, default=100)
    flags.add_argument("--pods", type=int, default=2000)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        import_and_start(args.nodes, args.pods, Path(directory))
        replay_hour(args.nodes, args.pods, Path(directory))


if __name__ == "__main__":
    main()
