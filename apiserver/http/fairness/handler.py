"""The handler that admits requests by priority and fairness. It runs after authentication, before authorization.

Each request belongs to a FlowSchema. Schemas are matched in the order of their precedence, and results are cached: of
two requests that no rule can distinguish only the first is matched.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

from apiserver.api.errors.status import PlainError
from apiserver.api.values.durations import parse_duration
from apiserver.http.fairness.levels import Level, Rejected, share_seats
from apiserver.http.handlers.chain import Handler
from apiserver.request.info import LONG_RUNNING
from apiserver.request.messages import Request, Response, Stream, User
from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram, Labels

__all__ = ["Fairness"]

Json = Mapping[str, Any]

_CATCH_ALL: Final = "catch-all"
_NAME: Final = "apiserver_flowcontrol"
_OF_FLOW: Final = ("priority_level", "flow_schema")
_SECONDS: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_LENGTHS: Final = (0, 10, 25, 50, 100, 250, 500, 1000)
#: Default request timeout in seconds. At most a quarter of it may be spent queued, but no more than a minute.
_DEADLINE: Final = 60.0
_LONGEST: Final = 60.0
#: Maximal number of kept flows without schemas, of cached users, and of cached kinds of requests per user.
_KEPT: Final = 1000
_ALL: Final = "*"
_ACCOUNT: Final = "system:serviceaccount:"
_PARTS: Final = ("verbs", "apiGroups", "resources", "namespaces")


class Flow:
    """The requests that one schema assigns to a level.

    `marks` are the header fields of their responses; `dispatched` and `executing` are their counts.
    """

    __slots__ = ("dispatched", "distinguish", "executing", "level", "marks", "name")

    def __init__(self, schema: Json, level: Level) -> None:
        metadata: Json = schema["metadata"]
        self.name: str = metadata["name"]
        self.level = level
        #: The distinguisher of the schema's flows: "", ByUser or ByNamespace.
        self.distinguish: str = (schema["spec"].get("distinguisherMethod") or {}).get("type", "")
        # Names could disclose confidential configuration to a client, so the headers have uids.
        self.marks = (
            f"x-kubernetes-pf-flowschema-uid: {metadata['uid']}\r\nx-kubernetes-pf-prioritylevel-uid: {level.uid}\r\n"
        ).encode()
        self.dispatched = self.executing = 0

    def key(self, request: Request) -> tuple[str, str]:
        """Return the key of the queues for a request."""
        if self.distinguish == "ByUser":
            return self.name, request.user.name if request.user is not None else ""
        return self.name, request.info.namespace if self.distinguish == "ByNamespace" else ""


class _UserRules:
    """The cache of one user: the applicable rules in order, and their results."""

    __slots__ = ("always", "found", "rules")

    def __init__(self, user: User, schemas: Sequence[tuple[Json, Flow]]) -> None:
        self.rules = [
            (rule, flow)
            for spec, flow in schemas
            for rule in spec.get("rules") or ()
            if any(_is_subject(user, subject) for subject in rule.get("subjects") or ())
        ]
        #: The flow of all requests of the user, if only one is possible.
        self.always = self.rules[0][1] if self.rules and _covers_all(self.rules[0][0]) else None
        self.found: dict[tuple[str, ...], Flow | None] = {}


class Flows:
    """FlowSchemas in order of precedence.

    `schemas` has the flow of each, those of the lowest precedence value first. `last` is the flow of requests without
    a matching schema.
    """

    def __init__(self, schemas: Sequence[tuple[Json, Flow]] = (), last: Flow | None = None) -> None:
        self._schemas, self._last = schemas, last
        self._users: dict[tuple[str, tuple[str, ...]], _UserRules] = {}
        self._user: User | None = None
        self._known: _UserRules | None = None
        self.all = [flow for _, flow in schemas]

    def of(self, request: Request) -> Flow | None:
        """Return the flow of a request; None without schemas."""
        user = request.user
        assert user is not None, "the authentication handler runs first"
        known = self._known if user is self._user else self._get_user_rules(user)
        assert known is not None, "it is set with the user"
        return known.always or self._find_flow(known, request)

    def _get_user_rules(self, user: User) -> _UserRules:
        key = user.name, user.groups
        known = self._users.get(key)
        if known is None:
            if len(self._users) >= _KEPT:
                self._users.clear()
            known = self._users[key] = _UserRules(user, self._schemas)
        self._user, self._known = user, known
        return known

    def _find_flow(self, known: _UserRules, request: Request) -> Flow | None:
        info = request.info
        if info.resource:
            key: tuple[str, ...] = (info.verb, info.group, info.resource, info.subresource, info.namespace)
        else:
            key = (info.verb, request.path)
        if key in known.found:
            return known.found[key]
        if len(known.found) >= _KEPT:
            known.found.clear()
        covers = _covers_resource if info.resource else _covers_path
        flow = next((flow for rule, flow in known.rules if covers(rule, *key)), self._last)
        known.found[key] = flow
        return flow


def _is_subject(user: User, subject: Json) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return (subject.get("user") or {}).get("name") in (_ALL, user.name)
    if kind == "Group":
        name = (subject.get("group") or {}).get("name")
        return name == _ALL or name in user.groups
    if kind != "ServiceAccount" or not user.name.startswith(_ACCOUNT):
        return False
    account = subject.get("serviceAccount") or {}
    namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
    return account.get("namespace") == namespace and account.get("name") in (_ALL, name)


def _has(listed: Sequence[str], wanted: str) -> bool:
    """Return whether a name is listed. Only a single `*` is a wildcard."""
    return wanted in listed or (len(listed) == 1 and listed[0] == _ALL)


def _covers_resource(rule: Json, verb: str, group: str, resource: str, subresource: str, namespace: str) -> bool:
    what = f"{resource}/{subresource}" if subresource else resource
    return any(
        _has(each.get("verbs", ()), verb)
        and _has(each.get("resources", ()), what)
        and _has(each.get("apiGroups", ()), group)
        and (_has(each.get("namespaces", ()), namespace) if namespace else bool(each.get("clusterScope")))
        for each in rule.get("resourceRules") or ()
    )


def _covers_path(rule: Json, verb: str, path: str) -> bool:
    return any(
        _has(each.get("verbs", ()), verb) and any(_is_path(url, path) for url in each.get("nonResourceURLs") or ())
        for each in rule.get("nonResourceRules") or ()
    )


def _is_path(url: str, path: str) -> bool:
    return url in (_ALL, path) or path.startswith(url.removesuffix(_ALL).removesuffix("/") + "/")


def _covers_all(rule: Json) -> bool:
    everywhere = any(
        each.get("clusterScope") and all(each.get(part) == [_ALL] for part in _PARTS)
        for each in rule.get("resourceRules") or ()
    )
    return everywhere and any(
        each.get("verbs") == [_ALL] and _ALL in (each.get("nonResourceURLs") or ())
        for each in rule.get("nonResourceRules") or ()
    )


class Fairness:
    """The link of the chain; `seats` is the number of concurrent requests, exempt ones excluded."""

    next: Handler

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._levels: dict[str, Level] = {}
        self._flows = Flows()
        #: Flows by name, with their counts, including flows whose schemas are gone.
        self._known: dict[tuple[str, str], Flow] = {}
        self._rejected = Counter(f"{_NAME}_rejected_requests_total", "Rejected requests.", (*_OF_FLOW, "reason"))
        self._waited = Histogram(
            f"{_NAME}_request_wait_duration_seconds", "Queueing time.", (*_OF_FLOW, "execute"), _SECONDS
        )
        self._took = Histogram(
            f"{_NAME}_request_execution_seconds", "Execution time of limited requests; for watches, until they open.",
            (*_OF_FLOW, "type"), _SECONDS,
        )  # fmt: skip
        self._lengths = Histogram(
            f"{_NAME}_request_queue_length_after_enqueue", "Queue length after a request was enqueued.", _OF_FLOW,
            _LENGTHS,
        )  # fmt: skip

    def configure(self, schemas: Iterable[Json], levels: Iterable[Json]) -> None:
        """Apply the FlowSchemas and PriorityLevelConfigurations. Queued requests keep their position."""
        found: dict[str, Level] = {}
        for each in levels:
            name: str = each["metadata"]["name"]
            found[name] = self._levels.get(name) or Level(name)
            found[name].configure(each)
        self._levels = found
        share_seats(found, self._seats)
        order = sorted(
            schemas, key=lambda each: (each["spec"].get("matchingPrecedence", 1000), each["metadata"]["name"])
        )
        ruled = []
        for schema in order:
            level = found.get(schema["spec"]["priorityLevelConfiguration"]["name"])
            if level is not None:  # a schema without its level is ignored
                ruled.append((schema["spec"], self._flow(schema, level)))
        if len(self._known) > _KEPT:
            present = {flow for _, flow in ruled}
            self._known = {key: flow for key, flow in self._known.items() if flow in present or flow.executing}
        last = next((flow for _, flow in ruled if flow.name == _CATCH_ALL), None)
        self._flows = Flows(ruled, last)

    def _flow(self, schema: Json, level: Level) -> Flow:
        flow = Flow(schema, level)
        before = self._known.get((level.name, flow.name))
        if before is not None:  # running requests stay counted in the previous flow
            before.level, before.distinguish, before.marks = level, flow.distinguish, flow.marks
            return before
        self._known[level.name, flow.name] = flow
        return flow

    def try_fast(self, request: Request) -> Response | None:
        flow = self._flows.of(request)
        if flow is None:
            return self.next.try_fast(request)
        request.marks = flow.marks
        level = flow.level
        if level.exempt:
            answer = self.next.try_fast(request)
            if answer is not None:
                flow.dispatched += 1
            return answer
        if not level.try_acquire():
            return None
        since = perf_counter()
        try:
            answer = self.next.try_fast(request)
        except BaseException:
            level.release(since)
            raise
        if answer is None:
            level.release_now()
            return None
        flow.dispatched += 1
        level.release(since)
        return answer

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        info = request.info
        flow = self._flows.of(request)
        if flow is None or info.subresource in LONG_RUNNING or info.verb == "proxy":
            return self.next.handle(request)
        request.marks = flow.marks
        if flow.level.exempt:
            flow.dispatched += 1
            return self.next.handle(request)
        return self._handle_limited(request, flow)

    async def _handle_limited(self, request: Request, flow: Flow) -> Response | Stream:
        level = flow.level
        if not level.try_acquire():
            await self._wait(request, flow)
        flow.dispatched += 1
        flow.executing += 1
        started = perf_counter()
        try:
            return await self.next.handle(request)
        finally:
            flow.executing -= 1
            kind = "watch" if request.info.verb == "watch" else "regular"
            self._took.observe(perf_counter() - started, level.name, flow.name, kind)
            level.release(started)

    async def _wait(self, request: Request, flow: Flow) -> None:
        """Wait for a seat. Raise 429."""
        level, since = flow.level, perf_counter()
        try:
            seconds, length = await level.wait(flow.key(request), _get_max_wait(request))
        except Rejected as rejected:
            self._rejected.inc(level.name, flow.name, str(rejected))
            self._waited.observe(perf_counter() - since, level.name, flow.name, "false")
            raise PlainError(429, "Too many requests, please try again later.", (("Retry-After", "1"),)) from None
        self._waited.observe(seconds, level.name, flow.name, "true")
        self._lengths.observe(length, level.name, flow.name)

    def families(self) -> list[Family]:
        """Return the metric families of flows and levels."""
        dispatched = Counter(f"{_NAME}_dispatched_requests_total", "Dispatched requests.", _OF_FLOW)
        for (level, schema), flow in self._known.items():
            dispatched.sample(level, schema).value = flow.dispatched
        executing: dict[Labels, float] = {key: float(flow.executing) for key, flow in self._known.items()}
        waiting = self._waiting()
        of_levels: Mapping[str, tuple[str, Callable[[Level], int]]] = {
            "nominal_limit_seats": ("Nominal seats of each level.", lambda level: level.seats),
            "lower_limit_seats": ("Seats that each level does not lend.", lambda level: level.least),
            "upper_limit_seats": ("Maximum seats of each level, borrowed ones included.", lambda level: level.most),
            "current_limit_seats": ("Current seats of each level.", lambda level: max(level.seats, level.executing)),
        }
        return [
            dispatched, self._rejected, self._waited, self._took, self._lengths,
            _gauge("current_executing_requests", "Executing limited requests.", _OF_FLOW, executing),
            _gauge("current_executing_seats", "Seats in use.", _OF_FLOW, executing),
            _gauge("current_inqueue_requests", "Queued requests.", _OF_FLOW, waiting),
            _gauge("current_inqueue_seats", "Seats needed by queued requests.", _OF_FLOW, waiting),
            *(
                _gauge(name, text, _OF_FLOW[:1], {(level.name,): read(level) for level in self._levels.values()})
                for name, (text, read) in of_levels.items()
            ),
        ]  # fmt: skip

    def _waiting(self) -> dict[Labels, float]:
        found = Counts(each.flow for level in self._levels.values() for each in level.waiting)
        return {key: float(found[key[1]]) for key in self._known}


def _gauge(name: str, text: str, labels: Labels, values: Mapping[Labels, float]) -> Family:
    return Gauge(f"{_NAME}_{name}", text, labels, lambda: values)


def _get_max_wait(request: Request) -> float:
    """Return the maximal queueing time in seconds."""
    given = request.params.get("timeout", ("",))[0] if "timeout=" in request.query else ""
    seconds = parse_duration(given).total_seconds() if given and request.info.verb != "watch" else 0
    return min(min(seconds or _DEADLINE, _DEADLINE) / 4, _LONGEST)
