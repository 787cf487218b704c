"""PolicyRules as sets of rights, and the difference of two sets.

Facts: pkg/registry/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json

__all__ = ["describe", "missing_rights", "quoted_list", "url_matches"]


def url_matches(pattern: str, path: str) -> bool:
    """Return whether a rule's path, perhaps with a trailing star, matches a path."""
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def missing_rights(held: list[Json], required: Iterable[Json]) -> list[Json]:
    """Return the rights in `required` and not in `held`, as one rule per resource with all its verbs."""
    return _compact(
        part for rule in required for part in _parts(rule) if not any(_covers(owner, part) for owner in held)
    )


def _parts(rule: Json) -> Iterator[Json]:
    """Split a rule into its smallest parts: one verb, one group, one resource, one name."""
    verbs = rule.get("verbs") or []
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames")
                if not names:
                    yield part
                for name in names or ():
                    yield {**part, "resourceNames": [name]}
    for url in rule.get("nonResourceURLs") or ():
        for verb in verbs:
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _includes(owned: list[str] | None, required: list[str] | None) -> bool:
    owned = owned or []
    return "*" in owned or all(item in owned for item in required or ())


def _covers(owner: Json, part: Json) -> bool:
    names = owner.get("resourceNames")
    return (
        _includes(owner.get("verbs"), part["verbs"])
        and _includes(owner.get("apiGroups"), part.get("apiGroups"))
        and all(_covers_resource(owner.get("resources") or [], resource) for resource in part.get("resources") or ())
        and all(
            any(url_matches(known, url) for known in owner.get("nonResourceURLs") or ())
            for url in part.get("nonResourceURLs") or ()
        )
        and (not names or bool(part.get("resourceNames") and set(part["resourceNames"]) <= set(names)))
    )


def _covers_resource(owned: list[str], resource: str) -> bool:
    if "*" in owned or resource in owned:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _compact(parts: Iterable[Json]) -> list[Json]:
    """Merge the parts with the same resource and name into one rule with all their verbs."""
    found: dict[tuple[str, ...], Json] = {}
    others: list[Json] = []
    for part in parts:
        if "nonResourceURLs" in part:
            others.append(part)
            continue
        key = (part["apiGroups"][0], part["resources"][0], *part.get("resourceNames", ()))
        known = found.setdefault(key, {**part, "verbs": []})
        known["verbs"] += part["verbs"]
    return others + list(found.values())


def quoted_list(values: Iterable[str]) -> str:
    """Render strings as Go prints a slice of them with %q."""
    return "[" + " ".join(go_quote(value) for value in values) + "]"


def describe(rule: Json) -> str:
    """Render a rule on one line for the message of a refusal."""
    names = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
    )
    parts = [f"{shown}:{quoted_list(rule[name])}" for shown, name in (*names, ("Verbs", "verbs")) if rule.get(name)]
    return "{" + ", ".join(parts) + "}"
