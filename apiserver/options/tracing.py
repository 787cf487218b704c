"""kube-apiserver's flags for traces of requests and for egress to other servers.

Facts: component-base/tracing/api, apiserver/pkg/server/egressselector/config.go.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from apiserver.api.errors.field_errors import FieldError, aggregate, invalid
from apiserver.api.errors.field_errors import Path as Field
from apiserver.api.helpers.config_files import EGRESS, TRACING, ConfigurationError, read_configuration

__all__ = ["TracingSettings", "add_flags", "read_tracing"]

_GROUP: Final = "apiserver.config.k8s.io"
_TRACING: Final = dict.fromkeys((f"{_GROUP}/v1", f"{_GROUP}/v1beta1", f"{_GROUP}/v1alpha1"), TRACING)
_EGRESS: Final = dict.fromkeys(("apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"), EGRESS)
_NETWORKS: Final = ("controlplane", "etcd", "cluster")
_ALL: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Tracing settings.

    `endpoint` receives the spans: a host with a port, or the path of a unix socket. `per_million` is the sampling rate
    of requests without a sampling decision of their sender.
    """

    endpoint: tuple[str, int] | str
    per_million: int = 0


def add_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--tracing-config-file", type=Path, metavar="FILE",
        help="TracingConfiguration file: the OTLP/gRPC endpoint for request spans and the sampling rate",
    )  # fmt: skip
    group.add_argument(
        "--egress-selector-config-file", type=Path, metavar="FILE",
        help="EgressSelectorConfiguration file; only direct connections are supported",
    )  # fmt: skip


def read_tracing(args: argparse.Namespace) -> TracingSettings | None:
    """Parse the tracing flags. Raise ValueError naming the bad flag, in one line."""
    if args.egress_selector_config_file is not None:
        _check_egress(_read("--egress-selector-config-file", args.egress_selector_config_file, _EGRESS))
    if args.tracing_config_file is None:
        return None
    found = _read("--tracing-config-file", args.tracing_config_file, _TRACING)
    errors = []
    rate = found.get("samplingRatePerMillion") or 0
    if rate < 0:
        errors.append(invalid(Field("samplingRatePerMillion"), rate, "sampling rate must be positive"))
    if rate > _ALL:
        text = "sampling rate per million must be less than or equal to one million"
        errors.append(invalid(Field("samplingRatePerMillion"), rate, text))
    endpoint = _endpoint(found.get("endpoint") or "localhost:4317", errors)
    if errors:
        raise ValueError(f"--tracing-config-file {args.tracing_config_file}: {aggregate(errors)}")
    return TracingSettings(endpoint, rate)


def _read(flag: str, file: Path, kinds: Any) -> Any:
    try:
        return read_configuration(file.read_bytes(), kinds).obj
    except OSError as error:
        raise ValueError(f"{flag} {file}: {error.strerror}") from None
    except ConfigurationError as error:
        raise ValueError(f"{flag} {file}: {error}") from None


def _endpoint(text: str, errors: list[FieldError]) -> tuple[str, int] | str:
    """Parse the address for spans; append its mistakes to `errors`."""
    parts = urlsplit(text if "//" in text else f"dns://{text}")
    if parts.scheme == "unix":
        return parts.netloc + parts.path
    if parts.scheme == "unix-abstract":
        return f"\0{parts.netloc}{parts.path}"
    options = (
        "Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
    )
    if parts.scheme != "dns":
        errors.append(invalid(Field("endpoint"), text, f"unsupported scheme: {parts.scheme}.  {options}"))
        return ""
    try:
        # dns://SERVER/HOST:PORT names a name server, but it is not used here.
        host = urlsplit(f"dns://{parts.path.strip('/')}") if parts.path.strip("/") else parts
        return host.hostname or "localhost", host.port or 443
    except ValueError as error:
        errors.append(invalid(Field("endpoint"), text, str(error)))
        return ""


def _check_egress(found: Any) -> None:
    """Raise ValueError for unsupported or contradictory settings."""
    for each in found.get("egressSelections") or ():
        name, connection = each.get("name", ""), each.get("connection") or {}
        protocol = connection.get("proxyProtocol", "")
        start = f"--egress-selector-config-file: egressSelections {name!r}"
        if name not in _NETWORKS:
            raise ValueError(f"{start}: a network is one of {', '.join(_NETWORKS)}")
        if protocol in ("HTTPConnect", "GRPC"):
            raise ValueError(f"{start}: proxyProtocol {protocol} is not supported: use Direct")
        if protocol != "Direct":
            raise ValueError(f"{start}: proxyProtocol {protocol!r} is none of Direct, HTTPConnect, GRPC")
        if connection.get("transport") is not None:
            raise ValueError(f"{start}: direct connections have no transport")
