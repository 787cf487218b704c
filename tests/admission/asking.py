"""Run one admission plugin against fixed objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import RELEASES, Features, Release
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes, Handlers, Operation, Plugin
from apiserver.registry.verbs.pipeline import admit, validate
from apiserver.request.messages import User


@dataclass
class Situation:
    """The context of a request: its user, the existing objects (by plural), and the gates."""

    there: Mapping[str, list[Json]] = field(default_factory=dict)
    user: User = field(default_factory=lambda: User("someone"))
    gates: Mapping[str, bool] = field(default_factory=dict)
    may: Callable[..., bool] = lambda *_: True
    dry_run: bool = False
    now: datetime = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    rewrite: Any = None
    release: Release = RELEASES[-1]

    def request(
        self,
        operation: Operation,
        plural: str,
        new: Json | None,
        old: Json | None = None,
        *,
        group: str = "",
        subresource: str = "",
        namespace: str = "n",
        name: str = "x",
    ) -> Attributes:
        def lookup(_: str, plural: str, namespace: str, name: str) -> Json | None:
            for each in self.there.get(plural, ()):
                metadata = each["metadata"]
                if metadata["name"] == name and metadata.get("namespace", "") == namespace:
                    return each
            return None

        async def is_allowed(*question: str) -> bool:
            return self.may(*question)

        ctx: Any = SimpleNamespace(
            resource=SimpleNamespace(plural=plural, group=group, namespaced=bool(namespace), create=None),
            user=self.user, features=Features(self.release, self.gates), namespace=namespace, name=name, subresource=subresource,
            lookup=lookup, all_of=lambda _, plural: self.there.get(plural, []), is_allowed=is_allowed, dry_run=self.dry_run,
            now=self.now, rewrite=self.rewrite,
        )  # fmt: skip
        return Attributes(operation, ctx, name, deepcopy(new), deepcopy(old))


async def _ask(plugin: Plugin, attributes: Attributes) -> None:
    handlers = Handlers((plugin,), (plugin,))
    await admit(handlers, attributes)
    await validate(handlers, attributes)


def refusal(plugin: Plugin, attributes: Attributes) -> str:
    """Return the refusal after "…is forbidden: ", or the whole message of another error; empty if allowed."""
    try:
        asyncio.run(_ask(plugin, attributes))
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2] or f"{error.code} {error.message}"
    return ""
