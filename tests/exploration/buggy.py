"""Explored tests of the controllers; `test_exploration.py` runs this file in a pytest of its own."""

from __future__ import annotations

import os
from functools import partial

import httpx
import pytest

from kubedra import ApiError, Client, LoopControlPlane
from kubedra.pytest_plugin import Kube
from tests.exploration.controllers import allocate_devices, config_map, mark_items, register_items

CORRECT = os.environ.get("CORRECT") == "yes"


@pytest.mark.kube(explore=200, controllers=False)
async def test_no_update_is_lost(kube: LoopControlPlane) -> None:
    await kube.create(config_map("register"))
    for color in ("red", "blue"):
        kube.run(color, partial(register_items, prefix=f"{color}-", correct=CORRECT))
    for name in ("red-1", "blue-1", "red-2"):
        await kube.create(config_map(name))
        await kube.advance(seconds=1)
    await kube.wait("configmap/register", lambda register: len(register.get("data", {})) == 3, timeout=300)


@pytest.mark.kube(explore=200, controllers=False)
async def test_no_event_is_missed(kube: LoopControlPlane) -> None:
    kube.run("marker", partial(mark_items, correct=CORRECT))
    for name in ("item-1", "item-2", "item-3"):
        await kube.create(config_map(name))
        await kube.advance(seconds=1)
    for name in ("item-1", "item-2", "item-3"):
        await kube.wait(f"configmap/{name}", lambda item: "labels" in item["metadata"], timeout=300)


def each_device_once(kube: LoopControlPlane) -> None:
    devices = [device for each in kube.objects("configmaps") if (device := each.get("data", {}).get("device"))]
    assert len(devices) == len(set(devices)), f"allocated twice: {sorted(devices)}"


@pytest.mark.kube(explore=200, controllers=False)
async def test_no_device_is_allocated_twice(kube: LoopControlPlane) -> None:
    kube.always(each_device_once)
    kube.run("allocator", partial(allocate_devices, correct=CORRECT))
    for name in ("claim-1", "claim-2"):
        await kube.create(config_map(name))
        await kube.advance(seconds=1)
    for name in ("claim-1", "claim-2"):
        await kube.wait(f"configmap/{name}", lambda claim: "data" in claim, timeout=300)


@pytest.mark.kube(explore=20)
def test_the_outside_worker_creates_its_object(kube: Kube) -> None:
    with Client(kube.url, user_agent="worker") as worker:
        for _ in range(5 if CORRECT else 1):
            try:
                worker.create(config_map("made"))
                break
            except (ApiError, httpx.TransportError) as error:
                if getattr(error, "reason", "") == "AlreadyExists":
                    break
    kube.get("configmap/made")
