"""Reload policies and webhooks from files when the files change, and count the reloads.

Facts: apiserver, pkg/admission/plugin/manifest/metrics; the first load counts as a success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from apiserver.resources.admissionregistration.manifests import File, Manifests, read_files
from apiserver.runtime.clock import now
from apiserver.runtime.metrics import Counter, Family, Gauge
from apiserver.runtime.reloading import ReloadedFiles, digest, stamp

__all__ = ["ReloadedManifests"]

_START: Final = "apiserver_manifest_admission_config_controller"


class ReloadedManifests(ReloadedFiles):
    """The manifests of one plugin; `server` is this server's name."""

    def __init__(self, manifests: Manifests, server: str) -> None:
        self._manifests, self._files = manifests, manifests.files
        super().__init__(
            f"{manifests.plugin} configuration", (manifests.directory,), lambda *_: manifests.take(self._files)
        )
        # The first check sees changes between the first load and now.
        self._stamps, self.texts = [], _texts(manifests.files)
        self._server = digest(server.encode())
        self._times: dict[tuple[str, ...], float] = {}
        labels = ("status", "plugin", "apiserver_id_hash")
        self._count = Counter(f"{_START}_automatic_reloads_total", "Reloads of manifest files.", labels)
        self._families: list[Family] = [
            self._count,
            Gauge(
                f"{_START}_automatic_reload_last_timestamp_seconds", "Time of the last reload.", labels,
                lambda: self._times,
            ),
            Gauge(
                f"{_START}_last_config_info", "Hash of the manifest files.", ("plugin", "apiserver_id_hash", "hash"),
                lambda: {(manifests.plugin, self._server, manifests.digest): 1},
            ),
        ]  # fmt: skip
        self._count_reload("success")

    def families(self) -> Iterable[Family]:
        return self._families

    def _count_reload(self, status: str) -> None:
        self._count.inc(status, self._manifests.plugin, self._server)
        self._times[status, self._manifests.plugin, self._server] = now().timestamp()

    async def _changed(self) -> bool:
        """Return whether the files have changed.

        Runs in a thread: a directory with many files would block requests every second.
        """
        return await asyncio.to_thread(self._stat) != self._stamps

    def _read(self) -> list[bytes]:
        self._files = read_files(self._manifests.directory)
        return _texts(self._files)

    def _stat(self) -> list[tuple[int, int, int]]:
        try:
            return [stamp(path) for path in sorted(self._manifests.directory.iterdir())]
        except OSError:
            return []


def _texts(files: Sequence[File]) -> list[bytes]:
    return [file.text for file in files]
