"""The report of a failing test: one line per object, then the events, then explanations of pending pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubedra.client.client import Client
    from kubedra.runtime.objects import Json


_KINDS = (
    ("v1", "Node"),
    ("v1", "Pod"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("resource.k8s.io/v1", "DeviceClass"),
)
#: Maximum number of pending pods to explain.
_EXPLAINED_PODS = 3


def dump(client: Client) -> str:
    """Return the report. Kinds that the server does not serve are omitted."""
    from kubedra.client.responses import ApiError

    lines: list[str] = []
    for version, kind in _KINDS:
        try:
            items = client.request("GET", client.path(version, kind, "")).get("items") or []
        except ApiError:
            continue
        lines += [f"{kind} {name(obj)}: {summary(obj)}" for obj in items]
    events = client.request("GET", client.path("v1", "Event", "")).get("items") or []
    for event in events:
        about = event["involvedObject"]
        lines.append(
            f"Event {event.get('type', '')} {event.get('reason', '')} {about.get('kind')}/{about.get('name')}:"
            f" {event.get('message', '')}"
        )
    return "\n".join([*lines, *_explain_pending(client)]) or "no objects"


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
    """Return the fields of an object that show why a test is stuck, in one line."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    parts = [f"phase={status['phase']}"] if "phase" in status else []
    parts += [f"node={spec['nodeName']}"] if spec.get("nodeName") else []
    parts += [_condition(condition) for condition in status.get("conditions") or ()]
    results = (status.get("allocation") or {}).get("devices", {}).get("results") or ()
    parts += [f"{r['request']}={r['driver']}/{r['pool']}/{r['device']}" for r in results]
    parts += ["reservedFor=" + ",".join(r["name"] for r in status["reservedFor"])] if status.get("reservedFor") else []
    parts += [f"devices={len(spec['devices'])}"] if isinstance(spec.get("devices"), list) else []
    return " ".join(parts) or "-"


def _condition(condition: Json) -> str:
    reason = f" ({condition['message']})" if condition["status"] != "True" and condition.get("message") else ""
    return f"{condition['type']}={condition['status']}{reason}"
