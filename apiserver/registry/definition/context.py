"""The context of a rule: its request and its access to the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from apiserver.api.objects import Shared
from apiserver.registry.definition.authority import Question

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.api.schema.dropping import DroppedField
    from apiserver.registry.definition.authority import Access
    from apiserver.registry.definition.dropped_fields import DroppedFields
    from apiserver.registry.definition.options import DeleteOptions, WriteOptions
    from apiserver.registry.definition.resource import Resource
    from apiserver.request.messages import User

__all__ = ["Context"]


class Rewrite(Protocol):
    """Function that stores a change of an object or subresource as the server's own update."""

    async def __call__(
        self,
        group: str,
        plural: str,
        namespace: str,
        name: str,
        func: Callable[[Any], Any],
        /,
        *,
        subresource: str = "",
    ) -> None: ...


@dataclass(slots=True)
class Context:
    """The context of a rule.

    `now` is UTC. `lookup(group, plural, namespace, name)` returns a stored object or None; `all_of(group, plural)`
    returns all of a kind. `authorize(verb, group, resource, subresource, namespace, name)` returns the authorizer's
    decision about the user. It blocks for a webhook, so only rules of a strategy with `asks_authorizer` call it; all
    others await `is_allowed`. `access()` returns authorizer and authenticator.

    `resource_of(group, version, kind)` returns the served resource of a kind, or None. `rewrite(group, plural,
    namespace, name, func)` stores the result of a function of another object. `options` are those of a write or
    deletion. `warnings` become Warning headers; `annotations` go into the audit event. `dropped` lists the fields that
    disabled feature gates removed. `deadline` is the client's deadline by `time.monotonic`, if it set one. `namespace`
    is empty for a cluster-scoped kind. `agent` is the client's user agent, by default the server's own.
    """

    now: datetime
    user: User
    features: Features
    resource: Resource
    version: str
    verb: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    lookup: Callable[[str, str, str, str], Shared | None] = lambda *_: None
    all_of: Callable[[str, str], Iterable[Shared]] = lambda *_: ()
    authorize: Callable[..., bool] = lambda *_: True
    access: Callable[[], Access | None] = lambda: None
    resource_of: Callable[[str, str, str], Resource | None] = lambda *_: None
    rewrite: Rewrite | None = None
    manager: str = ""
    dry_run: bool = False
    options: WriteOptions | DeleteOptions | None = None
    deadline: float | None = None
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    dropped: list[DroppedField] = field(default_factory=list)
    agent: str = "kube-apiserver"

    async def is_allowed(
        self, verb: str, group: str, resource: str, subresource: str = "", namespace: str = "", name: str = ""
    ) -> bool:
        """Return the authorizer's decision about the user."""
        access = self.access()
        if access is None or not access.authorizer.is_remote:
            return self.authorize(verb, group, resource, subresource, namespace, name)
        question = Question(verb, group, resource, subresource, namespace, name)
        return (await access.authorizer.decide(self.user, question)).allowed

    def report_dropped(self, memory: DroppedFields, name: str) -> None:
        """Record the fields that a write of the object lost, and warn the writer once about each of them."""
        fields = tuple(dict.fromkeys(self.dropped))
        if not self.dry_run:
            memory.record(self.resource.group, self.resource.kind, self.namespace, name, self.now, fields)
        if memory.warns:
            self.warnings += [field.warning for field in fields if field.warning not in self.warnings]

    def of_object(self, namespace: str, name: str) -> Context:
        """Return the context of the same request for one object of a collection."""
        return replace(self, namespace=namespace, name=name)
