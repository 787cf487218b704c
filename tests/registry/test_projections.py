"""A part of an object served as an object of its own (scale): its field managers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver.api.errors.field_errors import Path, invalid
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Hub, Json
from apiserver.registry.definition.resource import Projection
from apiserver.registry.fields.managers import Manager, Owned, encode
from apiserver.registry.fields.set import of_paths
from apiserver.registry.store.projection import Projector
from apiserver.resources.common.scales import SCALE

NOW, THEN = "2025-01-02T03:04:05Z", "2024-01-01T00:00:00Z"


def shown(obj: Json) -> Json:
    names = ("name", "uid", "resourceVersion")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    return {"metadata": metadata, "spec": {"replicas": obj["spec"].get("count", 0)}}


def refused(obj: Json) -> list[Any]:
    given = obj["spec"].get("replicas", 0)
    return [invalid(Path("spec") / "replicas", given, "negative")] if given < 0 else []


def projector(**more: Any) -> Projector:
    """Build a projector of a kind with the field at spec.count in v1, at spec.number in v2, and nowhere in v3."""
    assert SCALE.projection is not None
    projection = Projection(
        kind=SCALE.projection.kind,
        field="spec.count",
        show=shown,
        validate=refused,
        projected_field="spec.replicas",
        **more,
    )
    return Projector(projection, {"g/v1": "spec.count", "g/v2": "spec.number", "g/v3": None})


def owned(version: str, *fields: str, time: str | None = THEN) -> Owned:
    return Owned(of_paths(*fields), version, time)


def manager(name: str, operation: str = "Update", version: str = "g/v1", subresource: str = "") -> Manager:
    return Manager(name, operation, "" if operation == "Apply" else version, subresource)


SCALED = of_paths("spec.replicas")


def test_who_manages_the_field_in_any_version_manages_the_projection() -> None:
    managers = {
        manager("a"): owned("g/v1", "spec.count", "spec.other"),
        manager("b", version="g/v2"): owned("g/v2", "spec.number"),
        manager("c", version="g/v3"): owned("g/v3", "spec.count"),
        manager("d", version="g/gone"): owned("g/gone", "spec.count"),
        manager("e"): owned("g/v1", "spec.other"),
        manager("f", "Apply"): owned("g/v1", "spec.count", time=None),
    }
    obj = {"metadata": {"name": "x", "managedFields": encode(managers)}, "spec": {"count": 3}}
    made = projector().project_object(obj, NOW)
    entries = {entry["manager"]: entry for entry in made["metadata"].pop("managedFields")}
    assert made == {"metadata": {"name": "x"}, "spec": {"replicas": 3}}
    assert sorted(entries) == ["a", "b", "f"]
    assert all(entry["apiVersion"] == "autoscaling/v1" and entry["fieldsV1"] == SCALED for entry in entries.values())
    assert [entries[name]["time"] for name in "abf"] == [THEN, THEN, NOW]
    bare = projector().project_object({"metadata": {"name": "x"}, "spec": {}}, NOW)
    assert bare == {"metadata": {"name": "x"}, "spec": {"replicas": 0}}


@pytest.mark.parametrize(
    ("key", "had", "left"),
    [
        (manager("a"), owned("g/v1", "spec.count", "spec.other"), owned("g/v1", "spec.other")),
        (manager("a"), owned("g/v1", "spec.count"), None),
        (manager("a"), owned("g/v1", "spec.other"), owned("g/v1", "spec.other")),
        (manager("a", version="g/v2"), owned("g/v2", "spec.number", "spec.x"), owned("g/v2", "spec.x")),
        (manager("a", version="g/v2"), owned("g/v2", "spec.count"), owned("g/v2", "spec.count")),
        (manager("a", version="g/v3"), owned("g/v3", "spec.count"), owned("g/v3", "spec.count")),
        (manager("a", version="g/gone"), owned("g/gone", "spec.other"), None),
    ],
)
def test_whoever_else_managed_the_field_loses_it_alone(key: Manager, had: Owned, left: Owned | None) -> None:
    writer = manager("w", version="autoscaling/v1", subresource="scale")
    new = {writer: Owned(SCALED, "autoscaling/v1", NOW)}
    made = projector()._of_parent({key: had}, new, "g/v2")
    assert made.pop(writer) == Owned(of_paths("spec.count"), "g/v2", None)
    assert made == ({} if left is None else {key: left})


def test_who_applies_again_keeps_the_field_and_the_time() -> None:
    applier = manager("a", "Apply", subresource="scale")
    had = owned("g/v1", "spec.count", "spec.other")
    made = projector()._of_parent({applier: had}, {applier: Owned(SCALED, "autoscaling/v1", NOW)}, "g/v1")
    assert made == {applier: had}
    gone = projector()._of_parent({applier: had}, {}, "g/v1")
    assert gone == {applier: owned("g/v1", "spec.other")}
    elsewhere = {manager("b", "Apply"): Owned(of_paths("spec.x"), "autoscaling/v1", NOW)}
    assert projector()._of_parent({}, elsewhere, "g/v1") == {}, "a missing field has no owner"


def test_the_object_takes_the_field_and_the_version_that_is_said() -> None:
    obj: Json = {"metadata": {"resourceVersion": "1"}}
    projector().copy_field(obj, {"metadata": {}, "spec": {"replicas": 5}})
    assert obj == {"metadata": {"resourceVersion": "1"}, "spec": {"count": 5}}
    projector().copy_field(obj, {"metadata": {"resourceVersion": "2"}})
    assert obj == {"metadata": {"resourceVersion": "2"}, "spec": {"count": 0}}


def test_a_projection_that_is_wrong_or_of_another_object_is_refused() -> None:
    obj: Json = {"metadata": {"name": "x", "uid": "u"}, "spec": {}}
    ctx: Any = SimpleNamespace(resource=SimpleNamespace(plural="things", group="g"), subresource="scale")
    projector()._check(ctx, {"metadata": {"uid": "u"}, "spec": {}}, obj)
    projector()._check(ctx, {"metadata": {}, "spec": {}}, obj)
    for new, code, words in (
        ({"metadata": {}, "spec": {"replicas": -1}}, 422, 'Scale.autoscaling "x" is invalid: spec.replicas: '),
        ({"metadata": {"uid": "v"}, "spec": {}}, 409, "UID in precondition: v, UID in object meta: u"),
    ):
        with pytest.raises(StatusError) as refused_it:
            projector()._check(ctx, new, obj)
        assert refused_it.value.code == code
        assert words in refused_it.value.message


def test_what_has_nothing_to_show_says_so_where_the_kind_does() -> None:
    def there(obj: Json) -> None:
        raise StatusError(404, "NotFound", "nothing")

    entry: Any = SimpleNamespace(obj=Hub({}))
    projector().check(entry)
    with pytest.raises(StatusError, match="nothing"):
        projector(check_exists=there).check(entry)
