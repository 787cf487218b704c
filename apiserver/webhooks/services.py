"""Where the services of webhooks are: `--service-address NAMESPACE/NAME[:PORT]=HOST:PORT`.

No pod runs behind a service here, so whoever runs a webhook beside the server says where it listens.
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
        """The name that its certificate has to be for."""
        return f"{self.name}.{self.namespace}.svc"


#: Host and port by service.
Services = Mapping[Service, tuple[str, int]]


def parse_service_addresses(texts: Iterable[str]) -> dict[Service, tuple[str, int]]:
    """The addresses of services. Raises ValueError with a line that names what is wrong."""
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
    """Host and port of a service. Raises LookupError with the reason why there are none."""
    found = services.get(service)
    if found is not None:
        return found
    if not exists(service.namespace, service.name):
        raise LookupError(f'service "{service.name}" not found')
    raise LookupError(
        f'no address is known for port {service.port} of service "{service.namespace}/{service.name}": name one with'
        f" --service-address={service.namespace}/{service.name}:{service.port}=HOST:PORT"
    )
