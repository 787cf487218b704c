"""A component begins its work when all that it reads has been read."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest

from controllers.manager.manager import COMPONENTS
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.controller import Controller
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS
from controllers.runtime.transport import NoTransport

pytestmark = pytest.mark.integration

#: Alpha and beta gates with which components read more.
GATES = dict.fromkeys(
    ("DRADeviceTaints", "DRADeviceTaintRules", "DRAWorkloadResourceClaims", "GenericWorkload", "GangScheduling",
     "DRAReservedForWorkloads", "DRAResourcePoolStatus", "WorkloadWithJob"), True,
)  # fmt: skip
#: Those that wait in ways of their own; a server may not serve Workloads and PodGroups. The node agent updates pods when
#: it reads their namespace later, and works without the right to read namespaces.
OTHERWISE = {
    "device-taint-eviction-controller": None,
    "scheduler": None,
    "node-agent": {"namespaces"},
    "job-controller": {"workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io"},
}


@pytest.mark.parametrize("name", COMPONENTS)
async def test_a_component_waits_for_every_collection_that_it_reads(name: str) -> None:
    client = Client(NoTransport())
    informers = Informers(client)
    component: Any = importlib.import_module(COMPONENTS[name]).build(client, informers, Options(gates=GATES))
    assert component.name == name
    of_several = list(getattr(component, "_controllers", ()))
    controllers = of_several or [component._controller] if name != "scheduler" else []
    waited_for = {id(informer) for each in controllers for informer in each._informers}
    without = {str(each.kind) for each in informers._informers.values() if id(each) not in waited_for}
    expected = OTHERWISE.get(name, set())
    assert expected is None or without == expected
    assert all(len(each._informers) == len({id(one) for one in each._informers}) for each in controllers)


async def test_work_begins_once_all_are_read_that_were_asked_for() -> None:
    informers, done = Informers(Client(NoTransport())), list[str]()

    async def reconcile(key: str) -> None:
        done.append(key)

    controller = Controller("c", reconcile)
    for kind in (PODS, NODES, PODS):
        controller.require(informers.of(kind))
    assert controller._informers == [informers.of(PODS), informers.of(NODES)]
    controller.queue.add("k")
    running = asyncio.create_task(controller.run())
    for synced, expected in ((None, []), (PODS, []), (NODES, ["k"])):
        if synced is not None:
            informers.of(synced).mark_synced()
        await asyncio.sleep(1)
        assert done == expected
    running.cancel()
