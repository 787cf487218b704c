"""Addresses of webhook services: `--service-address NAMESPACE/NAME[:PORT]=HOST:PORT`.

No pod runs behind a service here, so the flag names the address of a webhook that runs beside the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

__all__ = ["Service", "Services", "parse_service_addresses"]

HTTPS: Final = 443


class Service(NamedTuple):
    """A port of a service."""

    namespace: str
    name: str
    port: int = HTTPS

    @property
    def host(self) -> str:
        """The name in its certificate."""
        return f"{self.name}.{self.namespace}.svc"


#: Host and port by service.
Services = Mapping[Service, tuple[str, int]]


def parse_service_addresses(texts: Iterable[str]) -> dict[Service, tuple[str, int]]:
    """Parse the addresses of services. Raise ValueError with a line that names the error."""
    found: dict[Service, tuple[str, int]] = {}
    for text in texts:
        service, given, address = text.partition("=")
        namespace, slash, rest = service.partition("/")
        name, colon, port = rest.partition(":")
        host, _, local = address.rpartition(":")
        known = bool(given and slash and namespace and name and host)
        if not known or not _is_port(local) or (colon and not _is_port(port)):
            raise ValueError(
                f"--service-address: {text!r} is not of the form NAMESPACE/NAME:PORT=HOST:PORT,"
                " such as default/my-webhook:443=127.0.0.1:9443"
            )
        found[Service(namespace, name, int(port or HTTPS))] = (host.strip("[]"), int(local))
    return found


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def resolve(services: Services, service: Service, exists: Callable[[str, str], bool]) -> tuple[str, int]:
    """Return host and port of a service. Raise LookupError with the reason if there are none."""
    found = services.get(service)
    if found is not None:
        return found
    if not exists(service.namespace, service.name):
        raise LookupError(f'service "{service.name}" not found')
    raise LookupError(
        f'no address is known for port {service.port} of service "{service.namespace}/{service.name}": set it with'
        f" --service-address={service.namespace}/{service.name}:{service.port}=HOST:PORT"
    )
