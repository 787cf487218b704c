"""MutatingAdmissionWebhook: webhooks that may change an object, called one after the other.

After a change all plugins are called again. So are the earlier webhooks with `reinvocationPolicy: IfNeeded`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.admission.policies.index import ManifestSource
from apiserver.admission.policies.request_changes import replace_object
from apiserver.admission.policies.requests import RequestScope, View, is_exempt
from apiserver.admission.webhooks.calls import Caller, CallFailed, WebhookMetrics, get_annotation_suffix
from apiserver.admission.webhooks.hooks import GROUP, Hook, Hooks, MatchingWebhook
from apiserver.admission.webhooks.reviews import Verdict
from apiserver.api.codec.codec import DecodeError, loads
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import internal_error
from apiserver.api.objects import Json
from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.jsonpatch import json_patch
from apiserver.api.values.go_json import go_kind
from apiserver.registry.body.convert import copy_of
from apiserver.registry.fields.managers import decode as decode_managers
from apiserver.registry.store.admission import Attributes, Plugin, Reinvocation
from apiserver.webhooks.credentials import EMPTY, CredentialStore

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Resource
    from apiserver.registry.store.store import Registry
    from apiserver.runtime.metrics import Family

__all__ = ["MutatingAdmissionWebhook"]


_JSON_PATCH: Final = "JSONPatch"
_LOST_MANAGERS: Final = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating"
    " admission controller; please fix your requests: an entry cannot be understood"
)


class _ReinvocationState:
    """The state of a request's webhooks from the first round.

    It has the webhooks that may be reinvoked and those that must be; `last_output` is the object after them.
    """

    def __init__(self) -> None:
        self.reinvocable: set[tuple[str, str]] = set()
        self.reinvoke: set[tuple[str, str]] = set()
        self.last_output: Json | None = None

    def require_reinvocation(self) -> None:
        """Mark the webhooks that have not seen the current object for reinvocation."""
        self.reinvoke |= self.reinvocable
        self.reinvocable.clear()


_CONFIGURATIONS: Final = (GROUP, "mutatingwebhookconfigurations")


class MutatingAdmissionWebhook(Plugin):
    name = "MutatingAdmissionWebhook"
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
        self._caller = Caller(registry, "admit", WebhookMetrics())

    def families(self) -> Sequence[Family]:
        return self._caller.metrics.families()

    def handles(self, resource: Resource) -> bool:
        return self._files is not None or not is_exempt(resource)

    def can_handle(self, attributes: Attributes) -> bool:
        return self._hooks.concerns(attributes)

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        webhooks = self._hooks.of(attributes)
        return self._call_webhooks(attributes, webhooks) if webhooks else None

    async def _call_webhooks(self, attributes: Attributes, webhooks: tuple[MatchingWebhook, ...]) -> None:
        reinvocation = attributes.reinvocation = attributes.reinvocation or Reinvocation()
        state: _ReinvocationState = reinvocation.state.setdefault(self.name, _ReinvocationState())
        if reinvocation.second_round and state.last_output != attributes.obj:
            state.require_reinvocation()
        managers = (attributes.obj or {}).get("metadata", {}).get("managedFields")
        for one in webhooks:
            await self._call_webhook(attributes, one, state, reinvocation)
        _restore_managers(attributes, managers)
        state.last_output = None if attributes.obj is None else copy_of(attributes.obj)

    async def _call_webhook(
        self, attributes: Attributes, webhook: MatchingWebhook, state: _ReinvocationState, reinvocation: Reinvocation
    ) -> None:
        hook, caller = webhook.hook, self._caller

        def view(scope: RequestScope) -> View:
            return View(caller.registry, attributes, scope)

        scope = await caller.find_scope(webhook, attributes, view)
        if scope is None or (reinvocation.second_round and hook.key not in state.reinvoke):
            return
        if await caller.call(hook, view(scope), partial(self._apply_verdict, hook, attributes, scope)):
            state.require_reinvocation()
            reinvocation.requested = True
        if hook.reinvocable:
            state.reinvocable.add(hook.key)

    def _apply_verdict(self, hook: Hook, attributes: Attributes, scope: RequestScope, verdict: Verdict) -> bool:
        """Apply a verdict like `_change`, and add its result and patch to the audit annotations."""
        changed = self._change(hook, attributes, scope, verdict)
        annotations, at = attributes.ctx.annotations, get_annotation_suffix(hook, attributes)
        of = {"configuration": hook.configuration, "webhook": hook.name}
        annotations[f"mutation.webhook.admission.k8s.io/{at}"] = orjson.dumps({**of, "mutated": changed}).decode()
        if changed:
            patch = {**of, "patch": orjson.loads(verdict.patch), "patchType": _JSON_PATCH}
            annotations[f"patch.webhook.admission.k8s.io/{at}"] = orjson.dumps(patch).decode()
        return changed

    def _change(self, hook: Hook, attributes: Attributes, scope: RequestScope, verdict: Verdict) -> bool:
        """Apply a verdict's patch to the object. Return whether it changed. Raise CallFailed, StatusError."""
        if not verdict.patch:
            return False
        operations = _operations(hook, verdict.patch)
        if not operations:
            return False
        before = View(self._caller.registry, attributes, scope).object
        if before is None:
            raise internal_error(
                f"admission webhook {go_quote(hook.name)} attempted to modify the object, which is not supported for"
                " this operation"
            )
        if verdict.patch_type != _JSON_PATCH:
            raise CallFailed(hook.name, f"unsupported patch type {go_quote(verdict.patch_type)}", 400)
        try:
            after = json_patch(before, operations)
            return replace_object(self._caller.registry, attributes, scope, before, after)
        except (PatchError, DecodeError) as error:
            raise internal_error(str(error)) from None


def _operations(hook: Hook, patch: bytes) -> list[Any]:
    try:
        operations = loads(patch).value
        if operations is not None and not isinstance(operations, list):
            raise DecodeError(f"json: cannot unmarshal {go_kind(operations)} into Go value of type jsonpatch.Patch")
    except DecodeError as error:
        raise CallFailed(hook.name, f"received undecodable patch in webhook response: {error}", 503) from None
    return operations or []


def _restore_managers(attributes: Attributes, before: list[Json] | None) -> None:
    """Restore the former managers if the new ones are invalid."""
    if attributes.obj is None:
        return
    metadata = attributes.obj.get("metadata") or {}
    after = metadata.get("managedFields")
    if after == before or decode_managers(after) is not None:
        return
    attributes.ctx.warnings.append(_LOST_MANAGERS)
    if before is None:
        metadata.pop("managedFields", None)
    else:
        metadata["managedFields"] = before
