"""The rules of a kind: hooks with defaults.

`apiserver.registry.verbs.pipeline` has all steps of a write in order.

    create   prepare_for_create → validate_first → validate_metadata → validate → warnings_on_create
    update   prepare_for_update → validate_first → validate_metadata → validate_update → warnings_on_update
    status   like update, with prepare_for_status_update, validate_status_update and warnings_on_status_update
    other    subresources written like the object: prepare_for_subresource, validate_subresource
    all      canonicalize, and before_storing after validating admission
    delete   check_delete → starts_deletion or may_remove → deletion_grace

The pipeline validates metadata before the kind (`name_rule`, `checks_finalizer_names`), so `validate*` covers the rest.
It restores metadata.generation, resourceVersion, uid, creation and deletion times around `prepare_*`. A kind with a
generation increments it in `prepare_*`.

Objects are dicts in hub form. `prepare_*` may change `obj` in place; `validate*` must not. Hooks do no I/O. They read
other objects (a namespace's labels) with `Context.lookup`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.objects import Json
from apiserver.registry.definition.metadata import validate_metadata

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import DeleteOptions


def find_override(strategy: Strategy, hook: str) -> Any:
    """Return the kind's own hook, or None for the default, which need not be called."""
    return None if getattr(type(strategy), hook) is getattr(Strategy, hook) else getattr(strategy, hook)


class Strategy:
    """Hooks with upstream's defaults; a kind overrides the ones that differ.

    The store puts the errors of `validate_first` first, then those of the kind's metadata rules, then those of
    `validate*`.
    """

    #: "subdomain" | "label" | "path-segment": the syntax of metadata.name (apiserver.api.values.names).
    name_rule: str = "subdomain"
    #: Fields (dotted) that managedFields of the main resource / of status never own.
    reset_fields: tuple[str, ...] = ()
    status_reset_fields: tuple[str, ...] = ("metadata", "spec")
    #: The kind's validation covers metadata (core Events leave it to the generic rules).
    checks_metadata: bool = True
    #: The default grace period of DELETE in seconds; None: deletion is immediate.
    grace_period: int | None = None
    #: metadata.finalizers must be standard or qualified names (kinds validated by pkg/apis/core/validation's
    #: ValidateObjectMeta).
    checks_finalizer_names: bool = True
    #: The kind's update validation validates the whole metadata again, so each error is a cause twice.
    revalidates_metadata: bool = True
    #: The kind's update validation compares metadata with the stored one, like the generic rules.
    compares_metadata: bool = True
    #: The kind's validation of status updates covers metadata.
    checks_status_metadata: bool = True
    #: Whether metadata.generateName must be a valid prefix by the kind's own rule. If not, only the generated name is
    #: checked.
    checks_generate_name: bool = True
    #: The effect of a DELETE without propagation policy on dependents: "background", "orphan", or "unsupported" (no
    #: finalizers at all).
    garbage_collection: str = "background"
    #: Whether a deletion begun by `starts_deletion` sets the finalizers of its propagation policy.
    begins_with_finalizers: bool = True
    #: The kind's rules call `Context.authorize`. If a webhook authorizes, they run in a thread that may block.
    asks_authorizer: bool = False
    #: Failed preconditions of DELETE are reported with the plural and the storage's words (namespaces, definitions).
    storage_preconditions: bool = False

    def name_rule_of(self, ctx: Context) -> str:
        """Return the rule for new names; a feature gate may change it."""
        return self.name_rule

    def validate_metadata(self, ctx: Context, metadata: Json, namespaced: bool) -> list[FieldError]:
        """Validate the metadata of a new or changed object by the kind's own rules."""
        if not self.checks_generate_name and "generateName" in metadata:
            metadata = {name: value for name, value in metadata.items() if name != "generateName"}
        rule = self.name_rule_of(ctx)
        return validate_metadata(metadata, namespaced, rule, kind_rules=self.checks_finalizer_names)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None: ...

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        """Return the errors that precede those of the metadata.

        It runs on create (`old` None), update and status update (`ctx.subresource`).
        """
        return []

    def takes_long(self, version: str) -> bool:
        """Return whether validation of an object may block other requests, even if the request is small."""
        return False

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return []

    def canonicalize(self, ctx: Context, obj: Json) -> None:
        """Change an object in place after validation, on create and update (upstream's Canonicalize)."""

    def before_storing(self, ctx: Context, obj: Json) -> None:
        """Change an admitted object in place as the last step, to remove parts without a stored form."""

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return []

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None: ...

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return []

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return []

    def warnings_on_status_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return []

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None: ...

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return []

    def check_delete(self, ctx: Context) -> None:
        """Raise an error to refuse the DELETE of one object, before its lookup.

        A DELETE of a collection does not call it.
        """

    def deletion_grace(self, ctx: Context, obj: Json, requested: int | None) -> int | None:
        """Return the seconds between DELETE and removal, or None to delete immediately.

        Facts: upstream's CheckGracefulDelete.
        """
        return None

    def prepare_for_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> None:
        """Prepare an update through a subresource other than status (finalize, resize, ephemeralcontainers)."""

    def validate_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> list[FieldError]:
        return []

    def reset_fields_of(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that a write to the main resource ("") or a subresource never owns."""
        if subresource == "status":
            return self.status_reset_fields
        return () if subresource else self.reset_fields

    def starts_deletion(self, ctx: Context, obj: Json, options: DeleteOptions) -> bool:
        """Return whether DELETE only starts the deletion, by a change of `obj` (phase, deletionTimestamp).

        The changed object is stored and returned, with the finalizers of dependents unless `begins_with_finalizers` is
        False.
        """
        return False

    def warnings_on_delete(self, ctx: Context, options: DeleteOptions) -> list[str]:
        """Return the warnings of a DELETE, of one object or of a collection, before any lookup."""
        return []

    def may_remove(self, obj: Json) -> bool:
        """Return whether an object without metadata.finalizers may be removed (namespaces: no spec.finalizers)."""
        return True

    def is_finalized(self, obj: Json, old: Json) -> bool:
        """Return whether an update removed the last finalizer of an object that waits for nothing else."""
        before = old["metadata"]
        held = obj["metadata"].get("finalizers") or before.get("deletionGracePeriodSeconds")
        return "deletionTimestamp" in before and not held and self.may_remove(obj)
