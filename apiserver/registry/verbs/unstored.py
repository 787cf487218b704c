"""POST of objects that are not stored themselves: reviews, bindings, evictions.

`prepare_unstored` has the steps before the kind's own function. `validate_admission` calls validating admission after
the kind's validation. The module of a parent object calls admission for its subresources (pods/binding).
`build_manager_setter` sets their managers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.codec.codec import zero
from apiserver.registry.body.convert import Form
from apiserver.registry.definition.metadata import ensure_namespace, wipe_system_fields
from apiserver.registry.definition.resource import same_form
from apiserver.registry.fields.managers import FieldTracker, Manager
from apiserver.registry.store.admission import Attributes
from apiserver.registry.verbs.pipeline import admit, validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from apiserver.api.objects import Json
    from apiserver.api.schema.language import Struct
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store

__all__ = ["build_manager_setter", "prepare_unstored", "validate_admission"]


async def prepare_unstored(store: Store, ctx: Context, body: Json) -> None:
    """Clear the server's fields, set the manager, and call mutating admission.

    Raises StatusError.
    """
    metadata = body["metadata"]
    wipe_system_fields(metadata)
    ensure_namespace(metadata, ctx.namespace if store.resource.namespaced else "")
    writer = Manager(ctx.manager, "Update", store.bodies[ctx.version, ""].api_version, "")
    store.tracker.track_create(body, writer, ctx.now)
    await admit(store.handlers("CREATE", ctx), _attributes(ctx, body))


async def validate_admission(store: Store, ctx: Context, body: Json) -> None:
    """Call validating admission. Raise StatusError."""
    await validate(store.handlers("CREATE", ctx), _attributes(ctx, body))


def build_manager_setter(kind: Struct, version: str, *resets: str) -> Callable[[Context, Json], None]:
    """Return a function that sets the manager in objects posted to ctx.subresource.

    `version` is their apiVersion; `resets` are fields without managers.
    """
    form = Form(kind, same_form, same_form, lambda: zero(kind))
    tracker = FieldTracker(lambda _: form, lambda _: resets)

    def set_manager(ctx: Context, body: Json) -> None:
        tracker.track_create(body, Manager(ctx.manager, "Update", version, ctx.subresource), ctx.now)

    return set_manager


def _attributes(ctx: Context, body: Json) -> Attributes:
    return Attributes("CREATE", ctx, ctx.name or body["metadata"].get("name", ""), body)
