"""Pods for tests of their rules."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from tests.resources.conftest import Judge


def pod(container: Json | None = None, **spec: Any) -> Json:
    """Build a pod with one container."""
    return {"spec": {"containers": [{"name": "c", "image": "img:1", **(container or {})}], **spec}}


def errors(judge: Judge, obj: Json) -> list[str]:
    """Return the errors of a new pod."""
    found: list[str] = judge.create("pods", obj)[1]
    return found
