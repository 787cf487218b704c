"""Files with device metadata for containers (group metadata.resource.k8s.io), mounted by CDI.

Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/kubeletplugin (device metadata).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kubedra.runtime.objects import Json

#: The directory of the files in containers.
IN_CONTAINER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
_VERSION: Final = "metadata.resource.k8s.io/v1alpha1"


class DeviceMetadata:
    """The metadata files of one driver on one node below `data_dir`, and the CDI files in `cdi_dir` that mount them."""

    def __init__(self, driver: str, data_dir: Path, cdi_dir: Path) -> None:
        self._driver, self._cdi = driver, cdi_dir
        self._files = data_dir / "dra-device-metadata"

    def write(self, claim: Json, results: Sequence[Json], metadata: Mapping[str, Json]) -> dict[str, str]:
        """Write the metadata of devices (by name: `attributes`, `networkData`). Return the CDI ID per request.

        Raises OSError.
        """
        ids, meta = {}, claim["metadata"]
        by_request: dict[str, list[Json]] = {}
        for result in results:
            by_request.setdefault(result["request"].partition("/")[0], []).append(result)
        for request, devices in by_request.items():
            path = self._files / f"{meta['namespace']}_{meta['name']}" / request / "metadata.json"
            document = self._document(claim, request, devices, metadata, self._generation(path) + 1)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            _replace(path, json.dumps(document, indent=2) + "\n")
            ids[request] = self._mount(claim, request, path)
        return ids

    def remove(self, namespace: str, name: str, uid: str) -> None:
        """Delete the files of a claim."""
        shutil.rmtree(self._files / f"{namespace}_{name}", ignore_errors=True)
        for path in self._cdi.glob(f"{self._driver}_metadata_{uid}_*.json"):
            path.unlink(missing_ok=True)

    def _document(
        self, claim: Json, request: str, devices: Sequence[Json], metadata: Mapping[str, Json], generation: int
    ) -> Json:
        meta = claim["metadata"]
        pod_claim = (meta.get("annotations") or {}).get(_POD_CLAIM_NAME)
        entries = [
            {"driver": self._driver, "pool": item["pool"], "name": item["device"], **metadata.get(item["device"], {})}
            for item in devices
        ]
        return {
            "kind": "DeviceMetadata",
            "apiVersion": _VERSION,
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "generation": generation,
            },
            **({"podClaimName": pod_claim} if pod_claim else {}),
            "requests": [{"name": request, "devices": entries}],
        }

    def _mount(self, claim: Json, request: str, path: Path) -> str:
        meta = claim["metadata"]
        pod_claim = (meta.get("annotations") or {}).get(_POD_CLAIM_NAME)
        place = f"resourceclaimtemplates/{pod_claim}" if pod_claim else f"resourceclaims/{meta['name']}"
        mount = {
            "hostPath": str(path),
            "containerPath": f"{IN_CONTAINER}/{place}/{request}/{self._driver}-metadata.json",
            "options": ["ro", "bind"],
        }
        device = {"name": f"{meta['uid']}_{request}", "containerEdits": {"mounts": [mount]}}
        spec = {"cdiVersion": "0.5.0", "kind": f"{self._driver}/metadata", "devices": [device]}
        self._cdi.mkdir(parents=True, exist_ok=True, mode=0o755)
        _replace(self._cdi / f"{self._driver}_metadata_{meta['uid']}_{request}.json", json.dumps(spec))
        return f"{self._driver}/metadata={device['name']}"

    @staticmethod
    def _generation(path: Path) -> int:
        """Return the generation of an existing file, or 0."""
        with suppress(OSError, ValueError, KeyError):
            return int(json.loads(path.read_text())["metadata"]["generation"])
        return 0


def _replace(path: Path, content: str) -> None:
    """Replace the content of a file atomically."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(content)
    draft.chmod(0o644)
    draft.replace(path)
