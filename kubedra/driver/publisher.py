"""Publishing of a driver's ResourceSlices.

Slices are written when the driver's pools change. Every `sync_delay` seconds they are compared with the server, which
restores slices that other clients changed; this is slow on purpose. Source of facts: as `pools`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from kubedra.client.client import Client
from kubedra.client.responses import ApiError
from kubedra.profiles.pools import Owner, Pool, PoolError, check, dropped_gates, plan
from kubedra.runtime.objects import Json

#: Versions of resource.k8s.io, newest first. In the last, a device has its properties under `basic`.
_VERSIONS = ("v1", "v1beta2", "v1beta1")
#: The first and the longest delay of a retry, in seconds.
_FIRST, _LONGEST = 0.05, 30.0


class Publisher:
    """The slices of one driver and owner. `failed` is called with errors; the failed operation is retried."""

    def __init__(
        self,
        client: Client,
        driver: str,
        owner: Owner | None,
        failed: Callable[[Exception], None],
        sync_delay: float = 30.0,
    ) -> None:
        if not driver:
            raise ValueError("DRA driver name is empty")
        self._client, self._driver, self._owner, self._failed, self._delay = client, driver, owner, failed, sync_delay
        self._pools: Mapping[str, Pool] = {}
        self._changed = asyncio.Event()
        self._path = ""
        self.statistics = {"creates": 0, "updates": 0, "deletes": 0}

    def update(self, pools: Mapping[str, Pool]) -> None:
        """Set the pools to publish. The slices of other pools are deleted."""
        self._pools = dict(pools)
        self._changed.set()

    async def run(self) -> None:
        """Publish until cancelled. Published slices stay."""
        pause = _FIRST
        while True:
            self._changed.clear()
            wait = self._delay
            try:
                await self.sync()
                pause = _FIRST
            except PoolError as error:
                self._failed(PoolError(f"pool validation failed: {error}"))
            except Exception as error:  # noqa: BLE001 - any error is reported and retried
                self._failed(RuntimeError(f"processing ResourceSlice objects: {error}"))
                wait, pause = pause, min(pause * 2, _LONGEST)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def sync(self) -> None:
        """Compare and write all pools once. Raises PoolError, ApiError and httpx errors."""
        pools = self._pools
        check(pools)
        existing: dict[str, list[Json]] = {}
        for item in await asyncio.to_thread(self._list):
            existing.setdefault(item["spec"]["pool"]["name"], []).append(item)
        for name in {**pools, **existing}:
            todo = plan(self._driver, self._owner, name, pools.get(name), existing.get(name, []))
            for item in todo.deletes:
                await asyncio.to_thread(self._delete, item)
            for index, item in enumerate(todo.updates):
                await asyncio.to_thread(self._write, "PUT", item, name, index)
            for index, item in enumerate(todo.creates):
                await asyncio.to_thread(self._write, "POST", item, name, index)

    def _list(self) -> list[Json]:
        node = self._owner.node if self._owner is not None else ""
        params = {"fieldSelector": f"spec.driver={self._driver},spec.nodeName={node}"}
        for version in _VERSIONS if not self._path else ("",):
            path = self._path or f"/apis/resource.k8s.io/{version}/resourceslices"
            try:
                items: list[Json] = self._client.request("GET", path, params=params)["items"]
            except ApiError as error:
                if error.code != 404 or self._path:
                    raise
                continue
            self._path = path
            return list(map(self._from_server, items))
        raise RuntimeError(f"the server serves resource.k8s.io in none of {', '.join(_VERSIONS)}")

    def _from_server(self, item: Json) -> Json:
        """Return a slice of the server in the form of v1."""
        devices = item.get("spec", {}).get("devices")
        if not devices or not self._is_flat:
            return item
        plain = [{"name": device["name"], **device.get("basic", {})} for device in devices]
        return {**item, "spec": {**item["spec"], "devices": plain}}

    def _to_server(self, item: Json) -> Json:
        """Return a slice in the form that the server serves."""
        devices = item["spec"].get("devices")
        if not devices or not self._is_flat:
            return item
        basic = [
            {"name": device["name"], "basic": {name: value for name, value in device.items() if name != "name"}}
            for device in devices
        ]
        return {**item, "spec": {**item["spec"], "devices": basic}}

    @property
    def _is_flat(self) -> bool:
        return "/v1beta1/" in self._path

    def _delete(self, item: Json) -> None:
        meta = item["metadata"]
        body = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        try:
            self._client.request("DELETE", f"{self._path}/{meta['name']}", body)
        except ApiError as error:
            if error.code != 404:
                raise RuntimeError(f"remove slices: delete resource slice: {error}") from error
        self.statistics["deletes"] += 1

    def _write(self, method: str, item: Json, pool: str, index: int) -> None:
        verb = "update" if method == "PUT" else "create"
        version = self._path.split("/")[3]
        body = {**item, "apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice"}
        path = f"{self._path}/{item['metadata']['name']}" if method == "PUT" else self._path
        try:
            stored = self._from_server(self._client.request(method, path, self._to_server(body)))
        except ApiError as error:
            raise RuntimeError(f"{verb} resource slice: {error}") from error
        self.statistics[f"{verb}s"] += 1
        if gates := dropped_gates(body, stored):
            self._drop_fields(pool, item, stored)
            reason = f"some fields were dropped by the apiserver, probably because these features are disabled: {gates}"
            self._failed(RuntimeError(f'{verb} ResourceSlice: pool "{pool}", slice #{index}: {reason}'))

    def _drop_fields(self, name: str, sent: Json, stored: Json) -> None:
        """Stop publishing fields that the server dropped. Otherwise the slice would be written again and again."""
        pool = self._pools.get(name)
        if pool is None:
            return
        parts = [
            {field: stored["spec"].get(field) for field in ("devices", "sharedCounters", "perDeviceNodeSelection")}
            if part.get("devices") == sent["spec"].get("devices") or len(pool.slices) == 1
            else part
            for part in pool.slices
        ]
        self._pools = {**self._pools, name: Pool(parts, pool.node_selector, pool.all_nodes, pool.generation)}
