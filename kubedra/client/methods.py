"""Methods of `Client` and `AsyncClient`, written once as steps: resources by kind, apply, calls for one object."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubedra.client.custom_types import is_definition, wait_until_served
from kubedra.client.inspection import InspectionMethods, Moment, get_at
from kubedra.client.manifests import Document, Manifest, documents
from kubedra.client.node_methods import NodeMethods
from kubedra.client.nodes import Captured, create_node
from kubedra.client.paths import field_selector, group_path, join_path
from kubedra.client.responses import ApiError, decode
from kubedra.client.steps import JSON, Call, Steps
from kubedra.client.waiting import Wait, default_timeout
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
#: The field manager of `apply`.
FIELD_MANAGER = "kubedra"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
#: Number of objects whose timelines a report shows.
_ASSERTED = 3
Objects = list[Json]


class Methods(NodeMethods, InspectionMethods):
    """The methods for one server. `namespace` is the default namespace of namespaced objects."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        #: Cached discovery: the group versions in search order, and the kinds of each.
        self._versions: tuple[str, ...] = ()
        self._kinds: dict[str, dict[str, Json]] = {}
        #: Whether the server may have `/-/idle`, which only kubedra's servers have.
        self.reports_idleness = True
        #: The clock of timeouts, in seconds.
        self.monotonic: Callable[[], float] = time.monotonic
        #: The latest objects that were read or awaited by name, with their namespaces, for reports of failing tests.
        self.asserted: dict[tuple[str, str | None], None] = {}
        #: Returns a default timeout in seconds, given that of real time.
        self.default_timeout: Callable[[float], float] = default_timeout

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = "",
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Steps[Json]:
        """Send one request and return the decoded response. `timeout` in seconds overrides the client's.

        Raises ApiError for a failed request, and ConnectionError if no server responds.
        """
        code, text = yield Call(
            method=method,
            path=path,
            body=body,
            content_type=content_type,
            accept=accept,
            params=params or {},
            timeout=timeout,
        )
        return decode(code, text)

    def path(
        self, api_version: str, kind: str, namespace: str | None = None, name: str = "", subresource: str = ""
    ) -> Steps[str]:
        """Return the path of a kind's collection or object, found by discovery."""
        info = yield from self._resource(api_version, kind)
        parts = [*group_path(api_version)]
        if info["namespaced"] and namespace != "":
            parts += ["namespaces", namespace or self.namespace]
        return join_path(*parts, info["name"], *(part for part in (name, *subresource.split("/")) if part))

    def _resource(self, api_version: str, kind: str) -> Steps[Json]:
        known = self._kinds.get(api_version, {})
        if kind not in known:
            # Kinds can be added while a server runs.
            known = yield from self._load(api_version)
        if kind not in known:
            raise ApiError(404, "NotFound", f'no kind "{kind}" is served in version "{api_version}"')
        return known[kind]

    def resolve(self, word: str) -> Steps[tuple[str, str]]:
        """Return (apiVersion, kind) of a kind, plural, singular or short name: "pods", "pod", "po", "ResourceClaim"."""
        cached = bool(self._kinds)
        found = yield from self._find(word)
        if found is None and cached:
            # The type may have been added after discovery was cached.
            self._versions, self._kinds = (), {}
            found = yield from self._find(word)
        if found is None:
            raise ApiError(404, "NotFound", f'the server does not have a resource type "{word}"')
        return found

    def _find(self, word: str) -> Steps[tuple[str, str] | None]:
        """Search the cached discovery, and load its missing parts."""
        for version in self._versions or (yield from self._list_versions()):
            known = self._kinds[version] if version in self._kinds else (yield from self._load_available(version))
            for info in known.values():
                names = info["name"], info.get("singularName"), *info.get("shortNames", ())
                if word.lower() == info["kind"].lower() or word.lower() in names:
                    return version, info["kind"]
        return None

    def _list_versions(self) -> Steps[tuple[str, ...]]:
        groups = (yield from self.request("GET", "/apis"))["groups"]
        # A kind that is missing in the preferred version of a group may be in another version.
        preferred = [group["preferredVersion"]["groupVersion"] for group in groups]
        others = [version["groupVersion"] for group in groups for version in group["versions"]]
        self._versions = tuple(dict.fromkeys(("v1", *preferred, *others)))
        return self._versions

    def _load(self, api_version: str) -> Steps[dict[str, Json]]:
        try:
            resources = (yield from self.request("GET", join_path(*group_path(api_version))))["resources"]
        except ApiError as error:
            if error.code != 404:
                raise
            resources = []
        self._kinds[api_version] = {r["kind"]: r for r in resources if "/" not in r["name"]}
        return self._kinds[api_version]

    def _load_available(self, api_version: str) -> Steps[dict[str, Json]]:
        """Load the kinds of a version; none if its extension API server is unavailable, as in kubectl."""
        try:
            return (yield from self._load(api_version))
        except ApiError as error:
            if error.code != 503:
                raise
            self._kinds[api_version] = {}
            return {}

    def _collection(self, word: str, namespace: str | None) -> Steps[str]:
        return (yield from self.path(*(yield from self.resolve(word)), namespace))

    def _object(self, target: str, namespace: str | None, subresource: str = "", name: str = "") -> Steps[str]:
        """Return the path of `KIND/NAME`, or of KIND and a name."""
        word, name = _split_target(target, name)
        return (yield from self.path(*(yield from self.resolve(word)), namespace, name, subresource))

    def get(
        self, target: str, name: str = "", *, namespace: str | None = None, at: Moment | None = None
    ) -> Steps[Json]:
        """Return the object `KIND/NAME`: `get("pod/web")` or `get("pods", "web")`.

        `at` is a past moment (`Client.revision`): `get("pod/web", at="-5m")`.
        """
        word, object_name = _split_target(target, name)
        self._remember(f"{word}/{object_name}", namespace)
        if at is not None:
            return (yield from get_at(self, word, object_name, at, namespace))
        path = yield from self._object(target, namespace, name=name)
        return (yield from self.request("GET", path))

    def list(
        self, /, word: str, *, namespace: str | None = None, at: Moment | None = None, **params: str
    ) -> Steps[Objects]:
        """Return the objects of a kind; `namespace=""` means all namespaces.

        `labelSelector` and `fieldSelector` are as in the API, `at` as in `get`.
        """
        if at is not None:
            return (yield from self.list_at(word, at, namespace, params)).get("items") or []
        path = yield from self._collection(word, namespace)
        listing = yield from self.request("GET", path, params=params)
        items: Objects = listing.get("items") or []
        return items

    def _remember(self, target: str, namespace: str | None) -> None:
        self.asserted.pop((target, namespace), None)
        self.asserted[target, namespace] = None
        if len(self.asserted) > _ASSERTED:
            del self.asserted[next(iter(self.asserted))]

    def create(self, obj: Json, *, strict: bool = True) -> Steps[Json]:
        """Create one object. Unknown fields raise ApiError; with `strict=False` they are dropped."""
        path = yield from self.path(obj["apiVersion"], obj["kind"], obj.get("metadata", {}).get("namespace"))
        validation = {"fieldValidation": "Strict" if strict else "Ignore"}
        return (yield from self.request("POST", path, obj, params=validation))

    def delete(self, target: str, *, namespace: str | None = None, grace_period: int | None = None) -> Steps[Json]:
        """Delete `KIND/NAME`. `grace_period` is in seconds; 0 deletes a pod immediately."""
        path = yield from self._object(target, namespace)
        params = {} if grace_period is None else {"gracePeriodSeconds": str(grace_period)}
        return (yield from self.request("DELETE", path, params=params))

    def patch(self, target: str, patch: Json, *, namespace: str | None = None, subresource: str = "") -> Steps[Json]:
        """Merge-patch `KIND/NAME`, or a subresource of it."""
        path = yield from self._object(target, namespace, subresource)
        return (yield from self.request("PATCH", path, patch, content_type=_MERGE))

    def patch_status(self, target: str, status: Json, *, namespace: str | None = None) -> Steps[Json]:
        """Merge-patch the status of `KIND/NAME`: `patch_status("pod/web", {"phase": "Failed"})`."""
        return (yield from self.patch(target, {"status": status}, namespace=namespace, subresource="status"))

    def scale(self, target: str, replicas: int, *, namespace: str | None = None) -> Steps[Json]:
        """Set the number of replicas of `KIND/NAME`. Return its Scale."""
        scale = {"spec": {"replicas": replicas}}
        return (yield from self.patch(target, scale, namespace=namespace, subresource="scale"))

    def events(self, target: str = "", *, namespace: str | None = None) -> Steps[Objects]:
        """Return the events of `KIND/NAME`, or all events of the namespace, oldest first."""
        word, _, name = target.partition("/")
        about = {}
        if target:
            _, kind = yield from self.resolve(word)
            about = {"involvedObject.kind": kind, "involvedObject.name": name}
        selector = field_selector({key: value for key, value in about.items() if value})
        found = yield from self.list("events", namespace=namespace, **({"fieldSelector": selector} if selector else {}))
        return sorted(found, key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])

    def logs(self, target: str, *, container: str = "", namespace: str | None = None) -> Steps[str]:
        """Return the log of a pod's container: `logs("pod/web")`.

        An emulated container logs what it would have done.
        """
        path = yield from self._object(target, namespace, "log")
        code, text = yield Call(method="GET", path=path, params={"container": container} if container else {})
        if code >= 400:
            decode(code, text)
        return str(text)

    def driver_calls(
        self, *, node: str = "", driver: str = "", method: str = "", claim: str = "", limit: int = 1000
    ) -> Steps[Objects]:
        """Return the calls between kubelets and real drivers since the start or the last reset, oldest first.

        Each has `id`, `node`, `driver`, `method`, `claims`, `answer`, `code` ("" while it runs), `error` and `seconds`.
        Arguments are filters: `method` is a gRPC method ("NodePrepareResources"), `claim` "NAMESPACE/NAME". The
        server keeps the latest 1000 calls.
        """
        filters = {"node": node, "driver": driver, "method": method, "claim": claim, "limit": str(limit)}
        params = {key: value for key, value in filters.items() if value}
        answer = yield from self.request("GET", "/-/drivers/calls", params=params)
        calls: Objects = answer["value"]
        return calls[::-1]

    def requests(
        self,
        *,
        user: str = "",
        user_agent: str = "",
        verb: str = "",
        resource: str = "",
        namespace: str = "",
        name: str = "",
        code: int | None = None,
        limit: int = 1000,
    ) -> Steps[Objects]:
        """Return the requests that a kubedra server got since its start or its last reset, oldest first.

        They include those of the scheduler and the controllers. Each has its sender and its response.

        Each argument is a filter: `user_agent` is a prefix ("my-driver"), `resource` a plural or "pods/status", `verb`
        a verb of the API ("get", "list", "watch", "create", "update", "patch", "delete"). The server keeps the latest
        1000 requests.
        """
        filters = {
            "user": user,
            "userAgent": user_agent,
            "verb": verb,
            "resource": resource,
            "namespace": namespace,
            "name": name,
            "code": "" if code is None else str(code),
            "limit": str(limit),
        }
        params = {key: value for key, value in filters.items() if value}
        answer = yield from self.request("GET", "/-/requests", params=params)
        found: Objects = answer["value"]
        return found[::-1]

    def apply(
        self, manifest: Manifest, *, force: bool = False, strict: bool = True, field_manager: str = FIELD_MANAGER
    ) -> Steps[Objects]:
        """Apply every object of a manifest (YAML text, a file, a directory, objects) with server-side apply.

        A field that another manager owns with another value is a conflict (ApiError 409) unless `force` is set. Unknown
        fields raise ApiError. With `strict=False` they are dropped, and the object is created or merge-patched instead,
        because server-side apply always rejects them. Errors name file, document and kind; the objects before are
        applied.

        After a CustomResourceDefinition `apply` waits until its kinds are served, so that their objects can follow.
        Raises TimeoutError if they are not served within 30 s (`$KUBEDRA_WAIT_TIMEOUT`).
        """
        params = {"fieldManager": field_manager} | ({"force": "true"} if force else {})
        applied: Objects = []
        for document in documents(manifest):
            applied += [(yield from self._apply_one(document, params, strict=strict))]
        return applied

    def _apply_one(self, document: Document, params: dict[str, str], *, strict: bool) -> Steps[Json]:
        obj, meta = document.obj, document.obj.get("metadata") or {}
        if not meta.get("name"):
            raise ValueError(f"{document}: no metadata.name; apply needs one (`create` takes generateName)")
        try:
            path = yield from self.path(obj["apiVersion"], obj["kind"], meta.get("namespace"), meta["name"])
            while True:
                if not strict:
                    applied = yield from self._merge(obj, path, params["fieldManager"])
                else:
                    checked = {**params, "fieldValidation": "Strict"}
                    applied = yield from self.request("PATCH", path, obj, content_type=_APPLY, params=checked)
                if not is_definition(obj):
                    return applied
                served = yield from wait_until_served(self, path, applied)
                if served is not None:
                    self._versions, self._kinds = (), {}
                    return served
        except TimeoutError as error:
            raise TimeoutError(f"{document}: {error}") from None
        except ApiError as error:
            raise ApiError(error.code, error.reason, f"{document}: {error.message}", error.status) from None
        except ValueError as error:
            raise ValueError(f"{document}: {error}") from None

    def _merge(self, obj: Json, path: str, field_manager: str) -> Steps[Json]:
        params = {"fieldManager": field_manager, "fieldValidation": "Ignore"}
        try:
            return (yield from self.request("POST", path.rpartition("/")[0], obj, params=params))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return (yield from self.request("PATCH", path, obj, content_type=_MERGE, params=params))

    def add_node(
        self,
        name: str,
        *,
        devices: int = 0,
        profile: str = "",
        slices: Iterable[Manifest] | Captured = (),
        slices_of: str = "",
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        taints: Iterable[Json] = (),
        jobs_exit_after: str = "",
    ) -> Steps[Json]:
        """Create an emulated Node, wait until it is Ready, and return it.

        It has `devices` example GPUs, the hardware of a profile, and the devices of `slices` that belong to it.
        `slices_of` is its name in the slices, if different. `jobs_exit_after` ("1s") ends its containers of Jobs.

        Raises ApiError if the server rejects an object, ValueError if the profile does not exist or no slice belongs to
        the node, TimeoutError if no agent runs the node.
        """
        node = create_node(
            self,
            name,
            devices=devices,
            profile=profile,
            slices=slices,
            slices_of=slices_of,
            labels=labels,
            capacity=capacity,
            taints=taints,
            jobs_exit_after=jobs_exit_after,
        )
        return (yield from node)

    def wait(
        self,
        target: str,
        until: str | Callable[[Json], object],
        *,
        namespace: str | None = None,
        timeout: float | None = None,
        fail_fast: bool = True,
        virtual: bool = False,
    ) -> Steps[Json]:
        """Wait until `KIND/NAME` meets a condition. Return its last state.

        `until`: "phase=Running", "condition=Ready" (or "condition=Ready=False"), "create", "delete", or a predicate of
        the object. `timeout` is in seconds; by default 30 or `$KUBEDRA_WAIT_TIMEOUT`.

        The wait fails early if the control plane is idle: no controller and no scheduler has queued work, no timer
        fires before the timeout, and no other client watches. `fail_fast=False` disables this. With `virtual`, virtual
        time advances timer by timer during the wait, and `timeout` is in seconds of virtual time.

        Raises TimeoutError with the last state, and AtRestError (a TimeoutError) if it fails early.
        """
        if timeout is None:
            timeout = self.default_timeout(30)
        path = yield from self._collection(_split_target(target)[0], namespace)
        self._remember(target, namespace)
        wait = Wait(self, target, until, path, namespace)
        return (yield from (wait.advance_until_met(timeout) if virtual else wait.watch_until_met(timeout, fail_fast)))


def _split_target(target: str, name: str = "") -> tuple[str, str]:
    """Return kind and name of `KIND/NAME`, or of KIND and a name. Raises ValueError if there is no name."""
    word, _, rest = target.partition("/")
    if not (name or rest):
        raise ValueError(f'"{target}" names no object: write "{target}/NAME"')
    return word, name or rest
