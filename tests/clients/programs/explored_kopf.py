"""An explored test of an operator with kopf; `test_planted_bugs.py` runs this file in a pytest of its own."""

from __future__ import annotations

import logging
from typing import Any

import kopf
import pytest

from kubedra import AsyncClient, LoopControlPlane
from tests.exploration.controllers import config_map

logging.getLogger("kopf").setLevel(logging.CRITICAL)


async def operate(_: AsyncClient) -> None:
    """Copy `a` of each ConfigMap to `b`."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server="http://127.0.0.1:6443")

    @kopf.on.create("v1", "configmaps", registry=registry)
    async def copy(body: Any, patch: Any, **_: Any) -> None:
        patch.setdefault("data", {})["b"] = body["data"]["a"]

    await kopf.operator(registry=registry, standalone=True, namespaces=["default"])


@pytest.mark.kube(explore=4, controllers=False)
async def test_the_operator_copies(kube: LoopControlPlane) -> None:
    kube.run("operator", operate)
    for name in ("one", "two"):
        await kube.create(config_map(name, a=name))
        await kube.advance(seconds=1)
    for name in ("one", "two"):
        found = await kube.wait(f"configmap/{name}", lambda found: "b" in found["data"])
        assert found["data"]["b"] == name
