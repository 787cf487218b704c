"""The kubelet's file `dra_manager_state`: the prepared claims with their pods and devices.

    {"Data":"<JSON as a string>","Checksum":<CRC-32 of that string's bytes>}

Source of facts: Kubernetes 1.36, package pkg/kubelet/cm/dra/state. It is read with the rules of Go's JSON decoder:
case-insensitive field names, unknown fields ignored, missing fields empty, any `apiVersion` accepted. It is written
byte for byte as Go writes it.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from controllers.kubelet.dra.cache import ClaimInfo
from controllers.kubelet.dra.drivers import PreparedDevice
from controllers.kubelet.dra.go_types import STRING, GoType, decode

FILE_NAME: Final = "dra_manager_state"
_KIND: Final = "DRACheckpoint"
_API_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"
#: Characters escaped by Go's encoder only.
_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}

_UID: Final = GoType("types.UID", "string")
_STRINGS: Final = GoType("[]string", "slice", STRING)
_DEVICE: Final = GoType(
    "state.Device",
    "struct",
    fields={
        "PoolName": STRING,
        "DeviceName": STRING,
        "ShareID": _UID,
        "RequestNames": _STRINGS,
        "CDIDeviceIDs": _STRINGS,
    },
)
_DRIVER_STATE: Final = GoType(
    "state.DriverState", "struct", fields={"Devices": GoType("[]state.Device", "slice", _DEVICE)}
)
_CLAIM: Final = GoType(
    "state.ClaimInfoState",
    "struct",
    fields={
        "ClaimUID": _UID,
        "ClaimName": STRING,
        "Namespace": STRING,
        "PodUIDs": GoType("sets.Set[string]", "map", GoType("sets.Empty", "struct")),
        "DriverState": GoType("map[string]state.DriverState", "map", _DRIVER_STATE),
    },
)
_DATA: Final = GoType(
    "state.CheckpointData",
    "struct",
    fields={
        "kind": STRING,
        "apiVersion": STRING,
        "ClaimInfoStateList": GoType("state.ClaimInfoStateList", "slice", _CLAIM),
    },
    embedded={"kind": "TypeMeta", "apiVersion": "TypeMeta"},
)
_CHECKPOINT: Final = GoType(
    "state.Checkpoint", "struct", fields={"Data": STRING, "Checksum": GoType("uint32", "uint32")}
)


class CheckpointError(Exception):
    """The file cannot be read, written or trusted. The text is the kubelet's."""


class Checkpoint(Protocol):
    """Storage that preserves the cache across restarts. Both methods raise CheckpointError."""

    def load(self) -> list[ClaimInfo]: ...

    def save(self, infos: Iterable[ClaimInfo]) -> None: ...


class NoCheckpoint:
    """No storage: emulated drivers lose their state together with the kubelet."""

    def load(self) -> list[ClaimInfo]:
        return []

    def save(self, infos: Iterable[ClaimInfo]) -> None:
        pass


class FileCheckpoint:
    """The file in the kubelet's directory, replaced atomically (temporary file, fsync, rename)."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                "create ResourceClaim cache: could not initialize checkpoint manager, please drain node and remove DRA"
                f" state file, err: failed to initialize checkpoint manager: {_os_text('mkdir', directory, error)}"
            ) from error

    def load(self) -> list[ClaimInfo]:
        """Read the claims from the file; create an empty file if it is missing."""
        start = "create ResourceClaim cache: GetOrCreate() on checkpoint state: failed to"
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            try:
                self._write(document(None))
            except OSError as error:
                problem = f"could not save checkpoint {FILE_NAME}: {_os_text('open', self._path, error)}"
                raise CheckpointError(f"{start} store checkpoint {FILE_NAME}: {problem}") from error
            return []
        except OSError as error:
            raise CheckpointError(
                f"{start} get checkpoint {FILE_NAME}: {_os_text('read', self._path, error)}"
            ) from error
        try:
            data = open_document(content)
        except ValueError as error:
            raise CheckpointError(f"{start} get checkpoint {FILE_NAME}: {error}") from error
        try:
            return claims_of(data)
        except ValueError as error:
            raise CheckpointError(f"create ResourceClaim cache: GetEntries() on checkpoint: {error}") from error

    def save(self, infos: Iterable[ClaimInfo]) -> None:
        try:
            self._write(document(infos))
        except OSError as error:
            problem = _os_text("open", self._path, error)
            raise CheckpointError(f"could not save checkpoint {FILE_NAME}: {problem}") from error

    def _write(self, content: bytes) -> None:
        directory = self._path.parent
        directory.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{FILE_NAME}", dir=directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise


def document(infos: Iterable[ClaimInfo] | None) -> bytes:
    """Render the file's content. None renders as null: a checkpoint that was never saved."""
    entries = None if infos is None else [_entry(info) for info in infos]
    data = _go_json({"kind": _KIND, "apiVersion": _API_VERSION, "ClaimInfoStateList": entries})
    return _go_json({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode()


def open_document(content: bytes) -> str:
    """Return the inner document of a file. Raise ValueError for invalid JSON, a wrong type or a wrong checksum."""
    outer: dict[str, Any] = decode(content, _CHECKPOINT) or {}
    empty = _go_json({"kind": _KIND, "apiVersion": _API_VERSION, "ClaimInfoStateList": None})
    data: str = outer.get("Data", empty)
    if zlib.crc32(data.encode()) != outer.get("Checksum", zlib.crc32(empty.encode())):
        raise ValueError("checkpoint is corrupted")
    return data


def claims_of(data: str) -> list[ClaimInfo]:
    """Parse the claims of an inner document. Raise ValueError."""
    found: dict[str, Any] = decode(data.encode(), _DATA) or {}
    return [_info(entry or {}) for entry in found.get("ClaimInfoStateList") or ()]


def _entry(info: ClaimInfo) -> dict[str, Any]:
    drivers = info.drivers
    return {
        "ClaimUID": info.uid,
        "ClaimName": info.name,
        "Namespace": info.namespace,
        "PodUIDs": {uid: {} for uid in sorted(info.pods)},
        "DriverState": None
        if drivers is None
        else {name: {"Devices": [_device_entry(d) for d in drivers[name]] or None} for name in sorted(drivers)},
    }


def _device_entry(device: PreparedDevice) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.device,
        "ShareID": device.share_id,
        "RequestNames": list(device.requests) or None,
        "CDIDeviceIDs": list(device.cdi_ids) or None,
    }


def _info(entry: dict[str, Any]) -> ClaimInfo:
    states = entry.get("DriverState")
    drivers = None if states is None else {name: tuple(_devices(state or {})) for name, state in states.items()}
    pods = set(entry.get("PodUIDs") or ())
    return ClaimInfo(
        entry.get("ClaimUID", ""), entry.get("ClaimName", ""), entry.get("Namespace", ""), pods, drivers
    )  # fmt: skip


def _devices(state: dict[str, Any]) -> Iterator[PreparedDevice]:
    for item in state.get("Devices") or ():
        device = item or {}
        requests, cdi_ids = (
            tuple(text or "" for text in device.get(name) or ()) for name in ("RequestNames", "CDIDeviceIDs")
        )
        pool, name = device.get("PoolName", ""), device.get("DeviceName", "")
        yield PreparedDevice(pool, name, requests, cdi_ids, device.get("ShareID"))


def _go_json(value: Any) -> str:
    """Render compact JSON as Go does: UTF-8 with `<`, `>`, `&`, U+2028 and U+2029 escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def _os_text(operation: str, path: Path, error: OSError) -> str:
    return f"{operation} {path}: {(error.strerror or str(error)).lower()}"
