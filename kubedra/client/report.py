"""The report of a failing test: objects, events and driver calls, one per line, then explanations of pending pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kubedra.client.conditions import conditions_of, describe_condition, mapping, mappings

if TYPE_CHECKING:
    from kubedra.client.client import Client
    from kubedra.runtime.objects import Json


_DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_KINDS = (
    ("v1", "Node"),
    ("v1", "Pod"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "PersistentVolumeClaim"),
    _DEFINITION,
)
#: Fields of a status that are shown with their value.
_FIELDS = ("phase", "state", "replicas", "readyReplicas", "active", "succeeded", "failed")
#: Maximum number of objects listed per kind.
_OBJECTS_PER_KIND = 50
#: Maximum number of pending pods to explain.
_EXPLAINED_PODS = 3
#: Maximum number of driver calls, the latest, and of characters of an answer.
_CALLS, _LONGEST = 20, 300
#: Maximum number of entries of a timeline, the latest, and of characters of a line.
_LINES, _WIDTH = 10, 160


def dump(client: Client) -> str:
    """Return the report. Kinds that the server does not serve are omitted."""
    lines: list[str] = []
    for version, kind in _KINDS:
        items = _list(client, version, kind)
        lines += _describe_objects(kind, items)
        if (version, kind) == _DEFINITION:
            for definition in items:
                custom = _stored_kind(definition)
                lines += _describe_objects(custom[1], _list(client, *custom))
    for event in _list(client, "v1", "Event"):
        about = event["involvedObject"]
        lines.append(
            f"Event {event.get('type', '')} {event.get('reason', '')} {about.get('kind')}/{about.get('name')}:"
            f" {event.get('message', '')}"
        )
    return "\n".join([*lines, *_driver_calls(client), *_explain_pending(client)]) or "no objects"


def timelines(client: Client) -> str:
    """Return the timelines of the objects that the test read or awaited last, in at most a screenful."""
    from kubedra.client.responses import ApiError

    texts = []
    for target, namespace in client.asserted:
        try:
            report: str = client.timeline(target, namespace=namespace)["report"]
        except (ApiError, ValueError):
            continue
        title, header, *lines = (
            line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in report.split("\n")
        )
        left_out = [f"… {len(lines) - _LINES} earlier lines"] if len(lines) > _LINES else []
        texts.append("\n".join([title, header, *left_out, *lines[-_LINES:]]))
    return "\n\n".join(texts)


def _driver_calls(client: Client) -> list[str]:
    """Return the latest calls of real drivers; empty if the server has no `/-/drivers/calls`."""
    from kubedra.client.responses import ApiError

    try:
        return [f"Driver call {call_text(call)}" for call in client.driver_calls(limit=_CALLS)]
    except ApiError:
        return []


def call_text(call: Json) -> str:
    """Return a call of a driver in one line, shortened if its answer is long."""
    claims = ",".join(f"{claim['namespace']}/{claim['name']}" for claim in call["claims"])
    head = " ".join(filter(None, (call["time"], call["node"], call["driver"], call["method"], claims)))
    if not call["code"]:
        return f"{head}: still running"
    outcome = call["error"] or json.dumps(call["answer"], separators=(",", ":"))
    outcome = outcome if len(outcome) <= _LONGEST else f"{outcome[:_LONGEST]}…"
    return f"{head}: {call['code']} after {call['seconds']:.3f} s: {outcome}"


def _list(client: Client, version: str, kind: str) -> list[Json]:
    from kubedra.client.responses import ApiError

    try:
        return client.request("GET", client.path(version, kind, "")).get("items") or []
    except ApiError:
        return []


def _describe_objects(kind: str, items: list[Json]) -> list[str]:
    lines = [f"{kind} {name(obj)}: {summary(obj)}" for obj in items[:_OBJECTS_PER_KIND]]
    more = len(items) - len(lines)
    return [*lines, f"{kind}: {more} more"] if more else lines


def _stored_kind(definition: Json) -> tuple[str, str]:
    """Return (apiVersion, kind) of the stored version of a definition, or of a served one."""
    spec = definition["spec"]
    served = [version for version in spec["versions"] if version.get("served")] or spec["versions"]
    version = next((version for version in served if version.get("storage")), served[0])
    return f"{spec['group']}/{version['name']}", spec["names"]["kind"]


def _explain_pending(client: Client) -> list[str]:
    """Return explanations of the first pending pods; empty if the server has no `/-/explain`."""
    from kubedra.client.responses import ApiError

    lines: list[str] = []
    try:
        pods = client.request("GET", client.path("v1", "Pod", "")).get("items") or []
        pending = [pod["metadata"] for pod in pods if (pod.get("status") or {}).get("phase", "Pending") == "Pending"]
        for meta in pending[:_EXPLAINED_PODS]:
            lines += ["", client.explain(f"pod/{meta['name']}", namespace=meta["namespace"])["report"]]
    except ApiError:
        pass
    return lines


def name(obj: Json) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def summary(obj: Json) -> str:
    """Return the fields of an object that show why a test is stuck, in one line.

    Custom resources may have a status of any form.
    """
    status, spec = mapping(obj.get("status")), mapping(obj.get("spec"))
    parts = [f"{field}={status[field]}" for field in _FIELDS if isinstance(status.get(field), str | int)]
    parts += [f"node={spec['nodeName']}"] if spec.get("nodeName") else []
    parts += [describe_condition(condition) for condition in conditions_of(status)]
    for result in mappings(mapping(mapping(status.get("allocation")).get("devices")).get("results")):
        parts.append(f"{result.get('request')}={result.get('driver')}/{result.get('pool')}/{result.get('device')}")
    reserved = [str(consumer.get("name")) for consumer in mappings(status.get("reservedFor"))]
    parts += [f"reservedFor={','.join(reserved)}"] if reserved else []
    parts += [f"devices={len(spec['devices'])}"] if isinstance(spec.get("devices"), list) else []
    return " ".join(parts) or "-"
