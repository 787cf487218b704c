"""Prepare and validate objects of a custom resource: generation, status, schema, list types, rules, scale.

Facts: apiextensions-apiserver, pkg/registry/customresource. Objects are validated in the version of the request, and
pruned to the storage version before they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Path, go_quote, invalid
from apiserver.api.errors.status import forbidden
from apiserver.api.objects import Json
from apiserver.api.patch.goformat import go_format
from apiserver.api.validation.structural import ABSENT, Structural, blocking
from apiserver.api.values.names import label_key
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.customresources.coercion import Coercion

if TYPE_CHECKING:
    from apiserver.resources.customresources.rulechecks import RuleChecks

__all__ = ["CustomStrategy", "Rules", "nested"]


_STANDARD: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_MOST: Final = 2**31 - 1


class Rules(NamedTuple):
    """The rules of one version.

    `schema` and `status` are the schemas of the object and its status. `defaults_status`: defaults create a status.
    """

    schema: Structural | None
    coercion: Coercion
    status: Structural | None = None
    has_status: bool = False
    defaults_status: bool = False
    scale: Json | None = None
    checks: RuleChecks | None = None


class CustomStrategy(Strategy):
    checks_finalizer_names = False
    revalidates_metadata = False

    def __init__(self, rules: Mapping[str, Rules], storage: str, terminating: Callable[[], bool]) -> None:
        """Create the strategy.

        `storage` is the version of stored objects, "" if they have the request's version. `terminating` returns whether
        the definition is being deleted, which forbids creates.
        """
        self._rules, self._storage, self._terminating = rules, storage, terminating

    def _of(self, ctx: Context) -> Rules:
        return self._rules[ctx.version]

    def takes_long(self, version: str) -> bool:
        checks = self._rules[version].checks
        return checks is not None and checks.take_long

    def reset_fields_of(self, subresource: str) -> tuple[str, ...]:
        if subresource == "status":
            return ("metadata", "spec")
        apart = any(rules.has_status for rules in self._rules.values())
        return ("status",) if apart and not subresource else ()

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        if self._terminating():
            cause = "create not allowed while custom resource definition is terminating"
            raise forbidden(ctx.resource.plural, ctx.resource.group, obj["metadata"].get("name", ""), cause)
        if self._of(ctx).has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        if self._differs(ctx):  # an unchanged apply returns the stored form
            kept = self._shown(ctx, obj)
            obj.clear()
            obj.update(kept)
        if self._of(ctx).has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]
        if _content(obj) != _content(self._shown(ctx, old)):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        status, managers = obj.get("status", ABSENT), obj["metadata"].get("managedFields")
        kept = self._shown(ctx, old)
        metadata = {name: value for name, value in kept["metadata"].items() if name != "managedFields"}
        if managers:
            metadata["managedFields"] = managers
        obj.clear()
        obj.update({name: value for name, value in kept.items() if name != "status"}, metadata=metadata)
        if status is not ABSENT:
            obj["status"] = status

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        rules = self._of(ctx)
        return self._by_schema(ctx, rules, obj, ABSENT)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self._by_schema(ctx, self._of(ctx), obj, self._shown(ctx, old))

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        rules, errors = self._of(ctx), []
        before = self._shown(ctx, old)
        if rules.schema is None:
            return _scale_status(rules.scale, obj)
        if "status" in obj and rules.status is not None:
            errors += rules.status.limits(obj["status"], before.get("status", ABSENT), Path("status"))
        errors += _scale_status(rules.scale, obj)
        errors += rules.schema.list_types(self._typed(ctx, obj), self._typed(ctx, before))
        return errors + self._by_rules(ctx, rules, self._typed(ctx, obj), self._typed(ctx, before), errors)

    def _by_schema(self, ctx: Context, rules: Rules, obj: Json, old: Any) -> list[FieldError]:
        value, before = self._typed(ctx, obj), old if old is ABSENT else self._typed(ctx, old)
        if value["kind"] != ctx.resource.kind:  # upstream does not validate its values then
            errors = [invalid(Path("kind"), value["kind"], f"must be {ctx.resource.kind}")]
        else:
            errors = _scale_spec(rules.scale, obj) + _scale_status(rules.scale, obj)
            if rules.schema is not None:
                errors = rules.schema.limits(value, before, Path()) + errors
        if rules.schema is None:
            return errors
        errors += rules.schema.embedded(value, _metadata)
        errors += rules.schema.list_types(value, before)
        return errors + self._by_rules(ctx, rules, value, before, errors)

    def _by_rules(
        self, ctx: Context, rules: Rules, value: Json, before: Any, errors: list[FieldError]
    ) -> list[FieldError]:
        """Evaluate the schema's rules, unless other errors make that impossible."""
        checks = rules.checks
        if checks is None:
            return []
        if (blocked := blocking(errors + self._metadata_errors(ctx, value, before))) is not None:
            return [blocked]
        found, warnings = checks.asked(Path(), value, before)
        ctx.warnings += warnings
        return found

    def _metadata_errors(self, ctx: Context, value: Json, before: Any) -> list[FieldError]:
        """Return the metadata errors of a new object that block its rules.

        The store has reported them already, so metadata is only validated again if it may be too long or incomplete.
        """
        metadata = value["metadata"]
        if before is not ABSENT or (metadata.get("name") and _WEIGHTY.isdisjoint(metadata)):
            return []
        return self.validate_metadata(ctx, metadata, ctx.resource.namespaced)

    def _typed(self, ctx: Context, obj: Json) -> Json:
        """Return the object with kind and apiVersion, as its schema describes it."""
        resource = ctx.resource
        return {"apiVersion": f"{resource.group}/{ctx.version}", "kind": resource.kind, **obj}

    def _shown(self, ctx: Context, old: Json) -> Json:
        """Return the stored object in the request's version."""
        return self._of(ctx).coercion.pruned(old)[0] if self._differs(ctx) else old

    def _differs(self, ctx: Context) -> bool:
        return bool(self._storage) and ctx.version != self._storage

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return _finalizer_warnings(obj["metadata"].get("finalizers"), ())

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return _finalizer_warnings(obj["metadata"].get("finalizers"), old["metadata"].get("finalizers"))

    def before_storing(self, ctx: Context, obj: Json) -> None:
        """Prune to the storage version and set its defaults in place.

        The defaults may add a status, which requests of the object itself cannot set.
        """
        if self._differs(ctx):
            coercion = self._rules[self._storage].coercion
            kept, _ = coercion.pruned(obj)
            coercion.default(kept)
            obj.clear()
            obj.update(kept)
        elif self._storage and self._of(ctx).defaults_status and "status" not in obj:
            self._of(ctx).coercion.default(obj)


#: Metadata fields that may be too long or incomplete.
_WEIGHTY: Final = frozenset({"annotations", "ownerReferences"})


def _content(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("metadata", "kind", "apiVersion")}


def _metadata(path: Path, metadata: Json) -> list[FieldError]:
    """Validate the metadata of an embedded object."""
    from apiserver.registry.definition.metadata import validate_metadata

    named = {**metadata, "name": metadata.get("name") or "fakename"}
    return validate_metadata(named, bool(metadata.get("namespace")), "path-segment", kind_rules=False, path=path)


def _finalizer_warnings(finalizers: Any, known: Any) -> list[str]:
    found: list[str] = []
    for name in sorted(set(finalizers or ()) - set(known or ())):
        shown = f"metadata.finalizers: {go_quote(name)}: "
        found += [shown + text for text in label_key(name)]
        if "/" not in name and name not in _STANDARD:
            path = " including a path (/)" if "." in name else ""
            found.append(
                f"{shown}prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other"
                " finalizer writers"
            )
    return found


class Misplaced(ValueError):
    """A value on a path has the wrong type. The message is upstream's."""


def nested(obj: Json, path: str, wanted: str) -> Any:
    """Return the value at a dotted path, None if there is none. Raise Misplaced.

    `wanted` is the required Go type.
    """
    steps = path.removeprefix(".").split(".")
    value: Any = obj
    for step in steps:
        if not isinstance(value, dict):
            if value is None:
                return None
            raise Misplaced(
                f".{'.'.join(steps)} accessor error: {go_format(value)} is of the type {_go_type(value)}, expected"
                " map[string]interface{}"
            )
        if step not in value:
            return None
        value = value[step]
    fits = isinstance(value, str) if wanted == "string" else type(value) is int
    if not fits:
        raise Misplaced(
            f".{'.'.join(steps)} accessor error: {go_format(value)} is of the type {_go_type(value)}, expected {wanted}"
        )
    return value


def _go_type(value: Any) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", dict: "map[string]interface {}"}
    return names.get(type(value), "<nil>" if value is None else "[]interface {}")


def _count(obj: Json, path: str) -> list[FieldError]:
    try:
        found = nested(obj, path, "int64") or 0
    except Misplaced as error:
        return [invalid(Path(path), 0, str(error))]
    if found < 0:
        return [invalid(Path(path), found, "should be a non-negative integer")]
    if found > _MOST:
        return [invalid(Path(path), found, f"should be less than or equal to {_MOST}")]
    return []


def _scale_spec(scale: Json | None, obj: Json) -> list[FieldError]:
    return _count(obj, scale["specReplicasPath"]) if scale else []


def _scale_status(scale: Json | None, obj: Json) -> list[FieldError]:
    if not scale:
        return []
    errors = _count(obj, scale["statusReplicasPath"])
    path = scale.get("labelSelectorPath")
    if path is not None:
        try:
            nested(obj, path, "string")
        except Misplaced as error:
            errors.append(invalid(Path(path), "", str(error)))
    return errors
