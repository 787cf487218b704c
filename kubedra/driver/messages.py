"""The messages between a kubelet and its drivers, both ways.

Source of facts: Kubernetes 1.36, staging/src/k8s.io/kubelet/pkg/apis: pluginregistration/v1, dra/v1, dra/v1beta1 (the
same without share ids) and dra-health/v1alpha1. Every class encodes itself and decodes its own bytes; decoding raises
`wire.WireError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from kubedra.driver import wire

REGISTRATION: Final = "pluginregistration.Registration"
#: Service names in `supported_versions` → service names in method paths.
DRA_SERVICES: Final[Mapping[str, str]] = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}
HEALTH_SERVICE: Final = "v1alpha1.DRAResourceHealth"
PLUGIN_TYPE: Final = "DRAPlugin"
HEALTH_STATES: Final = ("Unknown", "Healthy", "Unhealthy")


@dataclass(frozen=True, slots=True)
class Empty:
    """InfoRequest, RegistrationStatusResponse, NodeWatchResourcesRequest."""

    def encode(self) -> bytes:
        return b""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        for _ in wire.fields(data):
            pass
        return cls()


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """The driver behind a registration socket. An empty endpoint is that socket itself."""

    type: str = ""
    name: str = ""
    endpoint: str = ""
    supported_versions: tuple[str, ...] = ()

    def encode(self) -> bytes:
        head = wire.field(1, self.type) + wire.field(2, self.name) + wire.field(3, self.endpoint)
        return head + wire.repeated(4, self.supported_versions)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        one, versions = _split(data, 4)
        return cls(_text(one, 1), _text(one, 2), _text(one, 3), tuple(map(wire.text, versions)))


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """The kubelet's result of a registration."""

    registered: bool = False
    error: str = ""

    def encode(self) -> bytes:
        return wire.field(1, int(self.registered)) + wire.field(2, self.error)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        one, _ = _split(data)
        return cls(bool(wire.number(one.get(1, 0))), _text(one, 2))


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a call."""

    namespace: str = ""
    uid: str = ""
    name: str = ""

    def encode(self) -> bytes:
        return wire.field(1, self.namespace) + wire.field(2, self.uid) + wire.field(3, self.name)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        one, _ = _split(data)
        return cls(_text(one, 1), _text(one, 2), _text(one, 3))


@dataclass(frozen=True, slots=True)
class Claims:
    """NodePrepareResourcesRequest and NodeUnprepareResourcesRequest."""

    claims: tuple[Claim, ...] = ()

    def encode(self) -> bytes:
        return wire.repeated(1, (claim.encode() for claim in self.claims))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        _, claims = _split(data, 1)
        return cls(tuple(Claim.decode(wire.body(claim)) for claim in claims))


@dataclass(frozen=True, slots=True)
class Device:
    """A prepared device. v1beta1 has no share id."""

    requests: tuple[str, ...] = ()
    pool: str = ""
    device: str = ""
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None

    def encode(self) -> bytes:
        head = wire.repeated(1, self.requests) + wire.field(2, self.pool) + wire.field(3, self.device)
        share = b"" if self.share_id is None else wire.message(5, self.share_id.encode())
        return head + wire.repeated(4, self.cdi_ids) + share

    @classmethod
    def decode(cls, data: bytes) -> Self:
        one, many = _gather(data, 1, 4)
        share = _text(one, 5) if 5 in one else None
        requests, cdi_ids = (tuple(map(wire.text, many[number])) for number in (1, 4))
        return cls(requests, _text(one, 2), _text(one, 3), cdi_ids, share)


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """NodePrepareResourceResponse: the driver's result for one claim."""

    devices: tuple[Device, ...] = ()
    error: str = ""

    def encode(self) -> bytes:
        return wire.repeated(1, (device.encode() for device in self.devices)) + wire.field(2, self.error)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        one, devices = _split(data, 1)
        return cls(tuple(Device.decode(wire.body(device)) for device in devices), _text(one, 2))


@dataclass(frozen=True, slots=True)
class PrepareResults:
    """NodePrepareResourcesResponse, by claim UID."""

    claims: Mapping[str, PrepareResult] = field(default_factory=dict)

    def encode(self) -> bytes:
        return _encode_map({uid: result.encode() for uid, result in self.claims.items()})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls({uid: PrepareResult.decode(result) for uid, result in _decode_map(data)})


@dataclass(frozen=True, slots=True)
class UnprepareResults:
    """NodeUnprepareResourcesResponse: the errors by claim UID, empty on success."""

    claims: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        return _encode_map({uid: wire.field(1, error) for uid, error in self.claims.items()})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls({uid: _text(_split(result)[0], 1) for uid, result in _decode_map(data)})


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of one device: Unknown, Healthy or Unhealthy. `timeout` in seconds; 0 means 30."""

    pool: str = ""
    device: str = ""
    health: str = "Unknown"
    updated: int = 0
    timeout: int = 0
    message: str = ""

    def encode(self) -> bytes:
        identifier = wire.field(1, self.pool) + wire.field(2, self.device)
        state = wire.field(2, HEALTH_STATES.index(self.health)) + wire.field(3, self.updated)
        return wire.message(1, identifier) + state + wire.field(4, self.timeout) + wire.field(5, self.message)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        one, _ = _split(data)
        identifier, _ = _split(wire.body(one.get(1, b"")))
        state = wire.number(one.get(2, 0))
        health = HEALTH_STATES[state] if 0 <= state < len(HEALTH_STATES) else HEALTH_STATES[0]
        updated, timeout = wire.number(one.get(3, 0)), wire.number(one.get(4, 0))
        return cls(_text(identifier, 1), _text(identifier, 2), health, updated, timeout, _text(one, 5))


@dataclass(frozen=True, slots=True)
class HealthReport:
    """NodeWatchResourcesResponse."""

    devices: tuple[DeviceHealth, ...] = ()

    def encode(self) -> bytes:
        return wire.repeated(1, (device.encode() for device in self.devices))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        _, devices = _split(data, 1)
        return cls(tuple(DeviceHealth.decode(wire.body(device)) for device in devices))


_Fields = dict[int, int | bytes]


def _gather(data: bytes, *repeated: int) -> tuple[_Fields, dict[int, list[int | bytes]]]:
    """Return the last value of each field by number, and all values of the repeated fields."""
    one: _Fields = {}
    many: dict[int, list[int | bytes]] = {number: [] for number in repeated}
    for number, value in wire.fields(data):
        if number in many:
            many[number].append(value)
        else:
            one[number] = value
    return one, many


def _split(data: bytes, repeated: int = 0) -> tuple[_Fields, list[int | bytes]]:
    one, many = _gather(data, repeated)
    return one, many[repeated]


def _text(fields: _Fields, number: int) -> str:
    return wire.text(fields.get(number, b""))


def _encode_map(entries: Mapping[str, bytes]) -> bytes:
    return wire.repeated(1, (wire.field(1, key) + wire.message(2, value) for key, value in entries.items()))


def _decode_map(data: bytes) -> Iterator[tuple[str, bytes]]:
    for entry in _split(data, 1)[1]:
        one, _ = _split(wire.body(entry))
        yield _text(one, 1), wire.body(one.get(2, b""))
