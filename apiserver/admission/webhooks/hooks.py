"""The webhooks that are configured, compiled once, and which of them a request may concern."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apiserver.admission.policies.index import GROUP, FromFiles, is_long, mentions_authorizer
from apiserver.admission.policies.matching import Covered, Matcher
from apiserver.admission.policies.requests import Place, equivalents, is_exempt, place_of
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

#: What all requests of a kind have in common: resource, version, subresource, operation, whether in a namespace.
_Kind = tuple[int, str, str, "Operation", bool]


class Hook:
    """One webhook. `configuration` is the name of the object that holds it, in which it is `name`."""

    def __init__(
        self, configuration: str, webhook: Json, release: tuple[int, int], credentials: CredentialStore = EMPTY
    ) -> None:
        self.configuration, self.name = configuration, webhook["name"]
        #: Where it stands among all webhooks of its kind.
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
        #: Whether a request goes on where the webhook cannot be asked.
        self.ignores_failure = webhook.get("failurePolicy") == "Ignore"
        self.takes_dry_runs = webhook.get("sideEffects") in ("None", "NoneOnDryRun")
        self.seconds = float(webhook.get("timeoutSeconds") or 10)
        self.reviews: tuple[str, ...] = tuple(webhook.get("admissionReviewVersions") or ())
        #: Whether it is called once more where others changed the object after it.
        self.reinvocable = webhook.get("reinvocationPolicy") == "IfNeeded"

    @property
    def has_conditions(self) -> bool:
        return bool(self._conditions)

    def conditions(self, meter: Meter) -> MatchConditions:
        """Its match conditions, compiled when a request matches all else. Raises what the meter raises."""
        if self._compiled is None:
            # Conditions bring in CEL, which is loaded when it is needed.
            from apiserver.admission.policies.expressions import MatchConditions

            meter.look()
            if is_long(self._conditions):
                meter.leave()
            self._compiled = MatchConditions(self._conditions, self._release)
        return self._compiled

    @property
    def key(self) -> tuple[str, str]:
        return self.configuration, self.name


class Concerned(NamedTuple):
    """A webhook whose rules name requests of a kind."""

    hook: Hook
    covered: Covered


class Hooks:
    """The webhooks of one kind of configuration, by name of the configuration and in the order in which they stand:
    those in `files`, then those of the API.
    """

    def __init__(
        self, registry: Registry, plural: str, credentials: CredentialStore = EMPTY, files: FromFiles | None = None
    ) -> None:
        self._registry, self._plural, self._credentials, self._files = registry, plural, credentials, files
        #: Says whether a configuration has changed since they were compiled.
        self._cursor: Cursor | None = None
        self._hooks: dict[tuple[str, int], list[Hook]] = {}
        self._from_files: list[Hook] = []
        #: All of them, in the order in which they are asked.
        self._all: list[Hook] = []
        self._concerned: dict[_Kind, tuple[Resource, tuple[Concerned, ...]]] = {}
        if files is not None:
            files.when_changed(self._read_files)
            self._read_files()

    def concern(self, attributes: Attributes) -> bool:
        """Whether there are such, as far as is known: before anybody calls webhooks there may be."""
        return not self._are_called() or bool(self.of(attributes))

    def _are_called(self) -> bool:
        webhooks = self._registry.webhooks
        return webhooks is not None and webhooks.started

    def of(self, attributes: Attributes) -> tuple[Concerned, ...]:
        """Those whose rules name such requests."""
        if not self._are_called():
            return ()
        if self._cursor is None or self._cursor.pending:
            call_on_loop(self._read)
        # What a thread finds while they change goes into what is of no use any more.
        concerned = self._concerned
        if not self._all:
            return ()
        resource, ctx = attributes.resource, attributes.ctx
        kind = (id(resource), ctx.version, attributes.subresource, attributes.operation, bool(attributes.namespace))
        known = concerned.get(kind)
        if known is None or known[0] is not resource:
            known = concerned[kind] = (resource, self._find(attributes))
        return known[1]

    def _read(self) -> None:
        """Compiles what is configured now. Webhooks of configurations that did not change stay as they are."""
        store = self._registry.stores.get((GROUP, self._plural))
        if store is None:
            return
        self._cursor = store.cache.cursor(store.cache.revision)
        before, self._hooks = self._hooks, {}
        for entry in store.cache.list().entries:
            key = (entry.key, entry.revision)
            self._hooks[key] = before.get(key) or self._hooks_of(entry.obj)
        self._order()

    def _read_files(self) -> None:
        assert self._files is not None, "who is told of changes has files"
        self._from_files = [hook for obj in self._files.objects(self._plural) for hook in self._hooks_of(obj)]
        self._order()
        self._registry.forget_handlers()

    def _hooks_of(self, obj: Json) -> list[Hook]:
        """The webhooks of a configuration."""
        name, release = obj["metadata"]["name"], self._registry.features.release
        return [Hook(name, webhook, release, self._credentials) for webhook in obj.get("webhooks") or ()]

    def _order(self) -> None:
        self._all = [*self._from_files, *(hook for hooks in self._hooks.values() for hook in hooks)]
        for index, hook in enumerate(self._all):
            hook.index = index
        self._concerned = {}

    def _find(self, attributes: Attributes) -> tuple[Concerned, ...]:
        place = place_of(attributes)
        places: tuple[Place, ...] = (place, *equivalents(self._registry, place))
        in_namespace = bool(attributes.namespace)
        return tuple(
            Concerned(hook, covered)
            for hook in (self._from_files if is_exempt(attributes.resource) else self._all)
            if (covered := hook.matcher.covers(attributes.operation, places, in_namespace=in_namespace)) is not None
        )
