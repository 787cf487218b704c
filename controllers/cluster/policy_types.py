"""The types of what policies are about, as expressions would see them: the server's OpenAPI as declarations of CEL.

Facts: upstream's apiserver, pkg/admission/plugin/policy/validating/typechecking.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from apiserver.api.errors.status import StatusError
from apiserver.cel.checking.schemas import Declared, declared
from controllers.runtime.client import Client, is_reason

__all__ = ["Checked", "Types", "resolved", "rules_of"]

Json = dict[str, Any]

#: How many types a policy is checked against at most.
_MOST: Final = 10
_REFERENCE: Final = "#/components/schemas/"


class Checked(NamedTuple):
    """A kind that a policy is about, and its type."""

    group: str
    version: str
    kind: str
    type: Declared

    @property
    def shown(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class _Recursive(Exception):
    """A schema that holds itself: CEL has no such types."""


def resolved(schema: Json, schemas: Json, seen: tuple[str, ...] = ()) -> Json:
    """A schema with those that it refers to in their places. Raises _Recursive."""
    reference = next(_references(schema), None)
    if reference is not None:
        name = reference.removeprefix(_REFERENCE)
        if name in seen:
            raise _Recursive(name)
        return resolved(schemas.get(name) or {}, schemas, (*seen, name))
    made = dict(schema)
    if schema.get("format") == "int-or-string":
        made["x-kubernetes-int-or-string"] = True
    if schema.get("properties"):
        made["properties"] = {
            name: resolved(part, schemas, seen) for name, part in schema["properties"].items() if isinstance(part, dict)
        }
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            made[name] = resolved(schema[name], schemas, seen)
    return made


def _references(schema: Json) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"]
    for part in schema.get("allOf") or ():
        yield from _references(part)


def rules_of(policy: Json) -> Iterator[tuple[str, str, str]]:
    """Groups, versions and resources that a policy names one by one, as (group, version, resource)."""
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
    """Asks a server for the types of kinds."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def about(self, policy: Json) -> list[Checked]:
        """What a policy is about, as far as it names it, in order."""
        kinds: set[tuple[str, str, str]] = set()
        for group, version, resource in rules_of(policy):
            listing = await self._get(f"/apis/{group}/{version}" if group else f"/api/{version}")
            kinds |= {
                (group, version, item["kind"]) for item in listing.get("resources") or () if item["name"] == resource
            }
            if len(kinds) >= _MOST:
                break
        found = [await self.of(*kind) for kind in sorted(kinds)[:_MOST]]
        return [item for item in found if item is not None]

    async def of(self, group: str, version: str, kind: str) -> Checked | None:
        """The type of a kind; None where there is none."""
        document = await self._get(f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}")
        schemas = (document.get("components") or {}).get("schemas") or {}
        wanted = {"group": group, "version": version, "kind": kind}
        for schema in schemas.values():
            if wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
                try:
                    made = declared(resolved(schema, schemas), kind)
                except _Recursive:
                    return None
                return None if made is None else Checked(group, version, kind, made)
        return None

    async def _get(self, path: str) -> Json:
        try:
            return await self._client.request("GET", path)
        except StatusError as error:
            if is_reason(error, "NotFound"):
                return {}
            raise
