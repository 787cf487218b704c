"""The configured webhooks, compiled once, and their matching to requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apiserver.admission.policies.index import GROUP, ManifestSource, is_long, mentions_authorizer
from apiserver.admission.policies.matching import Matcher, RuleMatches
from apiserver.admission.policies.requests import RequestScope, equivalents, get_request_scope, is_exempt
from apiserver.api.objects import Json
from apiserver.runtime.offload import call_on_loop
from apiserver.webhooks.client import Target, target_of
from apiserver.webhooks.credentials import EMPTY, CredentialStore

if TYPE_CHECKING:
    from apiserver.admission.policies.expressions import MatchConditions
    from apiserver.cel.language.time_limit import Meter
    from apiserver.registry.definition.resource import Resource
    from apiserver.registry.store.admission import Attributes, Operation
    from apiserver.registry.store.store import Registry
    from apiserver.storage.watchcache.cache import Cursor

__all__ = ["GROUP", "Hook", "Hooks"]

#: The common properties of a kind of requests: resource, version, subresource, operation, scope.
_Kind = tuple[int, str, str, "Operation", bool]


class Hook:
    """One webhook. `configuration` is the name of its configuration object, `name` that of the webhook in it."""

    def __init__(
        self, configuration: str, webhook: Json, release: tuple[int, int], credentials: CredentialStore = EMPTY
    ) -> None:
        self.configuration, self.name = configuration, webhook["name"]
        #: The index among all webhooks of its kind.
        self.index = 0
        self.matcher = Matcher(
            rules=webhook.get("rules") or (),
            namespace_selector=webhook.get("namespaceSelector"),
            object_selector=webhook.get("objectSelector"),
            equivalent=webhook.get("matchPolicy") == "Equivalent",
        )
        self._conditions: list[Json] = webhook.get("matchConditions") or []
        self.mentions_authorizer = mentions_authorizer(self._conditions)
        self._release = release
        self._compiled: MatchConditions | None = None
        target = target_of(webhook["clientConfig"])
        self.target: Target = target._replace(credentials=credentials.of(target.host, target.port))
        #: Whether a request continues if the call fails.
        self.ignores_failure = webhook.get("failurePolicy") == "Ignore"
        self.takes_dry_runs = webhook.get("sideEffects") in ("None", "NoneOnDryRun")
        self.seconds = float(webhook.get("timeoutSeconds") or 10)
        self.reviews: tuple[str, ...] = tuple(webhook.get("admissionReviewVersions") or ())
        #: Whether the webhook is called again after later changes of the object.
        self.reinvocable = webhook.get("reinvocationPolicy") == "IfNeeded"

    @property
    def has_conditions(self) -> bool:
        return bool(self._conditions)

    def conditions(self, meter: Meter) -> MatchConditions:
        """Return the match conditions, compiled at their first use. Raise the meter's errors."""
        if self._compiled is None:
            # Conditions load CEL, so the import waits until they are needed.
            from apiserver.admission.policies.expressions import MatchConditions

            meter.check_time()
            if is_long(self._conditions):
                meter.begin_long_work()
            self._compiled = MatchConditions(self._conditions, self._release)
        return self._compiled

    @property
    def key(self) -> tuple[str, str]:
        return self.configuration, self.name


class MatchingWebhook(NamedTuple):
    """A webhook whose rules match a kind of requests."""

    hook: Hook
    matches: RuleMatches


class Hooks:
    """The webhooks of one kind of configuration, by configuration name and in the order of their list.

    Those in `files` come first, then those of the API.
    """

    def __init__(
        self, registry: Registry, plural: str, credentials: CredentialStore = EMPTY, files: ManifestSource | None = None
    ) -> None:
        self._registry, self._plural, self._credentials, self._files = registry, plural, credentials, files
        #: Cursor for changes of the configurations since their compilation.
        self._cursor: Cursor | None = None
        self._hooks: dict[tuple[str, int], list[Hook]] = {}
        self._from_files: list[Hook] = []
        #: All webhooks, in the order of their calls.
        self._all: list[Hook] = []
        self._matching: dict[_Kind, tuple[Resource, tuple[MatchingWebhook, ...]]] = {}
        if files is not None:
            files.subscribe(self._read_files)
            self._read_files()

    def concerns(self, attributes: Attributes) -> bool:
        """Return whether a webhook may match; before webhooks are called, always True."""
        return not self._are_calls_enabled() or bool(self.of(attributes))

    def _are_calls_enabled(self) -> bool:
        webhooks = self._registry.webhooks
        return webhooks is not None and webhooks.started

    def of(self, attributes: Attributes) -> tuple[MatchingWebhook, ...]:
        """Return the webhooks whose rules match the kind of a request."""
        if not self._are_calls_enabled():
            return ()
        if self._cursor is None or self._cursor.pending:
            call_on_loop(self._read)
        # A result that a thread computes while webhooks change goes into the replaced dict.
        matching = self._matching
        if not self._all:
            return ()
        resource, ctx = attributes.resource, attributes.ctx
        kind = (id(resource), ctx.version, attributes.subresource, attributes.operation, bool(attributes.namespace))
        known = matching.get(kind)
        if known is None or known[0] is not resource:
            known = matching[kind] = (resource, self._find(attributes))
        return known[1]

    def _read(self) -> None:
        """Compile the current configurations. Unchanged ones keep their webhooks."""
        store = self._registry.stores.get((GROUP, self._plural))
        if store is None:
            return
        self._cursor = store.cache.cursor(store.cache.revision)
        before, self._hooks = self._hooks, {}
        for entry in store.cache.list().entries:
            key = (entry.key, entry.revision)
            self._hooks[key] = before.get(key) or self._compile_hooks(entry.obj)
        self._order()

    def _read_files(self) -> None:
        assert self._files is not None, "only a followed index has files"
        self._from_files = [hook for obj in self._files.objects(self._plural) for hook in self._compile_hooks(obj)]
        self._order()
        self._registry.clear_handlers()

    def _compile_hooks(self, obj: Json) -> list[Hook]:
        """Compile the webhooks of a configuration."""
        name, release = obj["metadata"]["name"], self._registry.features.release
        return [Hook(name, webhook, release, self._credentials) for webhook in obj.get("webhooks") or ()]

    def _order(self) -> None:
        self._all = [*self._from_files, *(hook for hooks in self._hooks.values() for hook in hooks)]
        for index, hook in enumerate(self._all):
            hook.index = index
        self._matching = {}

    def _find(self, attributes: Attributes) -> tuple[MatchingWebhook, ...]:
        scope = get_request_scope(attributes)
        scopes: tuple[RequestScope, ...] = (scope, *equivalents(self._registry, scope))
        in_namespace = bool(attributes.namespace)
        return tuple(
            MatchingWebhook(hook, matches)
            for hook in (self._from_files if is_exempt(attributes.resource) else self._all)
            if (matches := hook.matcher.covers(attributes.operation, scopes, in_namespace=in_namespace)) is not None
        )
