"""Each change of the cluster lets kubedra's scheduler and a real one try equally many waiting pods with equal results.

Runs where a kube-scheduler of 1.36 is on PATH.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import PODS
from tests.scheduler.changesituations import Change, ChangingSituation, changes
from tests.scheduler.test_beside_kube_scheduler import CONTROLLERS, KUBE_SCHEDULER, ROUNDS, SEEDS, client_of, ours
from tests.scheduler.verdicts import items, pod_verdict, prepare
from tests.scheduler.world import bare
from tests.support.patience import Deadline, ended
from tests.support.ports import free_port
from tests.support.wire import Child

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(KUBE_SCHEDULER is None, reason="no kube-scheduler on PATH"),
    pytest.mark.timeout(600),
]
_ATTEMPTS = re.compile(r"^scheduler_schedule_attempts_total\{.*\} (\S+)$", re.MULTILINE)


class Beside(NamedTuple):
    """A server with a scheduler, and the number of its attempts."""

    client: Client
    attempts: Callable[[], Awaitable[int]]


class Step(NamedTuple):
    """The pods after a change, and the number of attempts that it caused."""

    pods: dict[str, Json]
    attempts: int


def _count_attempts(text: str) -> int:
    return sum(int(float(value)) for value in _ATTEMPTS.findall(text))


@asynccontextmanager
async def with_ours(directory: Path) -> AsyncIterator[Beside]:
    async with ours(directory) as client:

        async def attempts() -> int:
            _, _, body = await client.transport.request("GET", "/metrics", "", {}, b"")
            return _count_attempts(body.decode())

        yield Beside(client, attempts)


@asynccontextmanager
async def with_theirs(directory: Path) -> AsyncIterator[Beside]:
    assert KUBE_SCHEDULER is not None
    config, port = directory / "theirs.conf", free_port()
    with (
        Child(directory / "theirs", f"--controllers={CONTROLLERS}", f"--kubeconfig={config}"),
        (directory / "kube-scheduler.log").open("w") as log,
    ):
        command = [KUBE_SCHEDULER, "--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={directory}",
                   "--authorization-always-allow-paths=/metrics", "--leader-elect=false", "--kube-api-qps=5000",
                   "--kube-api-burst=5000", f"--kubeconfig={config}"]  # fmt: skip
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220 - it does not wait
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        try:
            async with client_of(config) as client, httpx.AsyncClient(verify=unchecked) as reader:

                async def attempts() -> int:
                    return _count_attempts((await reader.get(f"https://127.0.0.1:{port}/metrics")).text)

                deadline = Deadline()
                while True:
                    try:
                        await attempts()
                        break
                    except httpx.ConnectError:
                        assert not deadline.passed, "kube-scheduler does not answer"
                        await asyncio.sleep(0.1)
                yield Beside(client, attempts)
        finally:
            process.terminate()
            ended(process)


#: The number of equal polls after which a cluster is idle, and the number while a pod is nominated: kube-scheduler
#: polls the volumes of such a pod once per second.
_STILL, _STILL_BINDING = 3, 20


async def _wait_idle(beside: Beside) -> Step:
    """Wait until the cluster is idle."""
    last, same, enough = None, 0, _STILL
    while same < enough:
        pods = {pod["metadata"]["name"]: pod_verdict(pod) for pod in await items(beside.client, PODS, "ns")}
        now = Step(pods, await beside.attempts())
        same = same + 1 if now == last else 0
        last = now
        binding = any(pod["nominated"] and not pod["node"] for pod in pods.values())
        enough = _STILL_BINDING if binding else _STILL
        await asyncio.sleep(0.1)
    assert last is not None
    return last


async def _make(client: Client, change: Change) -> None:
    """Make a change. A rejected change is none."""
    namespace = "ns" if change.kind.namespaced else ""
    try:
        if change.verb == "create":
            assert change.body is not None
            await client.create(change.kind, bare(change.body))
        elif change.verb == "delete":
            await client.delete(change.kind, change.name, namespace)
        else:
            assert change.body is not None
            await client.patch(change.kind, change.name, change.body, namespace, subresource=change.subresource)
    except StatusError:
        return


async def _play(beside: Beside, changing: ChangingSituation) -> list[Step]:
    await prepare(beside.client, changing.situation)
    steps = []
    before = (await _wait_idle(beside)).attempts
    for number in range(len(changing.situation.pods) + len(changing.changes)):
        if number < len(changing.situation.pods):
            await beside.client.create(PODS, bare(changing.situation.pods[number]))
        else:
            await _make(beside.client, changing.changes[number - len(changing.situation.pods)])
        now = await _wait_idle(beside)
        steps.append(Step(now.pods, now.attempts - before))
        before = now.attempts
    return steps


def _same(found: list[Step], expected: list[Step], changing: ChangingSituation, what: str) -> tuple[int, list[str]]:
    """Compare the steps until a pod went to another, equally good node.

    Return the number of compared steps, and a description of each with a different number of attempts.
    """
    others: list[str] = []
    for number, (mine, other) in enumerate(zip(found, expected, strict=True)):
        for name in mine.pods.keys() & other.pods.keys():
            nodes = mine.pods[name]["node"], other.pods[name]["node"]
            if nodes[0] and nodes[1] and nodes[0] != nodes[1]:
                return number, others
        done = number - len(changing.situation.pods)
        after = changing.changes[done] if done >= 0 else changing.situation.pods[number]["metadata"]["name"]
        assert mine.pods == other.pods, f"{what}, step {number}, after {after}"
        if mine.attempts != other.attempts:
            others.append(f"{what}, step {number}, after {after}: {mine.attempts} instead of {other.attempts}")
    return len(found), others


async def test_a_change_lets_both_schedulers_retry_the_same_pods(tmp_path: Path) -> None:
    compared = 0
    others: list[str] = []
    async with with_ours(tmp_path) as mine, with_theirs(tmp_path) as real:
        for seed in SEEDS:
            changing = changes(random.Random(seed))
            found, expected = await asyncio.gather(*(_play(each, changing) for each in (mine, real)))
            for each in (mine, real):
                await each.client.request("POST", "/-/reset", "", None)
            steps, more = _same(found, expected, changing, f"seed {seed}")
            compared += steps
            others += more
    assert compared >= 8 * ROUNDS
    # The claim of a deleted pod is freed later. A scheduler may try a waiting pod in between.
    assert len(others) <= compared / 50, "\n".join(others)
