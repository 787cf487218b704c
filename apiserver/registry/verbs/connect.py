"""Requests that are forwarded to the target of an object: exec, attach, portforward, proxy, with any method.

Admission sees the request's options as an object of their own kind. Log is read like an object and not admitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.errors.status import bad_request
from apiserver.registry.store.admission import Attributes
from apiserver.registry.verbs.pipeline import admit, validate
from apiserver.runtime.offload import on_loop

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.resource import Subresource
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request, Response, Stream

__all__ = ["connect"]


@on_loop
async def connect(store: Store, ctx: Context, request: Request, subresource: Subresource) -> Response | Stream:
    assert subresource.connect is not None, "the caller looked"
    if "dryRun" in request.params and subresource.connect_options is not None:
        raise bad_request("dryRun is not supported")
    if subresource.connect_options is not None:
        attributes = Attributes("CONNECT", ctx, ctx.name, subresource.connect_options(request))
        handlers = store.handlers("CONNECT", ctx)
        await admit(handlers, attributes)
        await validate(handlers, attributes)
    return await subresource.connect(store, ctx, request)
