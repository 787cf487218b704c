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
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from controllers.kubelet.dra.cache import ClaimInfo
from controllers.kubelet.dra.drivers import PreparedDevice

FILE_NAME: Final = "dra_manager_state"
_KIND: Final = "DRACheckpoint"
_API_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"
#: Characters escaped by Go's encoder only.
_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


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
    """Return the inner document of a file. Raise ValueError for invalid JSON or a wrong checksum."""
    outer = _object(_parse(content.decode("utf-8", "replace")), "state.Checkpoint")
    empty = _go_json({"kind": _KIND, "apiVersion": _API_VERSION, "ClaimInfoStateList": None})
    data = outer.get("data")
    data = empty if data is None else data
    checksum = outer.get("checksum")
    checksum = zlib.crc32(empty.encode()) if checksum is None else checksum
    if not isinstance(data, str):
        raise ValueError(f"json: cannot unmarshal {_json_kind(data)} into Go struct field Data of type string")
    if isinstance(checksum, bool) or not isinstance(checksum, int) or not 0 <= checksum < 2**32:
        kind = _json_kind(checksum)
        kind = f"number {checksum}" if kind == "number" else kind
        raise ValueError(f"json: cannot unmarshal {kind} into Go struct field Checkpoint.Checksum of type uint32")
    if zlib.crc32(data.encode()) != checksum:
        raise ValueError("checkpoint is corrupted")
    return data


def claims_of(data: str) -> list[ClaimInfo]:
    """Parse the claims of an inner document. Raise ValueError."""
    entries = _object(_parse(data), "state.CheckpointData").get("claiminfostatelist")
    return [_info(_object(entry, "state.ClaimInfoState")) for entry in _list(entries, "ClaimInfoStateList")]


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
    states = entry.get("driverstate")
    drivers = None
    if states is not None:
        if not isinstance(states, dict):
            raise ValueError(f"json: cannot unmarshal {_json_kind(states)} into Go value of type state.DriverState")
        drivers = {name: _devices(_object(state, "state.DriverState")) for name, state in states.items()}
    pods = entry.get("poduids") or {}
    if not isinstance(pods, dict):
        raise ValueError(f"json: cannot unmarshal {_json_kind(pods)} into Go value of type sets.Set[string]")
    return ClaimInfo(_text(entry, "claimuid"), _text(entry, "claimname"), _text(entry, "namespace"), set(pods), drivers)


def _devices(state: dict[str, Any]) -> tuple[PreparedDevice, ...]:
    found = []
    for item in _list(state.get("devices"), "Devices"):
        device = _object(item, "state.Device")
        requests, cdi_ids = _list(device.get("requestnames"), "RequestNames"), _list(device.get("cdideviceids"), "CDI")
        share = device.get("shareid")
        found.append(
            PreparedDevice(_text(device, "poolname"), _text(device, "devicename"), (*requests,), (*cdi_ids,), share)
        )
    return tuple(found)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text):
            raise ValueError("unexpected end of JSON input") from None
        place = "looking for beginning of value" if "Expecting value" in error.msg else "in JSON"
        raise ValueError(f"invalid character {text[error.pos]!r} {place}") from None


def _object(value: Any, kind: str) -> dict[str, Any]:
    """Return a JSON object with lower-case names, as Go matches them; null becomes empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"json: cannot unmarshal {_json_kind(value)} into Go value of type {kind}")
    return {name.lower(): item for name, item in value.items()}


def _list(value: Any, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"json: cannot unmarshal {_json_kind(value)} into Go struct field {field}")
    return value


def _text(entry: dict[str, Any], field: str) -> str:
    value = entry.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"json: cannot unmarshal {_json_kind(value)} into Go struct field {field} of type string")
    return value or ""


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "number"


def _go_json(value: Any) -> str:
    """Render compact JSON as Go does: UTF-8 with `<`, `>`, `&`, U+2028 and U+2029 escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def _os_text(operation: str, path: Path, error: OSError) -> str:
    return f"{operation} {path}: {(error.strerror or str(error)).lower()}"
