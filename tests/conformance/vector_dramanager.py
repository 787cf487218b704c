"""DRA manager vectors: what a kubelet's DRA manager does with claims, drivers, files, slices and health.

Drivers are gRPC servers on unix sockets (`dradrivers`), the API is a dictionary (`draapi`); what is tried is
`PluginHost`, as the node agent runs it. Time is virtual for all of them. Where the recorded behaviour does harm (`hazard`) ours is compared by what is
meant; see `Scenario.worse`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from apiserver.api.objects import Json
from controllers.kubelet.dra.checkpoint import claims_of, document, open_document
from controllers.kubelet.dra.manager import DraFeatures
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.grpc.host import HostOptions, PluginHost
from controllers.kubelet.grpc.plugins import CALL_TIMEOUT
from controllers.resourceclaims.pods import claim_names
from controllers.runtime.client import Client
from controllers.runtime.kinds import RESOURCE_CLAIMS
from tests.conformance.draapi import Api
from tests.conformance.dradrivers import Drivers
from tests.conformance.dramanager_compare import (
    container_of,
    first_difference,
    once,
    outcome_of,
    shown_metrics,
    unmarked_hazard,
)
from tests.conformance.vectors import Case, Skipped
from tests.support.virtual import run_closed

#: Seconds within which a step's outcome has to show.
_PATIENCE = 3.0
_NEVER = 3600.0


def handle(case: Case) -> Skipped | str | None:
    """One scenario, step by step."""
    return run_closed(lambda: _play(case))


async def _play(case: Case) -> str | None:
    with tempfile.TemporaryDirectory(prefix="dra") as root:
        scenario = Scenario(case, Path(root))
        try:
            return await scenario.run()
        finally:
            await scenario.end()


class Scenario:
    """A case that is being played."""

    def __init__(self, case: Case, root: Path) -> None:
        case = {**case, "hazard": case.get("hazard") or unmarked_hazard(case)}
        self.case, self.places = case, {f"<{name}>": root / name for name in ("plugins", "registry", "state")}
        for place in ("<plugins>", "<registry>"):
            self.places[place].mkdir()
        self.api = Api(case)
        self.drivers = Drivers(case["plugins"], self.path)
        self.pods: dict[str, Json] = dict(case["pods"])
        self.active: set[str] = set()
        self.updates: list[list[str]] = []
        self.running: dict[str, asyncio.Task[None]] = {}
        self.host: PluginHost | None = None
        self._task: asyncio.Task[None] | None = None
        self.metrics = DraMetrics()
        self.holders: dict[str, set[str]] = {}

    def path(self, text: str) -> str:
        """Fill real directories into a text."""
        for mark, place in self.places.items():
            text = text.replace(mark, str(place))
        return text

    def marked(self, text: str) -> str:
        for mark, place in self.places.items():
            text = text.replace(str(place), mark)
        return text

    async def run(self) -> str | None:
        await self.drivers.open()
        for number, step in enumerate(self.case["steps"]):
            expected = [o[number] for o in (self.case["expected"], *(self.case.get("alternatives") or ()))]
            result = await self.act(step)
            difference = await self.settled(step, result, expected)
            if difference is not None:
                return f"step {number} ({step['step']}): {difference}"
        return None

    async def settled(self, step: Json, result: Json, expected: list[Json]) -> str | None:
        """Compare a step's outcome with the recorded one until both agree or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (0.3 if self.case.get("hazard") else _PATIENCE)
        while True:
            seen = {**self.seen(), **result}
            differences = [first_difference(seen, outcome) for outcome in expected]
            if None in differences or loop.time() > deadline:
                break
            await asyncio.sleep(0.02)
        self.drivers.calls.clear()
        self.api.deletions.clear()
        self.updates.clear()
        difference = None if None in differences else differences[0]
        return self.worse(step, seen, expected[0], difference) if self.case.get("hazard") else difference

    def worse(self, step: Json, seen: Json, want: Json, difference: str | None) -> str | None:
        """How ours is neither as recorded nor better, where the recorded behaviour does harm.

        Devices that were repeated may stand once, and older ones may be gone. A claim that others hold must not be
        released; a call must not name a claim twice; what is there to be prepared and released succeeds; in the end
        nothing is held that upstream does not hold.
        """
        if self.case["hazard"] == "repeated-devices":
            return None if difference is None else first_difference(once(seen), once(want))
        for call in seen["calls"]:
            uids = [claim["uid"] for claim in call["claims"]]
            if len(set(uids)) < len(uids):
                return f"a claim twice in one call: {uids}"
            for uid in uids if call["method"] == "NodeUnprepareResources" else ():
                if others := self.holders.get(uid, set()) - {step.get("pod")}:
                    return f"{uid} is released, which {sorted(others)} hold"
        if seen.get("error") not in (None, want.get("error")):
            return f"error: got {seen['error']!r}, want {want.get('error')!r}"
        if step is self.case["steps"][-1]:
            held, there = (
                str(len((c or {}).get("ClaimInfoStateList") or ())) for c in (seen["checkpoint"], want["checkpoint"])
            )
            return f"claims held in the end: {held}, upstream {there}" if held > there else None
        return None

    def hold(self, pod: Json, holds: bool) -> None:
        """Record which claims a pod holds, for `worse`."""
        name = pod["metadata"]["name"]
        for claim in claim_names(pod):
            uid = self.api.uid(pod["metadata"]["namespace"], claim)
            pods = self.holders.setdefault(uid, set())
            (pods.add if holds else pods.discard)(name)

    def seen(self) -> Json:
        host = self.host
        seen: Json = {
            "calls": [json.loads(self.marked(json.dumps(call))) for call in self.drivers.calls],
            "checkpoint": self.checkpoint(),
            "sliceDeletions": list(self.api.deletions),
            "slices": sorted(self.api.slices),
            "podUpdates": [list(update) for update in self.updates],
        }
        file = self.places["<state>"] / "dra_manager_state"
        seen["checkpointFile"] = file.read_text() if file.is_file() else None
        health = self.places["<state>"] / "dra_health_state"
        if health.is_file():
            seen["healthState"] = re.sub(r'"LastUpdated":\s*"[^"]*"', '"LastUpdated":"<time>"', health.read_text())
        if host is not None:
            cache = host.claims.cache
            seen["claimsInUse"] = cache.in_use()
            uids = {name: pod["metadata"]["uid"] for name, pod in self.pods.items()}
            seen["mightNeedToUnprepare"] = {name: host.claims.might_need_unprepare(uid) for name, uid in uids.items()}
            seen["registered"] = {
                name: [
                    {"connected": p.connection.connected, "endpoint": self.marked(p.endpoint), "service": p.service}
                    for p in plugins
                ]
                for name, plugins in host.plugins.registered.items()
            }
        return seen

    def checkpoint(self) -> Any:
        file = self.places["<state>"] / "dra_manager_state"
        if not file.is_file():
            return None
        try:
            outer = json.loads(file.read_bytes())
            inner: Any = json.loads(outer["Data"])
        except (OSError, ValueError, TypeError, KeyError):
            return "unreadable"
        try:
            open_document(file.read_bytes())
        except ValueError:
            return "unreadable"
        return inner

    async def act(self, step: Json) -> Json:
        kind = step["step"]
        self.drivers.script(step.get("answers") or {}, step.get("registrationAnswers") or [])
        work = getattr(self, f"do_{kind}")(step)
        if "async" in step and kind != "await":
            self.running[step["async"]] = asyncio.create_task(work)
            await self.drivers.heard(step.get("waitCalls", 0))
            return {"error": None}
        if "cancelAfterMs" in step:
            task = asyncio.create_task(work)
            await asyncio.sleep(step["cancelAfterMs"] / 1000)
            task.cancel()
            work = task
        if self.case.get("hazard") == "lost-claim" and kind == "prepare":
            # Ours waits here until the claim is released: it ends when what it waits for does.
            self.running[f"waiting {step['pod']}"] = asyncio.ensure_future(work)
            await asyncio.sleep(0.1)
            return {}
        result = await outcome_of(work)
        if "waitCalls" in step:
            await self.drivers.heard(step["waitCalls"])
        if result.get("error") is not None:
            result["error"] = self.marked(result["error"])
        return result

    # Steps.

    async def do_start(self, step: Json) -> Json | None:
        await self.stop()
        gates = self.case["featureGates"]
        options = HostOptions(
            self.api.node,
            self.places["<state>"],
            self.places["<registry>"] if self.case.get("pluginManager") else None,
            DraFeatures(gates["DRAExtendedResource"], gates["DRAWorkloadResourceClaims"]),
            gates["ResourceHealthStatus"],
            gates["ResourceHealthStatusMessage"],
        )
        if not self.case.get("defaults"):
            options = replace(options, wiping_delay=(self.case.get("wipingDelayMs") or _NEVER * 1000) / 1000)
        client = Client(self.api)

        async def read_claim(pod: Json, name: str) -> Json:
            return await client.get(RESOURCE_CLAIMS, name, pod["metadata"]["namespace"])

        self.host = None
        pods = self.active_pods if self.case.get("defaults") else lambda: None
        host = PluginHost(
            client, read_claim, options, self.metrics, pods, lambda pods: self.updates.append(sorted(pods))
        )
        self.host = host
        self._task = asyncio.create_task(host.run())
        return None

    async def do_register(self, step: Json) -> None:
        plugin = self.case["plugins"][step["plugin"]]
        endpoint = self.path(step.get("endpoint", plugin["endpoint"]))
        timeout = step["timeoutMs"] / 1000 if "timeoutMs" in step else CALL_TIMEOUT
        assert self.host is not None
        self.host.plugins.register(step.get("driver", plugin["driver"]), endpoint, plugin["services"] or (), timeout)

    async def do_validate(self, step: Json) -> None:
        plugin = self.case["plugins"][step["plugin"]]
        assert self.host is not None
        self.host.plugins.check(plugin["driver"], self.path(plugin["endpoint"]), plugin["services"] or ())

    async def do_deregister(self, step: Json) -> None:
        plugin = self.case["plugins"][step["plugin"]]
        endpoint = self.path(step.get("endpoint", plugin["endpoint"]))
        assert self.host is not None
        await self.host.plugins.deregister(step.get("driver", plugin["driver"]), endpoint)

    async def do_getPlugin(self, step: Json) -> None:
        assert self.host is not None
        self.host.plugins.get(step["driver"])

    async def do_prepare(self, step: Json) -> None:
        assert self.host is not None
        await self.host.claims.prepare(self.pods[step["pod"]])
        self.hold(self.pods[step["pod"]], True)

    async def do_unprepare(self, step: Json) -> None:
        assert self.host is not None
        await self.host.claims.unprepare(self.pods[step["pod"]])
        self.hold(self.pods[step["pod"]], False)

    async def do_reconcile(self, step: Json) -> None:
        assert self.host is not None
        if step.get("sourcesReady", True):
            await self.host.claims.release_lost(self._uids(step["activePods"]))

    async def do_setActivePods(self, step: Json) -> None:
        self.active = self._uids(step["activePods"])

    async def do_resources(self, step: Json) -> Json:
        pod = self.pods[step["pod"]]
        assert self.host is not None
        return {"cdiDevices": self.host.claims.container_devices(pod, container_of(pod, step["container"]))}

    async def do_containerClaims(self, step: Json) -> Json:
        pod = self.pods[step["pod"]]
        assert self.host is not None
        infos = self.host.claims.container_claims(pod, container_of(pod, step["container"]))
        written = json.loads(open_document(document(infos)))["ClaimInfoStateList"]
        assert len(claims_of(open_document(document(infos)))) == len(infos)
        return {"claimInfos": written}

    async def do_status(self, step: Json) -> Json:
        pod = self.pods[step["pod"]]
        statuses = step.get("status") or {"containerStatuses": [{"name": c["name"]} for c in pod["spec"]["containers"]]}
        assert self.host is not None
        shown = self.host.with_health(pod, statuses["containerStatuses"])
        found = {s["name"]: s["allocatedResourcesStatus"] for s in shown if "allocatedResourcesStatus" in s}
        return {"allocatedResourcesStatus": found}

    async def do_health(self, step: Json) -> None:
        await self.drivers.say_health(step["plugin"], step["devices"])
        await asyncio.sleep(0.05)

    async def do_healthEnd(self, step: Json) -> None:
        await self.drivers.end_health(step["plugin"], step.get("code") or "", step.get("message") or "")

    async def do_setClaim(self, step: Json) -> None:
        self.api.set_claim(step["claim"])

    async def do_deleteClaim(self, step: Json) -> None:
        self.api.delete_claim(step["namespace"], step["name"])

    async def do_setPod(self, step: Json) -> None:
        self.pods[step["pod"]] = step["object"]

    async def do_apiError(self, step: Json) -> None:
        self.api.fail(step)

    async def do_createSlice(self, step: Json) -> None:
        self.api.slices[step["slice"]["metadata"]["name"]] = step["slice"]

    async def do_setNode(self, step: Json) -> None:
        self.api.nodes.add(step["name"])

    async def do_close(self, step: Json) -> None:
        await self.drivers.close(step["plugin"])

    async def do_listen(self, step: Json) -> None:
        await self.drivers.listen(step["plugin"])

    async def do_addSocket(self, step: Json) -> None:
        await self.drivers.add_socket(step["plugin"])

    async def do_removeSocket(self, step: Json) -> None:
        await self.drivers.remove_socket(step["plugin"])

    async def do_recreateSocket(self, step: Json) -> None:
        await self.drivers.remove_socket(step["plugin"])
        await self.drivers.add_socket(step["plugin"], step.get("registration"))

    async def do_connections(self, step: Json) -> Json:
        return {"connections": self.drivers.connections(step["plugin"])}

    async def do_metrics(self, step: Json) -> Json:
        return {"metrics": shown_metrics(self.metrics.families)}

    async def do_sleep(self, step: Json) -> None:
        await asyncio.sleep(step["ms"] / 1000)
        if step.get("ignoreCalls"):
            self.drivers.calls.clear()

    async def do_release(self, step: Json) -> None:
        self.drivers.release(step["name"])

    async def do_await(self, step: Json) -> None:
        await self.running.pop(step["async"])
        await asyncio.gather(*(task for name, task in self.running.items() if name.startswith("waiting ")))

    async def do_writeFile(self, step: Json) -> None:
        file = Path(self.path(step["file"]))
        if file.parent != self.places["<state>"].parent:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.path(step["content"]))

    async def do_makeDir(self, step: Json) -> None:
        Path(self.path(step["file"])).mkdir(parents=True)

    async def do_removeFile(self, step: Json) -> None:
        file = Path(self.path(step["file"]))
        shutil.rmtree(file) if file.is_dir() else file.unlink()

    async def do_truncateFile(self, step: Json) -> None:
        file = Path(self.path(step["file"]))
        file.write_bytes(file.read_bytes()[: step["truncateTo"]])

    # The rest.

    def active_pods(self) -> list[Json]:
        return [{"metadata": {"uid": uid}} for uid in self.active]

    def _uids(self, names: list[str]) -> set[str]:
        return {self.pods[name]["metadata"]["uid"] if name in self.pods else name for name in names}

    async def stop(self) -> None:
        """As a kill: what is under way is lost."""
        tasks = [task for task in (*self.running.values(), self._task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.running.clear()
        self._task = None

    async def end(self) -> None:
        await self.stop()
        await self.drivers.end()
