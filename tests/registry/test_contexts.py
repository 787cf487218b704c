"""The request facts that rules receive."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from apiserver.registry.definition.context import Context
from apiserver.request.messages import User
from tests.registry.conftest import World

GIVEN: dict[str, Any] = {
    "user": User("alice"), "version": "v1", "verb": "update", "namespace": "n", "name": "a", "subresource": "status",
}  # fmt: skip


async def test_a_store_makes_the_context_that_the_class_makes(world: World) -> None:
    store, registry = world.store("pods"), world.registry
    made, other = store.context(**GIVEN), store.context(**GIVEN)
    wired = {"lookup", "all_of", "authorize", "access", "resource_of", "rewrite"}
    known: dict[str, Any] = {"now": registry.clock(), "features": registry.features, "resource": store.resource}
    whole = Context(**GIVEN, **known, **{name: getattr(made, name) for name in wired})
    for each in fields(Context):
        assert getattr(made, each.name) == getattr(whole, each.name), each.name
    for each in fields(Context):
        if isinstance(getattr(made, each.name), list | dict):
            assert getattr(made, each.name) is not getattr(other, each.name), f"{each.name} is of two requests"
    assert made.authorize("get", "", "pods", "", "n", "a") is True
    assert (made.lookup, made.all_of) == (registry.lookup, registry.all_of)
    assert (made.resource_of, made.rewrite) == (registry.resource_of, registry.rewrite)


async def test_rules_ask_what_the_user_of_the_request_may_do(world: World) -> None:
    asked: list[tuple[Any, ...]] = []

    def refuse(*question: Any) -> bool:
        asked.append(question)
        return False

    world.registry.authorize = refuse
    assert world.store("pods").context(**GIVEN).authorize("get", "", "pods") is False
    assert asked == [(GIVEN["user"], "get", "", "pods")]
