"""`kubedra status`: the server of a data directory, its nodes with their devices, and the pods that wait."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubedra.kubeconfig.reader import KubeconfigError
from kubedra.plane.background import LOG, running
from kubedra.runtime.server_record import describe_end

if TYPE_CHECKING:
    from kubedra.client.client import Client

Json = dict[str, Any]
#: Driver, pool and name of a device.
_Device = tuple[str, str, str]
#: Pending pods listed in the table.
_SHOWN = 10
#: The row of devices that no single node has.
_SHARED = "(shared)"


def status(data_dir: Path, *, as_json: bool) -> int:
    """Print the state of the server of a data directory. Return 0 if it runs and responds, else 1."""
    found, code = collect_status(data_dir)
    print(json.dumps(found, indent=1) if as_json else render_status(found))
    return code


def collect_status(data_dir: Path) -> tuple[Json, int]:
    """Return the state of the server of a data directory, and the exit code."""
    import httpx

    from kubedra.client.client import ApiError, Client

    record = running(data_dir)
    if record is None:
        return {"dataDir": str(data_dir), "running": False, "lastEnd": describe_end(data_dir)}, 1
    found: Json = {
        "dataDir": str(data_dir), "running": True, "url": record["url"], "pid": record["pid"],
        "kubeconfig": record["kubeconfig"], "log": str(data_dir / LOG) if (data_dir / LOG).exists() else "",
    }  # fmt: skip
    try:
        with Client.from_kubeconfig(Path(record["kubeconfig"])) as client:
            info = client.request("GET", "/-/info")
            about = {key: info[key] for key in ("version", "emulates", "objects", "watches")}
            return {**found, **about, **_contents(client)}, 0
    except (httpx.HTTPError, ApiError, KubeconfigError, OSError) as error:
        return {**found, "error": " ".join(str(error).split()) or type(error).__name__}, 1


def _contents(client: Client) -> Json:
    """Return the nodes with their devices, and the pods."""
    from kubedra.client.client import ApiError

    def listed(resource: str) -> list[Json]:
        try:
            return client.list(resource, namespace="")
        except (ApiError, LookupError, ValueError):
            return []  # not served, or not readable with these credentials

    nodes, pods = listed("nodes"), listed("pods")
    slices, claims = listed("resourceslices"), listed("resourceclaims")
    places = dict(_devices(slices))
    devices = Counter(places.values())
    used = Counter(places[device] for device in _allocated(claims) if device in places)
    on_node = Counter(pod["spec"].get("nodeName", "") for pod in pods if _phase(pod) not in ("Succeeded", "Failed"))
    rows = [_node_row(node["metadata"]["name"], _node_state(node), devices, used, on_node) for node in nodes]
    names = {row["name"] for row in rows}
    rows += [_node_row(name, "-", devices, used, on_node) for name in sorted(set(devices) - names)]
    pending = [
        {"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"], "reason": _reason(pod)}
        for pod in pods
        if _phase(pod) == "Pending"
    ]
    return {"nodes": rows, "pods": dict(Counter(map(_phase, pods))), "pending": pending}


def _node_row(
    name: str, state: str, devices: Mapping[str, int], used: Mapping[str, int], pods: Mapping[str, int]
) -> Json:
    total, taken = devices.get(name, 0), used.get(name, 0)
    row = {"name": name, "status": state, "devices": total, "used": taken, "free": total - taken}
    return {**row, "pods": pods.get(name, 0)}


def _devices(slices: Iterable[Json]) -> Iterable[tuple[_Device, str]]:
    """Yield the devices of the newest generation of each pool, with the node that has them."""
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        key = (each["spec"]["driver"], each["spec"]["pool"]["name"])
        newest[key] = max(newest.get(key, 0), each["spec"]["pool"].get("generation", 0))
    for each in slices:
        spec, pool = each["spec"], each["spec"]["pool"]
        if pool.get("generation", 0) == newest[spec["driver"], pool["name"]]:
            for device in spec.get("devices") or ():
                place = device.get("nodeName") or spec.get("nodeName") or _SHARED
                yield (spec["driver"], pool["name"], device["name"]), place


def _allocated(claims: Iterable[Json]) -> set[_Device]:
    """Return the allocated devices, those of administrators excluded."""
    return {
        (result["driver"], result["pool"], result["device"])
        for claim in claims
        for result in ((claim.get("status", {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
        if not result.get("adminAccess")
    }


def _condition(obj: Json, kind: str) -> Json:
    found = (each for each in obj.get("status", {}).get("conditions") or () if each["type"] == kind)
    return next(found, {})


def _node_state(node: Json) -> str:
    ready = _condition(node, "Ready").get("status", "Unknown")
    text = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    return f"{text},SchedulingDisabled" if node["spec"].get("unschedulable") else text


def _phase(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase") or "Pending")


def _reason(pod: Json) -> str:
    """Return why a pod waits, as far as its status shows it."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    if not pod["spec"].get("nodeName"):
        return "not scheduled yet"
    waiting = [
        each["state"]["waiting"]
        for each in pod.get("status", {}).get("containerStatuses") or ()
        if "waiting" in (each.get("state") or {})
    ]
    return str(waiting[0].get("message") or waiting[0].get("reason") or "") if waiting else "starting"


def render_status(found: Json) -> str:
    """Return the state as text."""
    if not found["running"]:
        return "\n".join(filter(None, (f"{found['dataDir']}: no server is running", found["lastEnd"])))
    if "error" in found:
        return f"{found['url']} (pid {found['pid']}) does not respond: {found['error']}"
    about = f"kubedra {found['version']}, Kubernetes {found['emulates']}, pid {found['pid']}"
    lines = [f"api server  {found['url']}  ({about})", f"kubeconfig  {found['kubeconfig']}"]
    if found["log"]:
        lines.append(f"log         {found['log']}")
    if found["nodes"]:
        head = ("NODE", "STATUS", "DEVICES", "USED", "FREE", "PODS")
        keys = ("name", "status", "devices", "used", "free", "pods")
        lines += ["", *_table([head, *([str(row[key]) for key in keys] for row in found["nodes"])])]
    else:
        lines += ["", "no nodes; add one with `kubedra node add NAME --devices 8`"]
    pods = ", ".join(f"{number} {phase}" for phase, number in sorted(found["pods"].items()))
    lines += ["", f"pods        {pods or 'none'}"]
    for pod in found["pending"][:_SHOWN]:
        lines.append(f"pending     {pod['namespace']}/{pod['name']}: {' '.join(pod['reason'].split())}")
    more = len(found["pending"]) - _SHOWN
    if more > 0:
        lines.append(f"pending     {more} more")
    if found["pending"]:
        first = found["pending"][0]
        lines.append(f"why         kubedra explain pod {first['name']} -n {first['namespace']}")
    return "\n".join(lines)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
