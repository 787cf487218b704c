"""The register has every name, whatever the order of events and whichever requests fail."""

from functools import partial

import pytest
from registrar import controller


def config_map(name, **labels):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


@pytest.mark.kube(explore=200, controllers=False)
async def test_every_name_is_registered(kube):
    await kube.create(config_map("register"))
    for team in ("red", "blue"):
        kube.run(team, partial(controller.run, team=team))
        await kube.advance(seconds=0.5)
    await kube.create(config_map("apple", team="red"))
    await kube.create(config_map("plum", team="blue"))
    await kube.wait("configmap/register", lambda found: found.get("data", {}).get("names") == "apple plum")
