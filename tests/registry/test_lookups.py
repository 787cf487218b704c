"""Lookups of other objects by plugins, rules and metrics."""

from __future__ import annotations

import pytest

from tests.registry.conftest import World


@pytest.mark.parametrize(
    ("group", "version", "kind", "plural"),
    [
        ("", "v1", "ConfigMap", "configmaps"),
        ("coordination.k8s.io", "v1", "Lease", "leases"),
        ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
        ("resource.k8s.io", "v2", "ResourceClaim", None),
        ("", "v1", "ResourceClaim", None),
        ("resource.k8s.io", "v1", "Claim", None),
    ],
)
async def test_a_resource_is_found_by_group_version_and_kind(
    world: World, group: str, version: str, kind: str, plural: str | None
) -> None:
    found = world.registry.resource_of(group, version, kind)
    assert (found and (found.group, found.plural)) == (plural and (group, plural))


async def test_an_object_is_found_by_group_plural_namespace_and_name(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}})
    registry = world.registry
    found = registry.lookup("", "configmaps", "default", "a")
    assert found is not None
    assert found["data"] == {"x": "1"}
    for group, plural, namespace, name in (
        ("apps", "configmaps", "default", "a"),
        ("", "pods", "default", "a"),
        ("", "configmaps", "other", "a"),
        ("", "configmaps", "default", "b"),
    ):
        assert registry.lookup(group, plural, namespace, name) is None


async def test_all_objects_of_a_kind_are_told_and_counted(world: World) -> None:
    registry = world.registry
    assert registry.all_of("", "configmaps") == []
    for name in ("a", "b"):
        await world.create("configmaps", {"metadata": {"name": name}})
    assert [obj["metadata"]["name"] for obj in registry.all_of("", "configmaps")] == ["a", "b"]
    assert registry.all_of("apps", "configmaps") == []
    counts = registry.counts()
    assert (counts["configmaps"], counts["leases.coordination.k8s.io"], counts["namespaces"]) == (2, 0, 1)
