"""The ResourceSlices of emulated nodes, published by the example driver (`devices`) or by the drivers of a profile.

A changed or deleted slice is restored completely. Taints set on a device by users stay, because they are the way to
break an emulated device. A driver with foreign slices on the node, for example captured ones, is left alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.emulation.annotations import PROFILE, annotation, devices_of
from controllers.kubelet.emulation.device_faults import device_faults
from controllers.kubelet.emulation.devices import example_class, example_device
from controllers.runtime.client import Client, is_reason
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import DEVICE_CLASSES, RESOURCE_SLICES
from kubedra import profiles
from kubedra.profiles.pools import Owner, Pool, dropped_gates, plan

log = logging.getLogger(__name__)
#: Maximum time until the informer has a written slice.
_SEEN_WITHIN = timedelta(seconds=5)
#: Name prefix of slices created by a publisher (`kubedra.profiles.pools`).
_OURS = re.compile("[0-9a-f]{5,}-")
_TYPE = {"apiVersion": RESOURCE_SLICES.api_version, "kind": RESOURCE_SLICES.kind}


#: Device, and the key, value and effect of its taint.
TaintPlace = tuple[str, str, str, str]


class _Inputs(NamedTuple):
    """What the slices of a node depend on: its name and annotations, and the versions of its slices."""

    name: str
    annotations: Mapping[str, str]
    slices: list[tuple[str, str]]


class EmulatedSlices:
    """The publisher of all emulated nodes. It calls `changed` with the name of a node with changed slices."""

    def __init__(self, client: Client, slices: Informer, changed: Callable[[str], None]) -> None:
        self._client, self._slices, self._changed = client, slices, changed
        self._of_node = slices.index("node", _node_of)
        #: Time of creation and names of slices missing in the informer, by node uid and driver.
        self._unseen: dict[tuple[str, str], tuple[datetime, set[str]]] = {}
        #: Pools with fields that the server dropped, and the versions of their slices then, by node uid and driver.
        #: The same write would drop them again, and each write triggers a reconcile.
        self._dropped: dict[tuple[str, str], tuple[Pool, set[tuple[str, str]]]] = {}
        #: The published taints by node uid and driver.
        self._tainted: dict[tuple[str, str], set[TaintPlace]] = {}
        self._logged: dict[str, str] = {}
        #: The annotations and slices of each node, by uid, for which there was nothing to write.
        self._complete: dict[str, _Inputs] = {}
        slices.on(self._slice_changed, lambda _, new: self._slice_changed(new), self._slice_changed)

    async def reconcile(self, node: Json) -> None:
        """Publish the pools defined by the node's annotations."""
        meta = node["metadata"]
        present = self._of_node.get(meta["name"])
        inputs = _Inputs(meta["name"], meta.get("annotations") or {}, [_version_of(item) for item in present])
        if self._complete.get(meta["uid"]) == inputs:
            return
        self._complete.pop(meta["uid"], None)
        if await self._publish_all(node, present):
            self._complete[meta["uid"]] = inputs

    async def _publish_all(self, node: Json, present: list[Json]) -> bool:
        """Publish the pools of all drivers. Return whether there was nothing to write."""
        pools, classes = self._desired(node)
        if not pools:
            return True
        complete, meta, faults = True, node["metadata"], device_faults(node)
        for driver, pool in pools.items():
            existing = [item for item in present if item["spec"]["driver"] == driver]
            if not all(_OURS.match(item["metadata"]["name"]) for item in existing):
                continue
            if not existing:
                for item in classes:
                    await self._create_class(item)
            wanted = faults.apply(driver, pool)
            tainted = self._add_foreign_taints(driver, meta, wanted, existing)
            complete &= await self._publish(driver, meta, tainted, existing)
        return complete

    async def _publish(self, driver: str, meta: Json, pool: Pool, existing: list[Json]) -> bool:
        """Write the changed slices of a driver. Return whether there was nothing to write.

        Does nothing while the informer lacks a slice of the last write: it would be created twice.
        """
        key, now = (meta["uid"], driver), clock.now()
        since, names = self._unseen.pop(key, (now, set()))
        if now - since < _SEEN_WITHIN and not all(name in self._slices.objects for name in names):
            self._unseen[key] = (since, names)
            return False
        if self._dropped.pop(key, None) == (incomplete := (pool, {_version_of(item) for item in existing})):
            self._dropped[key] = incomplete
            return True
        todo = plan(driver, Owner(meta["name"], meta["uid"]), meta["name"], pool, existing)
        written: list[tuple[Json, Json]] = []
        try:
            for item in todo.deletes:
                await self._client.delete(RESOURCE_SLICES, item["metadata"]["name"], uid=item["metadata"]["uid"])
            written += [(item, await self._client.update(RESOURCE_SLICES, {**item, **_TYPE})) for item in todo.updates]
        except Exception as error:
            # The watch event of the concurrent change will trigger another pass.
            if not is_reason(error, "NotFound", "Conflict"):
                raise
            return False
        made: set[str] = set()
        for item in todo.creates:
            self._unseen[key] = (now, made)
            written.append((item, await self._client.create(RESOURCE_SLICES, {**item, **_TYPE})))
            made.add(written[-1][1]["metadata"]["name"])
        if gates := " ".join(dict.fromkeys(filter(None, (dropped_gates(*each) for each in written)))):
            log.warning("node %s: the server drops fields of devices; enable the feature gates %s", meta["name"], gates)
            gone = {item["metadata"]["uid"] for item in (*todo.deletes, *todo.updates)}
            unchanged = {_version_of(item) for item in existing if item["metadata"]["uid"] not in gone}
            self._dropped[key] = (pool, unchanged | {_version_of(stored) for _, stored in written})
        return not (todo.deletes or todo.updates or todo.creates)

    def _add_foreign_taints(self, driver: str, meta: Json, pool: Pool, existing: list[Json]) -> Pool:
        """Add the taints that users set on published devices to the pool."""
        key = (meta["uid"], driver)
        own = {place for place, _ in _taints(pool.slices)}
        known, self._tainted[key] = self._tainted.get(key, set()) | own, own
        foreign: dict[str, list[Json]] = {}
        for place, taint in _taints(item["spec"] for item in existing):
            if place not in known:
                foreign.setdefault(place[0], []).append(taint)
        if not foreign:
            return pool
        slices = tuple(
            {
                **part,
                "devices": [
                    {**d, "taints": [*(d.get("taints") or ()), *foreign[d["name"]]]} if d["name"] in foreign else d
                    for d in part.get("devices") or ()
                ],
            }
            for part in pool.slices
        )
        return replace(pool, slices=slices)

    def _desired(self, node: Json) -> tuple[Mapping[str, Pool], list[Json]]:
        """Return the pools by driver for the node, and the DeviceClasses of their drivers."""
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        pools: dict[str, Pool] = {}
        classes: list[Json] = []
        if chosen := annotation(node, PROFILE):
            try:
                profile = profiles.load(chosen)
                pools |= profile.pools(name)
                classes = profile.classes()
            except ValueError as error:
                if self._logged.get(uid) != chosen:
                    self._logged[uid] = chosen
                    log.warning("node %s: %s", name, error)
        if (wanted := devices_of(node)) is not None:
            driver, count = wanted
            pools[driver] = Pool.of(example_device(name, index) for index in range(count))
            classes.append(example_class(driver))
        return pools, classes

    async def _create_class(self, item: Json) -> None:
        try:
            await self._client.create(DEVICE_CLASSES, item)
        except Exception as error:
            if not is_reason(error, "AlreadyExists"):
                raise

    def remove(self, node: Json) -> None:
        """Drop the state of a deleted node; the garbage collector deletes its slices."""
        uid = node["metadata"]["uid"]
        self._logged.pop(uid, None)
        self._complete.pop(uid, None)
        self._unseen = {key: unseen for key, unseen in self._unseen.items() if key[0] != uid}
        self._dropped = {key: incomplete for key, incomplete in self._dropped.items() if key[0] != uid}
        self._tainted = {key: taints for key, taints in self._tainted.items() if key[0] != uid}

    def _slice_changed(self, item: Json) -> None:
        if name := item["spec"].get("nodeName"):
            self._changed(name)


def _taints(specs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[TaintPlace, Json]]:
    for spec in specs:
        for device in spec.get("devices") or ():
            for taint in device.get("taints") or ():
                yield (device["name"], taint["key"], taint.get("value", ""), taint["effect"]), taint


def _version_of(item: Json) -> tuple[str, str]:
    return item["metadata"]["uid"], item["metadata"]["resourceVersion"]


def _node_of(item: Json) -> Iterator[str]:
    if name := item["spec"].get("nodeName"):
        yield name
