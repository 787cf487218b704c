"""Apply a kind's rules to objects as the store does: decode, default, prepare, validate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from apiserver.api.codec.codec import decode
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json, Shared
from apiserver.registry.body.convert import normalizer_of
from apiserver.registry.catalog.served import list_known
from apiserver.registry.definition.authority import Decision, Question
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource
from apiserver.request.messages import User
from apiserver.resources import CATALOG

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class _Authority:
    """A webhook that authorizes."""

    is_remote = True

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def decide(self, _: User, question: Question) -> Decision:
        return Decision(self._judge.allowed(*question[:6]))


class Judge:
    """The rules of a server without the server.

    `objects` has the results of lookups; `allowed` is the decision of the authorizer.
    """

    def __init__(self, release: tuple[int, int] = (1, 36), gates: Mapping[str, bool] | None = None) -> None:
        self.features = Features(release, gates)
        self.objects: dict[tuple[str, str, str, str], Json] = {}
        self.allowed: Callable[..., bool] = lambda *_: True
        self.user = User("alice")

    def find(self, plural: str) -> Resource:
        """Return a resource by `plural` or `group/plural`, as a server with these gates serves it."""
        resource = find(plural)
        return list_known([resource], self.features)[0]

    def context(
        self,
        resource: Resource,
        version: str = "",
        *,
        subresource: str = "",
        verb: str = "create",
        namespace: str = "ns",
    ) -> Context:
        def authorize(*question: str) -> bool:
            assert resource.strategy.asks_authorizer, "a webhook may authorize, which only rules in a thread wait for"
            return self.allowed(*question)

        return Context(
            now=NOW,
            user=self.user,
            features=self.features,
            resource=resource,
            version=version or resource.versions[0].name,
            namespace=namespace if resource.namespaced else "",
            subresource=subresource,
            verb=verb,
            lookup=lambda *key: cast(Shared | None, self.objects.get(key)),
            authorize=authorize,
            access=lambda: SimpleNamespace(authorizer=_Authority(self)),
        )

    def decoded(self, resource: Resource, obj: Json, version: str = "") -> Json:
        """Return the object in hub form, with its defaults."""
        served = resource.version(version or resource.versions[0].name)
        assert served is not None
        given = deepcopy(obj)
        given.setdefault("metadata", {}).setdefault("name", "a")
        if resource.namespaced:
            given["metadata"].setdefault("namespace", "ns")
        made = decode(served.schema, given).obj
        served.fill(made, NOW)
        hub: Json = served.to_hub(made)
        return hub

    def create(self, plural: str, obj: Json, version: str = "") -> tuple[Json, list[str]]:
        """Create an object; return its stored form and the validation errors."""
        resource = self.find(plural)
        ctx = self.context(resource, version)
        hub = self.decoded(resource, obj, version)
        resource.strategy.prepare_for_create(ctx, hub)
        errors = resource.strategy.validate_first(ctx, hub, None) + resource.strategy.validate(ctx, hub)
        resource.strategy.canonicalize(ctx, hub)
        settle(resource, hub)
        return hub, [error.text for error in errors]

    def update(
        self, plural: str, old: Json, obj: Json, *, status: bool = False, verb: str = "update", version: str = ""
    ) -> tuple[Json, list[str]]:
        resource = self.find(plural)
        strategy = resource.strategy
        ctx = self.context(resource, version, subresource="status" if status else "", verb=verb)
        new = self.decoded(resource, obj, version)
        if status:
            strategy.prepare_for_status_update(ctx, new, old)
            validate = strategy.validate_status_update
        else:
            strategy.prepare_for_update(ctx, new, old)
            validate = strategy.validate_update
        errors = strategy.validate_first(ctx, new, old) + validate(ctx, new, old)
        strategy.canonicalize(ctx, new)
        settle(resource, new)
        return new, [error.text for error in errors]

    def create_valid(self, plural: str, obj: Json, version: str = "") -> Json:
        """Create an object that has no errors."""
        stored, errors = self.create(plural, obj, version)
        assert errors == []
        return stored

    def update_valid(self, plural: str, old: Json, obj: Json, **options: Any) -> Json:
        """Update an object without errors."""
        stored, errors = self.update(plural, old, obj, **options)
        assert errors == []
        return stored

    def update_status(self, plural: str, old: Json, status: Json) -> tuple[Json, list[str]]:
        """Write another status; return the stored form and the errors."""
        return self.update(plural, old, {**deepcopy(old), "status": status}, status=True)

    def update_status_valid(self, plural: str, old: Json, status: Json) -> Json:
        """Write another status without errors."""
        return self.update_valid(plural, old, {**deepcopy(old), "status": status}, status=True)

    def update_spec(self, plural: str, old: Json, **spec: Any) -> tuple[Json, list[str]]:
        """Change fields of the spec; return the stored form and the errors."""
        return self.update(plural, old, {**deepcopy(old), "spec": {**deepcopy(old["spec"]), **spec}})


def settle(resource: Resource, hub: Json) -> None:
    """Finish an object as the store does before it writes."""
    settler = normalizer_of(resource.hub_schema)
    if settler is not None:
        settler(hub)


def find(plural: str) -> Resource:
    group = ""
    if "/" in plural:
        group, _, plural = plural.partition("/")
    return next(r for r in CATALOG if r.plural == plural and (not group or r.group == group))


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def judge_with() -> Callable[..., Judge]:
    """Return a function that builds a judge of another release or with other gates."""
    return lambda release=(1, 36), **gates: Judge(release, gates)
