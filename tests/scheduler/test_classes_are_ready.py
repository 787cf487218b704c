"""A DeviceClass is taken in when it comes, not while the first pod waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.allocator.selectors import CelEvaluator
from controllers.runtime.kinds import DEVICE_CLASSES
from tests.scheduler.world import World
from tests.support.objects import make_device_class
from tests.support.virtual import passes

FIRST, SECOND = "device.driver == 'gpu.example.com'", "device.driver == 'nic.example.com'"


async def test_selectors_of_a_class_are_compiled_when_it_comes_and_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    original = CelEvaluator.compile

    def compile_one(self: CelEvaluator, expression: str) -> Any:
        compiled.append(expression)
        return original(self, expression)

    monkeypatch.setattr(CelEvaluator, "compile", compile_one)

    async with World("scheduler") as world:
        chosen = {**make_device_class(), "spec": {"selectors": [{"cel": {"expression": FIRST}}]}}
        await world.add(chosen)
        await passes()
        assert compiled == [FIRST]
        known = await world.client.get(DEVICE_CLASSES, "gpu")
        both = [{"cel": {"expression": FIRST}}, {"cel": {"expression": SECOND}}]
        await world.client.update(DEVICE_CLASSES, {**known, "spec": {**known["spec"], "selectors": both}})
        await passes()
        assert compiled == [FIRST, SECOND], "what is known is not compiled again"
