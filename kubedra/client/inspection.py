"""The client's methods that explain objects and their history, which only kubedra's servers have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from kubedra.client.paths import field_selector, join_path
from kubedra.client.responses import ApiError
from kubedra.client.steps import Steps
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
#: A revision, a time, or a duration before the server's time: 1234, "1234", "-5m", a datetime, a timedelta.
Moment = int | str | datetime | timedelta
#: Timeout of an explanation, in seconds.
_EXPLAINING = 120.0


class _Client(Protocol):
    """The client methods that these use."""

    namespace: str

    def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Steps[Json]: ...

    def resolve(self, word: str) -> Steps[tuple[str, str]]: ...

    def _resource(self, api_version: str, kind: str) -> Steps[Json]: ...

    def _collection(self, word: str, namespace: str | None) -> Steps[str]: ...

    def revision(self, at: Moment) -> Steps[str]: ...

    def read_history(
        self, target: str, *, namespace: str | None = None, limit: int = 100, objects: bool = False
    ) -> Steps[Json]: ...


class InspectionMethods:
    """Explanations, changes, timelines and past states."""

    def explain(self: _Client, target: str, *, namespace: str | None = None) -> Steps[Json]:
        """Explain a pod, podgroup, claim or node: `explain("pod/web")`. `report` in the result is text for people.

        For a pod or podgroup the result says why it is pending and what would help, for a claim which devices it has,
        for a node which claims use its devices. Only kubedra's servers support this; `kubedra explain` works with any
        cluster.
        """
        word, _, name = target.partition("/")
        _, kind = yield from self.resolve(_full_word(word))
        known = {"Pod": "pod", "ResourceClaim": "claim", "Node": "node", "PodGroup": "podgroup"}
        if kind not in known or not name:
            raise ValueError(f'"{target}": write "pod/NAME", "claim/NAME", "node/NAME" or "podgroup/NAME"')
        where = (name,) if kind == "Node" else (namespace or self.namespace, name)
        return (yield from self.request("GET", join_path("-", "explain", known[kind], *where), timeout=_EXPLAINING))

    def history(
        self: _Client, target: str, *, namespace: str | None = None, limit: int = 100, objects: bool = False
    ) -> Steps[list[Json]]:
        """Return the changes of `KIND/NAME`, oldest first: `history("claim/gpu")`. At most the latest `limit`.

        Each has `revision`, `time`, `user`, `userAgent`, `manager`, `verb`, `subresource`, `created`, `deleted` and
        `fields`: the changed fields with `path`, `old` and `new`, or None if the state before is not known. With
        `objects` each has the object after the change.

        It reaches back to the last reset, as far as the server keeps its history (`--history`). Raises ApiError (404)
        if there is no change.
        """
        found = yield from self.read_history(target, namespace=namespace, limit=limit, objects=objects)
        changes: list[Json] = found["changes"]
        return changes

    def read_history(
        self: _Client, target: str, *, namespace: str | None = None, limit: int = 100, objects: bool = False
    ) -> Steps[Json]:
        """Return `changes` as `history` does, and `report`: the changes as text for people."""
        params = yield from _object_of(self, target, namespace)
        params |= {"limit": str(limit), **({"objects": "true"} if objects else {})}
        return (yield from self.request("GET", "/-/history", params=params))

    def timeline(self: _Client, target: str, *, namespace: str | None = None) -> Steps[Json]:
        """Return the timeline of `KIND/NAME`: `timeline("pod/web")["report"]` is text for people.

        `entries` are in order. Each has `time`, `name`, `detail`, `stage` (whether the object was in this stage until
        the next one) and `seconds`, the time spent in it. The stages of a pod are created, queued, attempt N,
        allocated, reserved, bound, prepared, running, ready and ended.
        """
        params = yield from _object_of(self, target, namespace)
        return (yield from self.request("GET", "/-/timeline", params=params))

    def revision(self: _Client, at: Moment) -> Steps[str]:
        """Return the newest revision at or before a moment: a revision, a time, or "-5m" before the server's time.

        Raises ApiError: 400 for a moment in the future or an unknown form, 410 for one before the history.
        """
        text = at.isoformat() if isinstance(at, datetime) else str(at)
        if isinstance(at, timedelta):
            text = f"-{abs(at.total_seconds()):f}s"
        if text.isdecimal():
            return text
        answer = yield from self.request("GET", "/-/revision", params={"at": text})
        return str(answer["revision"])

    def list_at(self: _Client, word: str, at: Moment, namespace: str | None, params: Mapping[str, str]) -> Steps[Json]:
        """Return the list of a kind as it was at a moment."""
        path = yield from self._collection(word, namespace)
        revision = yield from self.revision(at)
        exactly = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
        try:
            return (yield from self.request("GET", path, params={**params, **exactly}))
        except ApiError as error:
            if error.code != 410:
                raise
            text = f"revision {revision} is before the history; a server with --history keeps more"
            raise ApiError(error.code, error.reason, text, error.status) from None


def get_at(client: Any, target: str, name: str, at: Moment, namespace: str | None) -> Steps[Json]:
    """Return an object as it was at a moment. Raise ApiError (404) if it did not exist."""
    selector = field_selector({"metadata.name": name})
    found = yield from client.list_at(target, at, namespace, {"fieldSelector": selector})
    items = found.get("items") or []
    if not items:
        revision = found["metadata"]["resourceVersion"]
        raise ApiError(404, "NotFound", f'{target} "{name}" did not exist at revision {revision}')
    api_version, kind = found["apiVersion"], found["kind"].removesuffix("List")
    return {"apiVersion": api_version, "kind": kind, **items[0]}


def _full_word(word: str) -> str:
    """Return the API's word for `claim`."""
    return "resourceclaim" if word in ("claim", "claims") else word


def _object_of(client: _Client, target: str, namespace: str | None) -> Steps[dict[str, str]]:
    """Return the query for an object. Raise ValueError for a target without a name."""
    word, _, name = target.partition("/")
    if not name:
        raise ValueError(f'"{target}" names no object: write "{target}/NAME"')
    api_version, kind = yield from client.resolve(_full_word(word))
    info = yield from client._resource(api_version, kind)
    where = {"namespace": namespace or client.namespace} if info["namespaced"] else {}
    group = api_version.partition("/")[0] if "/" in api_version else ""
    return {**({"group": group} if group else {}), "resource": info["name"], **where, "name": name}
