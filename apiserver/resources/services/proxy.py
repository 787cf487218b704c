"""Serve services/proxy: always an error, because emulated pods run no containers.

Missing endpoints are reported first, with upstream's texts. Facts: pkg/registry/core/service/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import StatusError, not_found
from apiserver.api.values.numbers import int64
from apiserver.resources.common.connect_options import split_target

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request, Response

__all__ = ["proxy"]


def _unavailable(text: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", text)


async def proxy(store: Store, ctx: Context, request: Request) -> Response:
    """Proxy to NAME, NAME:PORT or SCHEME:NAME:PORT."""
    _, name, port = split_target(ctx.name, "service")
    number = int64(port)
    if number is not None:
        service = ctx.lookup("", "services", ctx.namespace, name)
        if service is None:
            raise not_found("services", "", name)
        found = next((p for p in service["spec"].get("ports") or () if p.get("port") == number), None)
        if found is None:
            raise _unavailable(f"no service port {number} found for service {go_quote(name)}")
        port = found.get("name", "")
    endpoints = ctx.lookup("", "endpoints", ctx.namespace, name)
    if endpoints is None:  # upstream reports the service, not its Endpoints, as missing
        raise not_found("services", "", name)
    for subset in endpoints.get("subsets") or ():
        ports = [p.get("name", "") for p in subset.get("ports") or ()]
        if port in ports and any(address.get("targetRef") for address in subset.get("addresses") or ()):
            what = f"kubedra emulates nodes: the containers behind service {name} do not run, so nothing answers"
            raise StatusError(501, "NotImplemented", what)
    what = ctx.name if endpoints.get("subsets") else name  # upstream detects these two cases at different steps
    raise _unavailable(f"no endpoints available for service {go_quote(what)}")
