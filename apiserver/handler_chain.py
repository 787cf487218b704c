"""The chain of a server's handlers, built in the order that `apiserver.http.handlers.chain` describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apiserver.authorization.authorizer import Authorizer
from apiserver.http.fairness.handler import Fairness
from apiserver.http.handlers.authentication import Authentication
from apiserver.http.handlers.authorization import Authorization
from apiserver.http.handlers.chain import Count, Errors, HandlerChain, Link, Sink
from apiserver.http.handlers.dispatch import Dispatch
from apiserver.http.handlers.fixed_headers import FixedHeaders
from apiserver.http.handlers.routes import Routes
from apiserver.registry.body.decode import Kinds

if TYPE_CHECKING:
    from apiserver.http.audit.events import Write
    from apiserver.http.sinks.coverage import Coverage
    from apiserver.http.tracing.export import Exporter
    from apiserver.options.settings import Settings
    from apiserver.options.tracing import TracingSettings

__all__ = ["ChainConfig", "build_exporter", "build_handler_chain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainConfig:
    """The settings of a server, and the parts that its handlers share with the rest of it."""

    settings: Settings
    authentication: Authentication
    authorizer: Authorizer
    fairness: Fairness
    dispatch: Dispatch
    routes: Routes
    kinds: Kinds
    #: Writes an event of the audit log.
    audit: Write
    #: Receives the spans of traced requests; None if tracing is off.
    exporter: Exporter | None
    #: Counts every response.
    count: Count
    #: Receive the record of each request.
    sinks: Sequence[Sink]
    #: The recorder of --coverage; None without it.
    coverage: Coverage | None


def build_handler_chain(config: ChainConfig) -> HandlerChain:
    """Build the chain. Links without work are left out."""
    settings = config.settings
    links = (
        _headers(config),
        Errors(),
        _coverage(config),
        _audit_of_strangers(config),
        config.authentication,
        _audit(config),
        _tracing(config),
        config.fairness if settings.traffic.seats else None,
        Authorization(config.authorizer) if settings.access.restricted else None,
        _cbor(config),
    )
    present = [link for link in links if link is not None]
    return HandlerChain(*present, last=config.dispatch, count=config.count, sinks=config.sinks)


def build_exporter(tracing: TracingSettings | None, instance: str) -> Exporter | None:
    """Build the exporter of this server's spans; None if tracing is off."""
    if tracing is None:
        return None
    from apiserver.http.tracing.export import Exporter

    return Exporter(tracing.endpoint, {"service.name": "apiserver", "service.instance.id": instance})


def _headers(config: ChainConfig) -> Link | None:
    value = config.settings.network.transport_security
    return FixedHeaders(("Strict-Transport-Security", value)) if value else None


# Few servers have the links below, so their modules are imported only on use.


def _coverage(config: ChainConfig) -> Link | None:
    if config.coverage is None:
        return None
    from apiserver.http.handlers.coverage import CoverageLink

    return CoverageLink(config.coverage)


def _audit_of_strangers(config: ChainConfig) -> Link | None:
    policy = config.settings.audit_policy
    if policy is None:
        return None
    from apiserver.http.audit.handler import FailedAuthenticationAudit

    return FailedAuthenticationAudit(policy, config.kinds, config.audit)


def _audit(config: ChainConfig) -> Link | None:
    policy = config.settings.audit_policy
    if policy is None:
        return None
    from apiserver.http.audit.handler import Audit

    return Audit(policy, config.kinds, config.authorizer, config.audit)


def _tracing(config: ChainConfig) -> Link | None:
    tracing = config.settings.tracing
    if tracing is None or config.exporter is None:
        return None
    from apiserver.http.tracing.handler import Tracing

    return Tracing(config.exporter, tracing.per_million)


def _cbor(config: ChainConfig) -> Link | None:
    if not config.settings.features.enabled("CBORServingAndStorage"):
        return None
    from apiserver.http.handlers.cbor import Cbor

    return Cbor(config.routes)
