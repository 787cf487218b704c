"""Fields dropped by disabled gates: the warnings, and the number of recorded losses."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from apiserver.api.features.gates import Features
from apiserver.api.schema.dropping import DroppedField
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.dropped_fields import MOST_FIELDS, DroppedFields
from apiserver.request.messages import User

NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
FIELD = DroppedField("spec.a", "Gate")


def test_the_latest_losses_are_remembered_one_for_each_object() -> None:
    dropped = DroppedFields(most=2)
    for name in ("a", "b", "a"):
        dropped.record("g", "Kind", "n", name, NOW, [FIELD])
    assert [loss.name for loss in dropped.losses()] == ["a", "b"]
    dropped.record("g", "Kind", "n", "c", NOW, [FIELD])
    assert [loss.name for loss in dropped.losses()] == ["c", "a"]
    dropped.clear()
    assert dropped.losses() == []


def test_losses_are_found_by_kind_namespace_and_name() -> None:
    dropped = DroppedFields()
    for kind, namespace, name in (("K", "n", "a"), ("K", "m", "a"), ("L", "n", "b")):
        dropped.record("g", kind, namespace, name, NOW, [FIELD])
    for wanted, found in (
        ({}, ["Lnb", "Kma", "Kna"]),
        ({"kind": "K"}, ["Kma", "Kna"]),
        ({"namespace": "n"}, ["Lnb", "Kna"]),
        ({"name": "a"}, ["Kma", "Kna"]),
        ({"kind": "K", "namespace": "n", "name": "a"}, ["Kna"]),
        ({"kind": "x"}, []),
    ):
        assert [loss.kind + loss.namespace + loss.name for loss in dropped.losses(**wanted)] == found


def test_so_many_fields_of_a_loss_are_remembered_and_the_writer_reads_of_each() -> None:
    dropped = DroppedFields(warns=True)
    dropped.record("g", "K", "n", "a", NOW, [FIELD] * (MOST_FIELDS + 1))
    (loss,) = dropped.losses()
    assert (len(loss.fields), loss.when) == (MOST_FIELDS, NOW)
    assert FIELD.warning == "spec.a: dropped, the feature gate Gate is disabled"


def test_a_write_that_is_repeated_warns_once_of_each_field() -> None:
    resource: Any = SimpleNamespace(group="g", kind="Kind")
    ctx = Context(now=NOW, user=User("alice"), features=Features(), resource=resource, version="v1")
    memory = DroppedFields(warns=True)
    for _ in range(2):
        ctx.dropped.append(FIELD)
        ctx.report_dropped(memory, "a")
    assert ctx.warnings == [FIELD.warning]
    assert [loss.name for loss in memory.losses()] == ["a"]
