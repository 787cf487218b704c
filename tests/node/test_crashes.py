"""The agent is killed at each of its steps: at every write of its file and every call of a driver, before and after."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controllers.kubelet.dra.checkpoint import FileCheckpoint
from controllers.kubelet.dra.manager import DraError
from tests.node.test_dra_manager import GPU, NIC, Node, Scripted, pod
from tests.support.virtual import run

pytestmark = pytest.mark.integration

POD = pod("p", "a", "b")


class Killed(BaseException):
    """The agent is no more. Not an Exception: nothing that it could do about it would be done."""


class Steps:
    """Counts what the agent does, and kills it once, at a step."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.killed = False

    def step(self) -> None:
        if self._left == 0 and not self.killed:
            self.killed = True
            raise Killed
        self._left -= 1


class Remembering(Scripted):
    """A driver that knows what it has prepared, however its answer got lost."""

    def __init__(self, name: str, steps: Steps) -> None:
        super().__init__(name)
        self.prepared: set[str] = set()
        self._steps = steps

    async def _answer(self, method: str, claims: Any, fine: Callable[[str], Any]) -> Any:
        self._steps.step()
        answer = await super()._answer(method, claims, fine)
        for claim in claims:
            (self.prepared.add if method == "prepare" else self.prepared.discard)(claim.name)
        self._steps.step()
        return answer


def make_node(root: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Node, Steps]:
    steps, node = Steps(at), Node(root, GPU, NIC)
    node.drivers = {name: Remembering(name, steps) for name in (GPU, NIC)}
    node.claim("a", "p")
    node.claim("b", "p", drivers=(GPU, NIC))
    save = FileCheckpoint.save

    def watched(self: FileCheckpoint, infos: Any) -> None:
        steps.step()
        save(self, infos)
        steps.step()

    monkeypatch.setattr(FileCheckpoint, "save", watched)
    return node, steps


async def surviving(node: Node, work: Callable[[], Awaitable[None]]) -> None:
    """Does it, again after the agent was killed and came back."""
    try:
        await work()
    except Killed:
        node.restart()
        await work()


def prepared(node: Node) -> Iterator[str]:
    for driver in node.drivers.values():
        assert isinstance(driver, Remembering)
        yield from (f"{driver.name}/{name}" for name in sorted(driver.prepared))


def test_an_agent_killed_at_any_step_prepares_once_more_at_most_and_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(at: int) -> bool:
        root = tmp_path / str(at)
        root.mkdir()
        with monkeypatch.context() as patched:
            node, steps = make_node(root, at, patched)
            await surviving(node, lambda: node.manager.prepare(POD))
            assert list(prepared(node)) == [f"{GPU}/a", f"{GPU}/b", f"{NIC}/b"]
            assert node.held() == {"a": {"p-uid"}, "b": {"p-uid"}}
            calls = {name: sum(method == "prepare" for method, _ in node.get(name).calls) for name in (GPU, NIC)}
            assert all(number <= 1 + steps.killed for number in calls.values())
            devices = node.manager.container_devices(POD, POD["spec"]["containers"][0])
            assert len(devices) == 3

            async def end() -> None:
                if node.manager.might_need_unprepare("p-uid"):
                    await node.manager.unprepare(POD)

            await surviving(node, end)
            assert (list(prepared(node)), node.held()) == ([], {})
            return steps.killed

    killed = list(itertools.takewhile(bool, (run(lambda at=at: scenario(at)) for at in range(100))))
    assert len(killed) > 15, "each write and each call was a step"


def test_an_agent_killed_at_any_step_of_a_pod_that_is_gone_when_it_is_back_releases_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(at: int) -> bool:
        root = tmp_path / str(at)
        root.mkdir()
        with monkeypatch.context() as patched:
            node, steps = make_node(root, at, patched)
            try:
                await node.manager.prepare(POD)
            except Killed:
                node.restart()
            node.claims.clear()  # deleted with the pod
            await surviving(node, lambda: node.manager.release_lost(set()))
            assert (list(prepared(node)), node.held()) == ([], {})
            return steps.killed

    assert len(list(itertools.takewhile(bool, (run(lambda at=at: scenario(at)) for at in range(100))))) > 8


def test_a_claim_that_was_deleted_or_changed_meanwhile_is_released_as_it_was_prepared(tmp_path: Path) -> None:
    async def scenario(name: str, change: Callable[[Node], None]) -> None:
        root = tmp_path / name
        root.mkdir()
        node = Node(root, GPU, NIC)
        node.claim("a", "p")
        node.claim("b", "p")
        await node.manager.prepare(POD)
        change(node)
        node.restart()
        await node.manager.unprepare(POD)
        assert node.get(GPU).calls[-1] == ("unprepare", ["a", "b"])
        assert (node.get(NIC).calls, node.held()) == ([], {})

    run(lambda: scenario("deleted", lambda node: node.claims.clear()))
    run(lambda: scenario("changed", lambda node: node.claim("b", "q", drivers=(NIC,))))


async def test_a_claim_recreated_while_its_pod_starts_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    node = Node(tmp_path, GPU)
    node.claim("a", "p")
    node.claim("b", "p")
    node.get(GPU).next = [{"b": None}]  # nothing is said of b: the pod does not start
    with pytest.raises(DraError):
        await node.manager.prepare(POD)
    node.claim("b", "p", uid="another")
    with pytest.raises(DraError, match="old ResourceClaim with same name b and different UID b-uid"):
        await node.manager.prepare(POD)
    await node.manager.unprepare(POD)
    assert node.get(GPU).calls[-1] == ("unprepare", ["a", "b"])
    assert node.held() == {}
