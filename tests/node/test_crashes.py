"""The agent is killed before and after every write of its file and every call of a driver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controllers.kubelet.dra.checkpoint import FileCheckpoint
from controllers.kubelet.dra.manager import DraError
from tests.node.test_dra_manager import GPU, NIC, Node, ScriptedDriver, pod

pytestmark = pytest.mark.integration

POD = pod("p", "a", "b")


class Killed(BaseException):
    """The agent is killed. Not an Exception, so that no handler of the agent catches it."""


class Steps:
    """Counts the steps of the agent, and kills it at one of them."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.killed = False

    def step(self) -> None:
        if self._left == 0 and not self.killed:
            self.killed = True
            raise Killed
        self._left -= 1


class StatefulDriver(ScriptedDriver):
    """A driver that knows its prepared claims even if its answer got lost."""

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


def make_mortal_node(root: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Node, Steps]:
    root.mkdir()
    steps, node = Steps(at), Node(root, GPU, NIC)
    node.drivers = {name: StatefulDriver(name, steps) for name in (GPU, NIC)}
    node.claim("a", "p")
    node.claim("b", "p", drivers=(GPU, NIC))
    save = FileCheckpoint.save

    def count_save(self: FileCheckpoint, infos: Any) -> None:
        steps.step()
        save(self, infos)
        steps.step()

    monkeypatch.setattr(FileCheckpoint, "save", count_save)
    return node, steps


async def survive(node: Node, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work, and once more if the agent was killed and restarted."""
    try:
        await work()
    except Killed:
        node.restart()
        await work()


def prepared(node: Node) -> Iterator[str]:
    for driver in node.drivers.values():
        assert isinstance(driver, StatefulDriver)
        yield from (f"{driver.name}/{name}" for name in sorted(driver.prepared))


async def test_an_agent_killed_at_any_step_prepares_once_more_at_most_and_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(100):
        with monkeypatch.context() as patched:
            node, steps = make_mortal_node(tmp_path / str(at), at, patched)
            await survive(node, lambda node=node: node.manager.prepare(POD))  # type: ignore[misc]
            assert list(prepared(node)) == [f"{GPU}/a", f"{GPU}/b", f"{NIC}/b"]
            assert node.held() == {"a": {"p-uid"}, "b": {"p-uid"}}
            calls = {name: sum(method == "prepare" for method, _ in node.get(name).calls) for name in (GPU, NIC)}
            assert all(number <= 1 + steps.killed for number in calls.values())
            assert len(node.devices_of(POD)) == 3

            async def release(node: Node = node) -> None:
                if node.manager.might_need_unprepare("p-uid"):
                    await node.manager.unprepare(POD)

            await survive(node, release)
            assert (list(prepared(node)), node.held()) == ([], {})
            if not steps.killed:
                break
    assert at > 15, "each write and each call was a step"


async def test_an_agent_killed_at_any_step_of_a_pod_that_is_gone_when_it_is_back_releases_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(100):
        with monkeypatch.context() as patched:
            node, steps = make_mortal_node(tmp_path / str(at), at, patched)
            try:
                await node.manager.prepare(POD)
            except Killed:
                node.restart()
            # The claims are deleted with the pod.
            node.claims.clear()
            await survive(node, lambda node=node: node.manager.release_lost(set()))  # type: ignore[misc]
            assert (list(prepared(node)), node.held()) == ([], {})
            if not steps.killed:
                break
    assert at > 8


@pytest.mark.parametrize(
    "change",
    [lambda node: node.claims.clear(), lambda node: node.claim("b", "q", drivers=(NIC,))],
    ids=["deleted", "changed"],
)
async def test_a_claim_that_was_deleted_or_changed_meanwhile_is_released_as_it_was_prepared(
    tmp_path: Path, change: Callable[[Node], None]
) -> None:
    node = Node(tmp_path, GPU, NIC)
    node.claim("a", "p")
    node.claim("b", "p")
    await node.manager.prepare(POD)
    change(node)
    node.restart()
    await node.manager.unprepare(POD)
    assert node.get(GPU).calls[-1] == ("unprepare", ["a", "b"])
    assert (node.get(NIC).calls, node.held()) == ([], {})


async def test_a_claim_recreated_while_its_pod_starts_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    node = Node(tmp_path, GPU)
    node.claim("a", "p")
    node.claim("b", "p")
    # The driver skips b, so that the pod does not start.
    node.get(GPU).next = [{"b": None}]
    with pytest.raises(DraError):
        await node.manager.prepare(POD)
    node.claim("b", "p", uid="another")
    with pytest.raises(DraError, match="old ResourceClaim with same name b and different UID b-uid"):
        await node.manager.prepare(POD)
    await node.manager.unprepare(POD)
    assert node.get(GPU).calls[-1] == ("unprepare", ["a", "b"])
    assert node.held() == {}
