"""The Container Device Interface: the changes that a device's spec files make to a container.

Source of facts: the CDI specification (cncf-tags/container-device-interface, SPEC.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apiserver.api.objects import Json
from controllers.kubelet.pods.containers import ContainerError


@dataclass(slots=True)
class Edits:
    """Environment variables, and links from container paths to host paths."""

    env: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def merge(self, edits: Mapping[str, Any]) -> None:
        for text in edits.get("env") or ():
            name, _, value = text.partition("=")
            self.env[name] = value
        for mount in edits.get("mounts") or ():
            self.links[mount["containerPath"]] = mount["hostPath"]
        for node in edits.get("deviceNodes") or ():
            self.links[node["path"]] = node.get("hostPath") or node["path"]


def edits_of(ids: Iterable[str], directories: Sequence[Path]) -> Edits:
    """Merge the edits of devices (`VENDOR/CLASS=NAME`); those of a spec apply once. Raise ContainerError."""
    wanted, edits = list(dict.fromkeys(ids)), Edits()
    if not wanted:
        return edits
    devices: dict[str, tuple[Json, Json]] = {}
    for spec in _specs(directories):
        for device in spec.get("devices") or ():
            devices[f"{spec.get('kind', '')}={device.get('name', '')}"] = (spec, device)
    if missing := [name for name in wanted if name not in devices]:
        where = ", ".join(map(str, directories))
        text = f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)} (looked in {where})"
        raise ContainerError("CreateContainerError", text)
    seen: list[Json] = []
    for name in wanted:
        spec, device = devices[name]
        if not any(spec is other for other in seen):
            seen.append(spec)
            edits.merge(spec.get("containerEdits") or {})
        edits.merge(device.get("containerEdits") or {})
    return edits


def _specs(directories: Sequence[Path]) -> list[Json]:
    """Read every valid spec. For duplicate devices the later directory wins."""
    found = []
    for directory in directories:
        for path in sorted(directory.glob("*")) if directory.is_dir() else ():
            if path.suffix not in (".json", ".yaml", ".yml"):
                continue
            try:
                content = json.loads(path.read_text()) if path.suffix == ".json" else _yaml(path)
            except (OSError, ValueError):
                continue  # maybe half written; the error names a device that is then missing
            if isinstance(content, dict):
                found.append(content)
    return found


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
