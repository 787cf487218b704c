"""The health of devices as reported by drivers, and its form in the status of pods.

Source of facts: Kubernetes 1.36, package pkg/kubelet/cm/dra (healthinfo), whose file `dra_health_state` is read and
written here. A device becomes Unknown if it is not reported within its timeout.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from apiserver.api.objects import Json
from controllers.kubelet.dra.cache import ClaimCache
from controllers.resourceclaims.pods import ClaimReferenceError, claim_reference

log = logging.getLogger(__name__)
FILE_NAME: Final = "dra_health_state"
TIMEOUT: Final = timedelta(seconds=30)
#: Maximum size of a message in bytes.
_LONGEST: Final = 1024
_NANOSECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Health:
    """The last report on one device."""

    pool: str
    device: str
    state: str = "Unknown"
    """Healthy, Unhealthy or Unknown."""
    message: str = ""
    timeout: timedelta = TIMEOUT
    updated: datetime = datetime(1, 1, 1, tzinfo=UTC)

    @property
    def comparable(self) -> tuple[str, str, timedelta]:
        """The values whose change counts as a change of health."""
        return self.state, self.message, self.timeout


class HealthSource(Protocol):
    """A source of device health."""

    def get(self, driver: str, pool: str, device: str, now: datetime) -> Health: ...


def report(pool: str, device: str, state: str, message: str, timeout: int) -> Health:
    """Build a device's health from a driver's report. A timeout (seconds) below 1 becomes the default."""
    encoded = message.encode()
    if len(encoded) > _LONGEST:
        # The limit is in bytes and may split a character, as in Go; JSON has U+FFFD in its place.
        message = encoded[: _LONGEST - 3].decode("utf-8", "replace") + "..."
    return Health(pool, device, state, message, timedelta(seconds=timeout) if timeout > 0 else TIMEOUT)


class HealthCache:
    """The devices by driver. `directory` has the file; None disables it."""

    def __init__(self, directory: Path | None = None) -> None:
        self._path = directory / FILE_NAME if directory else None
        self._drivers: dict[str, dict[tuple[str, str], Health]] = {}
        if self._path is not None:
            self._load(self._path)

    def get(self, driver: str, pool: str, device: str, now: datetime) -> Health:
        """Return the current health; Unknown if the last report is stale."""
        known = self._drivers.get(driver, {}).get((pool, device))
        return known if known is not None and not _stale(known, now) else Health(pool, device)

    def update(self, driver: str, reported: Iterable[Health], now: datetime) -> list[Health]:
        """Store a driver's report. Return the changed devices."""
        known = self._drivers.setdefault(driver, {})
        changed, seen = [], set()
        for item in reported:
            key, item = (item.pool, item.device), replace(item, updated=now)
            seen.add(key)
            before = known.get(key)
            if before is None or before.comparable != item.comparable:
                changed.append(item)
            known[key] = item
        for key, item in known.items():
            if key not in seen and item.state != "Unknown" and _stale(item, now):
                known[key] = replace(item, state="Unknown", message="", updated=now)
                changed.append(known[key])
        if changed:
            self._save()
        return changed

    def clear(self, driver: str) -> None:
        """Remove all devices of a driver."""
        self._drivers.pop(driver, None)
        self._save()

    def document(self) -> Json:
        """Render the file's content."""
        return {
            driver: {"Devices": {f"{pool}/{device}": _entry(item) for (pool, device), item in sorted(known.items())}}
            for driver, known in sorted(self._drivers.items())
        }

    def _load(self, path: Path) -> None:
        try:
            document = json.loads(path.read_bytes())
            self._drivers = {driver: dict(_devices(entry)) for driver, entry in (document or {}).items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("cannot read %s, device health is unknown: %s", path, error)

    def _save(self) -> None:
        if self._path is None:
            return
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(prefix=f"{FILE_NAME}.tmp", dir=self._path.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self.document(), file, separators=(",", ":"))
            Path(temporary).replace(self._path)
        except OSError as error:
            log.warning("cannot write %s, device health will be lost on restart: %s", self._path, error)
            if temporary is not None:
                with suppress(OSError):
                    Path(temporary).unlink()


def pods_of(cache: ClaimCache, driver: str, changed: Iterable[Health]) -> set[str]:
    """Return the uids of pods whose claims contain one of the changed devices."""
    devices = {(item.pool, item.device) for item in changed}
    return {
        uid
        for info in cache
        for uid in info.pods
        if any((device.pool, device.device) in devices for device in (info.drivers or {}).get(driver, ()))
    }


def container_statuses(
    pod: Json,
    statuses: Iterable[Json],
    cache: ClaimCache,
    health: HealthSource,
    now: datetime,
    *,
    messages: bool = True,
) -> list[Json]:
    """Add `allocatedResourcesStatus` with the devices of each claim that the container uses."""
    containers = {container["name"]: container for container in pod["spec"]["containers"]}
    names = _claim_names(pod)
    found = []
    for status in statuses:
        used = containers.get(status["name"], {}).get("resources", {}).get("claims") or ()
        if used:
            by_name = {item["name"]: item for item in status.get("allocatedResourcesStatus") or ()}
            for entry in used:
                request = entry.get("request") or ""
                info = cache.get(pod["metadata"]["namespace"], names.get(entry["name"], ""))
                if info is None:
                    continue
                base = request.partition("/")[0]
                devices = (
                    _resource_health(driver, device, health.get(driver, device.pool, device.device, now), messages)
                    for driver, device in info.devices(base)
                )
                name = f"claim:{entry['name']}/{request}" if request else f"claim:{entry['name']}"
                by_name[name] = {"name": name, "resources": _unique(devices)}
            status = {**status, "allocatedResourcesStatus": [item for item in by_name.values() if item["resources"]]}
        found.append(status)
    return found


def _claim_names(pod: Json) -> dict[str, str]:
    """Return the claim name by entry of `spec.resourceClaims`, without unresolvable entries."""
    names: dict[str, str] = {}
    for entry in pod["spec"].get("resourceClaims") or ():
        with suppress(ClaimReferenceError):
            names[entry["name"]] = claim_reference(pod, entry).name or ""
    return names


def _resource_health(driver: str, device: Any, known: Health, messages: bool) -> Json:
    ident = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
    shown = {"resourceID": ident, "health": known.state}
    return {**shown, "message": known.message} if messages and known.message else shown


def _unique(devices: Iterable[Json]) -> list[Json]:
    first: dict[str, Json] = {}
    for device in devices:
        first.setdefault(device["resourceID"], device)
    return list(first.values())


def _stale(item: Health, now: datetime) -> bool:
    return now - item.updated > item.timeout


def _entry(item: Health) -> Json:
    stamp = item.updated.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".") + "Z"
    return {
        "PoolName": item.pool,
        "DeviceName": item.device,
        "Health": item.state,
        "LastUpdated": stamp,
        "HealthCheckTimeout": item.timeout // timedelta(microseconds=1) * _NANOSECOND,
        "Message": item.message,
    }


def _devices(entry: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Health]]:
    for item in (entry.get("Devices") or {}).values():
        timeout = timedelta(microseconds=item.get("HealthCheckTimeout", 0) / _NANOSECOND) or TIMEOUT
        found = Health(
            item.get("PoolName", ""),
            item.get("DeviceName", ""),
            item.get("Health", "Unknown"),
            item.get("Message", ""),
            timeout,
            _moment(item["LastUpdated"]),
        )
        yield (found.pool, found.device), found


def _moment(text: str) -> datetime:
    """Parse a time written by Go, with up to nine fractional digits."""
    head, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return datetime.fromisoformat(f"{head}{dot}{digits[:6]}{rest[len(digits) :]}").astimezone(UTC)
