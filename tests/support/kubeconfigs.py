"""Kubeconfigs for tests."""

from __future__ import annotations

import json
from pathlib import Path

from apiserver.api.objects import Json


def write_kubeconfig(
    path: Path, *, server: str = "https://127.0.0.1:1", cluster: Json | None = None, user: Json
) -> Path:
    """Write a kubeconfig with one context; return its path."""
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))
    return path
