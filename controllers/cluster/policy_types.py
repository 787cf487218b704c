"""CEL declarations of the kinds matched by a policy, from the server's OpenAPI.

Facts: upstream's apiserver, pkg/admission/plugin/policy/validating/typechecking.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.cel.checking.schemas import DeclaredType, declare_type
from controllers.runtime.client import Client, is_reason

__all__ = ["CheckedKind", "Types", "resolve", "rules_of"]


#: Maximum number of types checked per policy.
_MAX_TYPES: Final = 10
_REFERENCE: Final = "#/components/schemas/"


class CheckedKind(NamedTuple):
    """A kind matched by a policy, with its type."""

    group: str
    version: str
    kind: str
    type: DeclaredType

    @property
    def text(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class _Recursive(Exception):
    """A schema contains itself; CEL has no such types."""


def resolve(schema: Json, schemas: Json, seen: tuple[str, ...] = ()) -> Json:
    """Return a schema with all references inlined. Raise _Recursive."""
    reference = next(_references(schema), None)
    if reference is not None:
        name = reference.removeprefix(_REFERENCE)
        if name in seen:
            raise _Recursive(name)
        return resolve(schemas.get(name) or {}, schemas, (*seen, name))
    made = dict(schema)
    if schema.get("format") == "int-or-string":
        made["x-kubernetes-int-or-string"] = True
    if schema.get("properties"):
        made["properties"] = {
            name: resolve(part, schemas, seen) for name, part in schema["properties"].items() if isinstance(part, dict)
        }
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            made[name] = resolve(schema[name], schemas, seen)
    return made


def _references(schema: Json) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"]
    for part in schema.get("allOf") or ():
        yield from _references(part)


def rules_of(policy: Json) -> Iterator[tuple[str, str, str]]:
    """Yield (group, version, resource) for each resource that a policy names without wildcards."""
    match = policy["spec"].get("matchConstraints") or {}
    for rule in match.get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in name for name in (*groups, *versions)):
            continue
        resources = [name for name in rule.get("resources") or () if "*" not in name and "/" not in name]
        for group in sorted(groups):
            for version in sorted(versions):
                yield from ((group, version, resource) for resource in sorted(resources))


class Types:
    """The types of kinds, read from the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_policy(self, policy: Json) -> list[CheckedKind]:
        """Return the types of the resources named by a policy, in order."""
        kinds: set[tuple[str, str, str]] = set()
        for group, version, resource in rules_of(policy):
            listing = await self._get(f"/apis/{group}/{version}" if group else f"/api/{version}")
            kinds |= {
                (group, version, item["kind"]) for item in listing.get("resources") or () if item["name"] == resource
            }
            if len(kinds) >= _MAX_TYPES:
                break
        found = [await self.of(*kind) for kind in sorted(kinds)[:_MAX_TYPES]]
        return [item for item in found if item is not None]

    async def of(self, group: str, version: str, kind: str) -> CheckedKind | None:
        """Return the type of a kind; None if it is unknown or recursive."""
        document = await self._get(f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}")
        schemas = (document.get("components") or {}).get("schemas") or {}
        wanted = {"group": group, "version": version, "kind": kind}
        for schema in schemas.values():
            if wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
                try:
                    made = declare_type(resolve(schema, schemas), kind)
                except _Recursive:
                    return None
                return None if made is None else CheckedKind(group, version, kind, made)
        return None

    async def _get(self, path: str) -> Json:
        try:
            return await self._client.request("GET", path)
        except StatusError as error:
            if is_reason(error, "NotFound"):
                return {}
            raise
