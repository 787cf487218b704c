"""What a DRA manager did beside what a vector says that it does: both in one form, and their first difference."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable
from typing import Any

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.kubelet.dra.checkpoint import CheckpointError
from controllers.kubelet.dra.manager import DraError
from controllers.kubelet.grpc.plugins import PluginError


def first_difference(seen: Json, want: Json) -> str | None:
    for key, value in want.items():
        if key in ("errorPrefix", "cdiOrder") or (key == "error" and want.get("errorPrefix")):
            continue
        got, value = _common(key, seen.get(key), want), _common(key, value, want)
        if got != value and not (key == "calls" and _same_calls(got, value)):
            return f"{key}: got {json.dumps(got)[:600]}, want {json.dumps(value)[:600]}"
    prefix = want.get("errorPrefix")
    if prefix and not str(seen.get("error")).startswith(prefix):
        return f"error: got {seen.get('error')!r}, want {prefix!r}…"
    return None


def _same_calls(got: list[Json], want: list[Json]) -> bool:
    """Where an error text is a Go library's, its beginning counts."""

    def same(call: Json, wanted: Json) -> bool:
        prefix = wanted.get("errorPrefix")
        if not prefix:
            return call == wanted
        rest = {name: value for name, value in wanted.items() if name not in ("error", "errorPrefix")}
        return call["error"].startswith(prefix) and {n: v for n, v in call.items() if n != "error"} == rest

    return len(got) == len(want) and all(map(same, got, want))


def _common(key: str, value: Any, want: Json) -> Any:
    """Normalize a value: sort lists without an order, and drop null."""
    if key == "checkpointFile":
        return value
    if isinstance(value, str) and key == "healthState":
        try:
            value = json.loads(value)
        except ValueError:
            value = "unreadable"
    value = _plain(value)
    if key == "checkpoint" and isinstance(value, dict):
        infos = value.get("ClaimInfoStateList") or []
        if isinstance(infos, list):
            infos = sorted(infos, key=_text)
        return {**value, "ClaimInfoStateList": infos}
    if key in ("calls", "podUpdates", "sliceDeletions") or (key == "cdiDevices" and want.get("cdiOrder")):
        return sorted(value or (), key=_call_order if key == "calls" else json.dumps)
    if key == "allocatedResourcesStatus":
        return {
            name: sorted(({**i, "resources": sorted(i["resources"], key=_text)} for i in items), key=_text)
            for name, items in (value or {}).items()
        }
    if key == "metrics":
        return {name: sorted(items, key=_text) for name, items in value.items()}
    return value or None


def _call_order(call: Json) -> Any:
    return call["plugin"] if call["service"] != "Registration" else ""


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def once(outcome: Json) -> Json:
    """Drop the parts of an outcome that depend on how often a device is listed."""
    found = {name: value for name, value in outcome.items() if name not in ("checkpointFile", "cdiOrder")}
    for name in ("checkpoint", "claimInfos"):
        infos = outcome.get(name) or ()
        for info in (
            infos if name == "claimInfos" else (isinstance(infos, dict) and infos.get("ClaimInfoStateList")) or ()
        ):
            for state in info["DriverState"].values():
                # The latest answer stands last.
                state["Devices"] = [state["Devices"][-1]["RequestNames"]] if state["Devices"] else None
    if outcome.get("cdiDevices"):
        found["cdiDevices"] = sorted(set(outcome["cdiDevices"]))[-1:]
    return found


def unmarked_hazard(case: Json) -> str | None:
    """Return the hazard that a case records without naming it; None if there is none.

    A call that names a claim twice is the first. A call that releases a claim of other pods is the second. The calls of
    steps that overlap belong to several pods.
    """
    holders: dict[str, set[str]] = {}
    overlaps = any("async" in step for step in case["steps"])
    for step, outcome in zip(case["steps"], case["expected"], strict=True):
        pod = (case["pods"] or {}).get(step.get("pod"), {}).get("metadata", {}).get("uid")
        for call in outcome.get("calls") or ():
            uids = [claim["uid"] for claim in call.get("claims") or ()]
            if len(set(uids)) < len(uids):
                return "same-claim-twice"
            released = (
                uids
                if call["method"] == "NodeUnprepareResources" and step["step"] == "unprepare" and not overlaps
                else ()
            )
            if any(holders.get(uid, set()) - {pod} for uid in released):
                return "foreign-unprepare"
        infos = outcome.get("checkpoint")
        listed = infos.get("ClaimInfoStateList") if isinstance(infos, dict) else None
        if isinstance(listed, list):
            holders = {i["ClaimUID"]: set(i.get("PodUIDs") or ()) for i in listed if isinstance(i, dict)}
    return None


async def outcome_of(work: Awaitable[Json | None]) -> Json:
    try:
        return {"error": None, **(await work or {})}
    except (DraError, CheckpointError, PluginError, LookupError) as error:
        if isinstance(error, KeyError):
            raise
        return {"error": str(error), "cdiDevices": None, "claimInfos": None}
    except asyncio.CancelledError:
        call = "prepare dynamic resources: NodePrepareResources"
        return {"error": f"{call}: rpc error: code = Canceled desc = context canceled"}


def container_of(pod: Json, name: str) -> Json:
    spec = pod["spec"]
    found: Json = next(c for c in (*spec["containers"], *(spec.get("initContainers") or ())) if c["name"] == name)
    return found


def shown_metrics(families: tuple[Family, ...]) -> Json:
    found: Json = {}
    for family in families:
        for line in family.lines():
            match = re.fullmatch(r"(\w+)_count\{(.*)\} (\d+)", line)
            if match and family.kind == "histogram":
                labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
                found.setdefault(match[1], []).append({"count": int(match[3]), "labels": labels})
    return found
