"""Runs under given schedules: what each action does to a program, and to nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kubedra import ApiError, AsyncClient, LoopControlPlane
from kubedra.exploration.forks import Outcome
from kubedra.exploration.schedule import FixedSchedule, RandomSchedule, parse
from kubedra.exploration.search import Explorer
from kubedra.runtime import process
from tests.exploration.controllers import MAPS, config_map

#: Runs a test on the module's control plane under the schedule of a text.
Run = Callable[[Callable[[LoopControlPlane], Awaitable[object]], str], Outcome]


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    explorer = Explorer(LoopControlPlane(controllers=False))
    explorer.open()
    yield explorer
    explorer.close()


@pytest.fixture
def run(explorer: Explorer) -> Run:
    def run(test: Callable[[LoopControlPlane], Awaitable[object]], text: str = "none") -> Outcome:
        async def bound() -> None:
            await test(explorer.kube)

        explorer.test = bound
        (outcome,) = explorer.outcomes([FixedSchedule(parse(text))])
        return outcome

    return run


def passed(outcome: Outcome) -> bool:
    assert not outcome.failed, outcome.trace
    return True


def now() -> float:
    return asyncio.get_running_loop().time()


def writer(results: list[Any]) -> Callable[[AsyncClient], Awaitable[object]]:
    """Return a program that creates one ConfigMap and notes the result with its time."""

    async def write(client: AsyncClient) -> None:
        results.append("began")
        try:
            await client.request("POST", MAPS, config_map("made"))
            results.append("made")
        except ApiError as error:
            results.append(error.code)
        except httpx.TransportError:
            results.append("broken")
        results.append(now())

    return write


@pytest.mark.parametrize(
    ("action", "expected", "exists"),
    [
        ("delay@2", ["began", "made", 2.0], True),
        ("late@2", ["began", "made", 2.0], True),
        ("error", ["began", 500, 0.0], False),
        ("throttle", ["began", 429, 0.0], False),
        ("unsent", ["began", "broken", 0.0], False),
        ("lost", ["began", "broken", 0.0], True),
        ("pause@2", ["began", "made", 2.0], True),
    ],
)
def test_a_request_meets_its_action(run: Run, action: str, expected: list[Any], exists: bool) -> None:
    async def test(kube: LoopControlPlane) -> None:
        results: list[Any] = []
        begin = now()
        kube.run("writer", writer(results))
        await kube.advance(seconds=10)
        assert [each - begin if isinstance(each, float) else each for each in results] == pytest.approx(expected)
        assert [each["metadata"]["name"] == "made" for each in kube.objects("configmaps")].count(True) == exists

    outcome = run(test, f"writer:create:configmaps#1={action}")
    assert passed(outcome)
    assert len(outcome.taken) == 1


def test_a_conflict_is_that_of_the_server(run: Run) -> None:
    async def test(kube: LoopControlPlane) -> None:
        await kube.create(config_map("x"))
        errors: list[str] = []

        async def update(client: AsyncClient) -> None:
            try:
                await client.request("PUT", f"{MAPS}/x", config_map("x", a="1"))
            except ApiError as error:
                errors.append(str(error))

        kube.run("w", update)
        await kube.advance(seconds=1)
        assert errors[0].startswith('Operation cannot be fulfilled on configmaps "x": the object has been modified')

    assert passed(run(test, "w:update:configmaps/x#1=conflict"))


@pytest.mark.parametrize(("action", "exists"), [("kill@20", True), ("kill-before@20", False)])
def test_a_killed_program_runs_no_line_and_starts_again(run: Run, action: str, exists: bool) -> None:
    async def test(kube: LoopControlPlane) -> None:
        lines: list[str] = []

        async def write(client: AsyncClient) -> None:
            lines.append("began")
            try:
                await client.request("POST", MAPS, config_map("made"))
            except ApiError as error:
                lines.append(error.reason)
            finally:
                lines.append("finally")

        kube.run("writer", write)
        await kube.advance(seconds=19)
        assert lines == ["began"]
        assert [each["metadata"]["name"] for each in kube.objects("configmaps")].count("made") == exists
        await kube.advance(seconds=2)
        assert lines == ["began", "began", *(["AlreadyExists"] if exists else []), "finally"]

    assert passed(run(test, f"writer:create:configmaps#1={action}"))


@pytest.mark.parametrize(
    ("action", "expected"), [("delay@15", ["a", "b"]), ("close", ["a", "closed"]), ("expired", ["a", "410"])]
)
def test_a_watch_is_late_or_ends_before_its_batch(run: Run, action: str, expected: list[str]) -> None:
    async def test(kube: LoopControlPlane) -> None:
        seen: list[str] = []

        async def watch(client: AsyncClient) -> None:
            try:
                async for event in client.watch(MAPS, timeout=60, fieldSelector="metadata.name!=kube-root-ca.crt"):
                    name = event["object"].get("metadata", {}).get("name")
                    seen.append(name if event["type"] == "ADDED" else "410")
            except httpx.TransportError:
                seen.append("closed")

        kube.run("w", watch)
        for name in ("a", "b"):
            await kube.create(config_map(name))
            await kube.advance(seconds=1)
        assert seen == (["a"] if action == "delay@15" else expected)
        await kube.advance(seconds=30)
        assert seen == expected

    assert passed(run(test, f"w:event:configmaps#2={action}"))


def test_a_step_of_a_task_comes_after_the_others(run: Run) -> None:
    def test_of(expected: list[str]) -> Callable[[LoopControlPlane], Awaitable[None]]:
        async def test(kube: LoopControlPlane) -> None:
            order: list[str] = []

            async def first() -> None:
                order.append("first")

            async def second() -> None:
                order.append("second")

            async def both(_: AsyncClient) -> None:
                await asyncio.gather(first(), second())

            kube.run("p", both)
            await kube.advance(seconds=1)
            assert order == expected

        return test

    plain = run(test_of(["first", "second"]), "none")
    assert passed(plain)
    point = next(point for point, _ in plain.visited if point.endswith("first#1"))
    assert passed(run(test_of(["second", "first"]), f"{point}=later"))


def test_the_tests_own_requests_are_not_disturbed(run: Run) -> None:
    async def test(kube: LoopControlPlane) -> None:
        await kube.create(config_map("x"))
        await kube.client("another").get("configmap/x")

    outcome = run(test, "none")
    assert passed(outcome)
    assert outcome.visited == []


def test_a_check_that_fails_after_a_write_fails_the_test(run: Run) -> None:
    async def test(kube: LoopControlPlane) -> None:
        def none_is_bad(kube: LoopControlPlane) -> None:
            assert all(each["metadata"]["name"] != "bad" for each in kube.objects("configmaps")), "bad exists"

        kube.always(none_is_bad)
        await kube.create(config_map("good"))
        await kube.create(config_map("bad"))
        await kube.advance(hours=1)

    assert run(test, "none").message.startswith("bad exists")


def test_an_exception_of_a_program_fails_the_test(run: Run) -> None:
    async def test(kube: LoopControlPlane) -> None:
        async def fail(_: AsyncClient) -> None:
            raise KeyError("the controller's own bug")

        kube.run("p", fail)
        await kube.advance(hours=1)

    assert run(test, "none").kind == "builtins.KeyError"


def test_a_test_that_never_ends_fails(run: Run) -> None:
    async def test(kube: LoopControlPlane) -> None:
        await asyncio.Event().wait()

    assert "did not end within" in run(test, "none").message


def test_clients_on_the_loop_connect_without_a_socket(run: Run) -> None:
    async def test(kube: LoopControlPlane) -> None:
        found: list[Any] = []

        async def ask(_: AsyncClient) -> None:
            async with httpx.AsyncClient(base_url=kube.url, timeout=5) as http:
                found.append((await http.post(MAPS, json=config_map("x"))).status_code)
                try:
                    await http.get(f"{MAPS}/x")
                except httpx.RemoteProtocolError:
                    found.append("closed")
                only = "fieldSelector=metadata.name%3Dx"
                async with http.stream("GET", f"{MAPS}?watch=true&timeoutSeconds=3600&{only}") as answer:
                    async for line in answer.aiter_lines():
                        found.append("event" if '"x"' in line else "other")
                        break

        kube.run("http", ask)
        await kube.advance(seconds=1)
        assert found == [201, "closed", "event"]

    assert passed(run(test, "http:get:configmaps/x#1=unsent"))


def test_the_same_schedule_gives_the_same_run(explorer: Explorer) -> None:
    async def test() -> None:
        kube = explorer.kube
        for name in ("one", "two"):
            kube.run(name, writer([]))
        await kube.advance(seconds=60)
        raise AssertionError(
            [(each["metadata"]["uid"], each["metadata"]["name"]) for each in kube.objects("configmaps")]
        )

    explorer.test = test
    first, again = [list(explorer.outcomes([RandomSchedule(number) for number in range(8)], 2)) for _ in range(2)]
    assert [(each.message, each.taken) for each in first] == [(each.message, each.taken) for each in again]
    fixed = list(explorer.outcomes(FixedSchedule(each.taken) for each in first))
    assert [each.message for each in fixed] == [each.message for each in first]


def test_a_package_that_hides_the_servers_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import kubedra; kubedra.LoopControlPlane.new_loop()"]
    (tmp_path / "apiserver").mkdir()
    (tmp_path / "apiserver" / "__init__.py").touch()
    path = os.pathsep.join((str(tmp_path), str(process.server_root())))
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path
    )
    last = found.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: an explored coroutine test runs kubedra's server in this process, but its package 'apiserver' is"
        f" hidden by {tmp_path / 'apiserver'}: rename that, or make the test a plain function"
    )


def test_a_run_that_hangs_is_killed(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang() -> None:
        while True:
            pass

    async def end() -> None:
        """End immediately."""

    explorer.test = hang
    monkeypatch.setattr("kubedra.exploration.forks._LIMIT", 0.2)
    (outcome,) = explorer.outcomes([FixedSchedule()])
    assert outcome.message == "the process of the run was killed after 0 s"
    monkeypatch.undo()
    explorer.test = end
    (outcome,) = explorer.outcomes([FixedSchedule()])
    assert passed(outcome)
