"""The selectors of a DeviceClass are compiled when it comes, not while the first pod waits."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.allocator.selectors import CelEvaluator
from controllers.runtime.kinds import DEVICE_CLASSES
from tests.scheduler.world import scheduler_world
from tests.support.objects import make_device_class
from tests.support.virtual import passes

FIRST, SECOND = "device.driver == 'gpu.example.com'", "device.driver == 'nic.example.com'"


async def test_new_selectors_are_compiled_when_a_class_is_added_or_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = CelEvaluator.compile

    def compile_one(self: CelEvaluator, expression: str) -> Any:
        compiled.append(expression)
        return original(self, expression)

    monkeypatch.setattr(CelEvaluator, "compile", compile_one)

    async with scheduler_world(make_device_class(selectors=[{"cel": {"expression": FIRST}}])) as world:
        await passes()
        assert compiled == [FIRST]
        known = await world.client.get(DEVICE_CLASSES, "gpu")
        both = [{"cel": {"expression": FIRST}}, {"cel": {"expression": SECOND}}]
        await world.client.update(DEVICE_CLASSES, {**known, "spec": {**known["spec"], "selectors": both}})
        await passes()
        assert compiled == [FIRST, SECOND]
