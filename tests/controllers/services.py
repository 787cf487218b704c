"""Builders of a Service and its pods."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from tests.support.objects import make_metadata, make_pod

TIME = "2026-01-01T00:00:00Z"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
HEADLESS = "service.kubernetes.io/headless"


def pod(name: str = "a", *ips: str, ready: bool = True, phase: str = "Running", **more: Any) -> Json:
    """Build a pod of the service."""
    addresses = [{"ip": ip} for ip in ips or ("10.0.0.1",)]
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:01:00Z"}]
    status = {"phase": phase, "podIP": addresses[0]["ip"], "podIPs": addresses, "conditions": conditions}
    ports = [{"name": "web", "containerPort": 8080}]
    return make_pod(name, **{"uid": f"u-{name}", "node": "n1", "ports": ports, "status": status, **more})


def service(**spec: Any) -> Json:
    """Build the Service `web`."""
    metadata = make_metadata("web", "ns", "u", creationTimestamp="2026-01-01T00:00:00Z")
    spec = {"clusterIP": "10.96.0.1", "ports": [{"port": 80, "targetPort": "web"}], **spec}
    return {"kind": "Service", "metadata": metadata, "spec": spec}
