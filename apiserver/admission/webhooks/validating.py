"""ValidatingAdmissionWebhook: webhooks that may refuse a request, all called concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from apiserver.admission.policies.index import ManifestSource
from apiserver.admission.policies.requests import RequestScope, View, is_exempt
from apiserver.admission.webhooks.calls import Caller, WebhookMetrics
from apiserver.admission.webhooks.hooks import GROUP, Hook, Hooks, MatchingWebhook
from apiserver.admission.webhooks.reviews import Verdict
from apiserver.registry.store.admission import Attributes, Plugin
from apiserver.runtime.offload import on_loop
from apiserver.webhooks.credentials import EMPTY, CredentialStore

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Resource
    from apiserver.registry.store.store import Registry
    from apiserver.runtime.metrics import Family

__all__ = ["ValidatingAdmissionWebhook"]

_CONFIGURATIONS: Final = (GROUP, "validatingwebhookconfigurations")


class ValidatingAdmissionWebhook(Plugin):
    name = "ValidatingAdmissionWebhook"
    configured_by: tuple[str, str] | None = _CONFIGURATIONS
    operations = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})

    def __init__(
        self, registry: Registry, credentials: CredentialStore = EMPTY, files: ManifestSource | None = None
    ) -> None:
        """Build the plugin.

        `credentials` authenticate the server to webhooks; `files` has further webhooks.
        """
        self._files = files
        if files is not None:
            self.configured_by, self.depends_on = None, (_CONFIGURATIONS,)
        self._hooks = Hooks(registry, _CONFIGURATIONS[1], credentials, files)
        self._caller = Caller(registry, "validating", WebhookMetrics())

    def families(self) -> Sequence[Family]:
        return self._caller.metrics.families()

    def handles(self, resource: Resource) -> bool:
        return self._files is not None or not is_exempt(resource)

    def can_handle(self, attributes: Attributes) -> bool:
        return self._hooks.concerns(attributes)

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        concerned = self._hooks.of(attributes)
        return self._ask(attributes, concerned) if concerned else None

    async def _ask(self, attributes: Attributes, concerned: tuple[MatchingWebhook, ...]) -> None:
        views: dict[RequestScope, View] = {}

        def view(scope: RequestScope) -> View:
            found = views.get(scope)
            if found is None:
                found = views[scope] = View(self._caller.registry, attributes, scope)
            return found

        targets = [
            (one.hook, view(scope))
            for one in concerned
            if (scope := await self._caller.find_scope(one, attributes, view)) is not None
        ]
        if targets:
            for _, seen in targets:
                seen.precompute()
            await self._call_all(targets)

    @on_loop
    async def _call_all(self, targets: list[tuple[Hook, View]]) -> None:
        """Await all calls, then raise the first refusal in order."""
        calls = (self._caller.call(hook, view, _accept) for hook, view in targets)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


def _accept(_: Verdict) -> None:
    """Do nothing with a verdict that allows."""
