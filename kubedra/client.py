"""A small synchronous client for tests and commands: resources by kind, apply from YAML, wait on a watch.

Works against any Kubernetes API server. It keeps to what a test needs; for more, any Kubernetes client takes the
kubeconfig.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kubedra.manifests import Document, Manifest, documents

if TYPE_CHECKING:
    import httpx

    from kubedra.clock import Clock

#: A failing test's report ends in the test: pytest leaves this module's frames out.
__tracebackhide__ = True
#: Real time that clients outside have to react to what a timer of virtual time caused.
_REACTION = timedelta(milliseconds=10)
#: The manager that owns what `apply` sets.
FIELD_MANAGER = "kubedra"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
Json = dict[str, Any]
Objects = list[Json]


class ApiError(Exception):
    """A response that reports a failure. `reason` and `code` are the Status's ("NotFound", 404)."""

    def __init__(self, code: int, reason: str, message: str, status: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.status = code, reason, message, status or {}


class Client:
    """A client of one server. `namespace` is used for namespaced objects that name none."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        verify: bool | str | ssl.SSLContext = True,
        namespace: str = "default",
        timeout: float = 30.0,
    ) -> None:
        import httpx

        headers = {"Accept": "application/json", "User-Agent": "kubedra"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        self.url, self.namespace = url.rstrip("/"), namespace
        # A server on this machine or named in a kubeconfig is spoken to directly: a proxy from the environment would
        # not know it. Without TLS there is nothing to verify, and reading the system's authorities would cost more than
        # a test.
        verify = verify if self.url.startswith("https:") else False
        self._http = httpx.Client(base_url=self.url, headers=headers, verify=verify, timeout=timeout, trust_env=False)
        self._kinds: dict[str, dict[str, Json]] = {}

    @classmethod
    def from_kubeconfig(cls, path: Path | str) -> Client:
        """A client of the current context's cluster, with its token."""
        from kubedra.kubeconfig import read

        access = read(Path(path))
        return cls(access.server, token=access.token, verify=access.verify(), namespace=access.namespace)

    def __repr__(self) -> str:
        return f"<kubedra.Client {self.url} namespace={self.namespace}>"

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Json:
        """One request; the decoded answer, or ApiError. `timeout` in seconds, where it is not the client's.

        Raises ConnectionError where no server answers.
        """
        answer = self._send(method, path, body, content_type=content_type, params=params, timeout=timeout)
        return self._answer(answer.status_code, answer.text)

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        import httpx

        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type} if content else {}
        limit = self._http.timeout if timeout is None else timeout
        try:
            return self._http.request(method, path, content=content, headers=headers, params=params, timeout=limit)
        except httpx.ConnectError as error:
            raise ConnectionError(f"{self.url}: no server answers: {error}") from None

    @staticmethod
    def _answer(code: int, text: str) -> Json:
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = {"message": text.strip()}
        if code >= 400:
            raise ApiError(code, decoded.get("reason", ""), decoded.get("message", text), decoded)
        return decoded if isinstance(decoded, dict) else {"value": decoded}

    def path(
        self, api_version: str, kind: str, namespace: str | None = None, name: str = "", subresource: str = ""
    ) -> str:
        """The path of a kind's collection or object, found by discovery."""
        info = self._resource(api_version, kind)
        parts = ["/apis/" + api_version if "/" in api_version else "/api/" + api_version]
        if info["namespaced"]:
            parts += ["namespaces", namespace or self.namespace] if namespace != "" else []
        parts += [info["name"], *(p for p in (name, subresource) if p)]
        return "/".join(parts)

    def _resource(self, api_version: str, kind: str) -> Json:
        known = self._kinds.get(api_version, {})
        if kind not in known:
            # Kinds may be added while a server runs.
            try:
                known = self._load(api_version)
            except ApiError as error:
                if error.code != 404:
                    raise
        if kind not in known:
            raise ApiError(404, "NotFound", f'no kind "{kind}" is served in version "{api_version}"')
        return known[kind]

    def resolve(self, word: str) -> tuple[str, str]:
        """(apiVersion, kind) of a kind, plural, singular or short name: "pods", "pod", "po", "ResourceClaim"."""
        groups = self.request("GET", "/apis")["groups"]
        # What a group's preferred version does not have may be in another.
        versions = [
            "v1",
            *(g["preferredVersion"]["groupVersion"] for g in groups),
            *(v["groupVersion"] for g in groups for v in g["versions"]),
        ]
        for version in versions:
            for info in (self._kinds.get(version) or self._load(version)).values():
                if word.lower() in (
                    info["kind"].lower(),
                    info["name"],
                    info.get("singularName"),
                    *info.get("shortNames", ()),
                ):
                    return version, info["kind"]
        raise ApiError(404, "NotFound", f'the server does not have a resource type "{word}"')

    def _load(self, api_version: str) -> dict[str, Json]:
        listing = self.request("GET", "/apis/" + api_version if "/" in api_version else "/api/" + api_version)
        self._kinds[api_version] = {r["kind"]: r for r in listing["resources"] if "/" not in r["name"]}
        return self._kinds[api_version]

    def _object(self, target: str, namespace: str | None, subresource: str = "", name: str = "") -> str:
        """The path of `KIND/NAME`, or of KIND and a name."""
        word, _, named = target.partition("/")
        if not (name or named):
            raise ValueError(f'"{target}" names no object: write "{target}/NAME"')
        return self.path(*self.resolve(word), namespace, name or named, subresource)

    def get(self, target: str, name: str = "", *, namespace: str | None = None) -> Json:
        """The object `KIND/NAME`: `get("pod/web")` or `get("pods", "web")`."""
        return self.request("GET", self._object(target, namespace, name=name))

    def list(self, word: str, *, namespace: str | None = None, **params: str) -> Objects:
        """The objects of a kind; `namespace=""` for all namespaces."""
        items: Objects = (
            self.request("GET", self.path(*self.resolve(word), namespace), params=params).get("items") or []
        )
        return items

    def create(self, obj: Json, *, strict: bool = True) -> Json:
        """Create one object. Unknown fields are an error; with `strict=False` they are dropped."""
        path = self.path(obj["apiVersion"], obj["kind"], obj.get("metadata", {}).get("namespace"))
        return self.request("POST", path, obj, params={"fieldValidation": "Strict" if strict else "Ignore"})

    def delete(self, target: str, *, namespace: str | None = None, grace_period: int | None = None) -> Json:
        """Delete `KIND/NAME`."""
        params = {} if grace_period is None else {"gracePeriodSeconds": str(grace_period)}
        return self.request("DELETE", self._object(target, namespace), params=params)

    def patch(self, target: str, patch: Json, *, namespace: str | None = None, subresource: str = "") -> Json:
        """Merge-patch `KIND/NAME`."""
        return self.request("PATCH", self._object(target, namespace, subresource), patch, content_type=_MERGE)

    def patch_status(self, target: str, status: Json, *, namespace: str | None = None) -> Json:
        """Merge-patch the status of `KIND/NAME`: `patch_status("pod/web", {"phase": "Failed"})`."""
        return self.patch(target, {"status": status}, namespace=namespace, subresource="status")

    def scale(self, target: str, replicas: int, *, namespace: str | None = None) -> Json:
        """Set the number of replicas of `KIND/NAME`; its Scale."""
        return self.patch(target, {"spec": {"replicas": replicas}}, namespace=namespace, subresource="scale")

    def events(self, target: str = "", *, namespace: str | None = None) -> Objects:
        """The events about `KIND/NAME`, or all of the namespace, oldest first."""
        word, _, name = target.partition("/")
        about = {"involvedObject.kind": self.resolve(word)[1], "involvedObject.name": name} if target else {}
        selector = ",".join(f"{key}={value}" for key, value in about.items() if value)
        found = self.list("events", namespace=namespace, **({"fieldSelector": selector} if selector else {}))
        return sorted(found, key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])

    def logs(self, target: str, *, container: str = "", namespace: str | None = None) -> str:
        """What a pod's container wrote, from clusters that run containers: `logs("pod/web")`."""
        params = {"container": container} if container else {}
        answer = self._send("GET", self._object(target, namespace, "log"), params=params)
        if answer.status_code >= 400:
            self._answer(answer.status_code, answer.text)
        return answer.text

    def apply(
        self, manifest: Manifest, *, force: bool = False, strict: bool = True, field_manager: str = FIELD_MANAGER
    ) -> Objects:
        """Server-side apply of every object of a manifest (YAML text, a file, a directory, objects).

        Fields that another manager owns with another value are a conflict (ApiError 409) unless `force` takes them.
        Unknown fields are an error; with `strict=False` they are dropped, and the object is created or merge-patched
        instead, for server-side apply refuses them always. What fails is named with its file, document and kind; the
        objects before it are applied.
        """
        params = {"fieldManager": field_manager} | ({"force": "true"} if force else {})
        return [self._apply_one(document, params, strict=strict) for document in documents(manifest)]

    def _apply_one(self, document: Document, params: dict[str, str], *, strict: bool) -> Json:
        obj, meta = document.obj, document.obj.get("metadata") or {}
        if not meta.get("name"):
            raise ValueError(f"{document}: no metadata.name; apply needs one (`create` takes generateName)")
        try:
            path = self.path(obj["apiVersion"], obj["kind"], meta.get("namespace"), meta["name"])
            if not strict:
                return self._merge(obj, path, params["fieldManager"])
            return self.request("PATCH", path, obj, content_type=_APPLY, params={**params, "fieldValidation": "Strict"})
        except ApiError as error:
            raise ApiError(error.code, error.reason, f"{document}: {error.message}", error.status) from None

    def _merge(self, obj: Json, path: str, field_manager: str) -> Json:
        params = {"fieldManager": field_manager, "fieldValidation": "Ignore"}
        try:
            return self.request("POST", path.rpartition("/")[0], obj, params=params)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return self.request("PATCH", path, obj, content_type=_MERGE, params=params)

    def watch(self, path: str, *, timeout: float, **params: str) -> Iterator[Json]:
        """Events of a collection's path until `timeout` seconds have passed."""
        import httpx

        query = {"watch": "true", "timeoutSeconds": str(max(1, int(timeout) + 1)), **params}
        with self._http.stream("GET", path, params=query, timeout=httpx.Timeout(timeout, connect=10.0)) as answer:
            if answer.status_code >= 400:
                self._answer(answer.status_code, answer.read().decode())
            for line in answer.iter_lines():
                yield json.loads(line)

    def wait(
        self,
        target: str,
        until: str | Callable[[Json], bool],
        *,
        namespace: str | None = None,
        timeout: float = 30.0,
        clock: Clock | None = None,
    ) -> Json:
        """Wait until `KIND/NAME` is as wanted, and return its last state. With a virtual `clock` time passes meanwhile,
        timer by timer, and `timeout` counts its seconds.

        `until`: "phase=Running", "condition=Ready" (or "condition=Ready=False"), "create", "delete", or a function of
        the object.
        Raises TimeoutError with what was seen last.
        """
        word, _, name = target.partition("/")
        wanted = until if callable(until) else condition(until)
        path = self.path(*self.resolve(word), namespace)
        selector = f"metadata.name={name}"
        last: Json | None = None
        states = (
            self._states(path, selector, time.monotonic() + timeout)
            if clock is None
            else self._states_as_time_passes(path, selector, clock, timedelta(seconds=timeout))
        )
        for obj in states:
            if (obj is None and until == "delete") or (obj is not None and until != "delete" and wanted(obj)):
                return obj or last or {}
            last = obj
        seen = json.dumps(last.get("status", {}), indent=1) if last else "it does not exist"
        what = until if isinstance(until, str) else getattr(until, "__name__", "the wanted state")
        raise TimeoutError(f"{target} did not reach {what} within {timeout} s; last seen: {seen}")

    def _states_as_time_passes(self, path: str, selector: str, clock: Clock, limit: timedelta) -> Iterator[Json | None]:
        """The state of one object now and after each timer; None while it does not exist."""
        end = clock.now() + limit
        while True:
            items = self.request("GET", path, params={"fieldSelector": selector}).get("items")
            yield items[0] if items else None
            now = clock.now()
            if now >= end:
                return
            clock.step(end - now, pause=_REACTION)

    def _states(self, path: str, selector: str, deadline: float) -> Iterator[Json | None]:
        """Each state of one object from now on; None while it does not exist."""
        import httpx

        while time.monotonic() < deadline:
            listing = self.request("GET", path, params={"fieldSelector": selector})
            items = listing.get("items") or []
            yield items[0] if items else None
            revision = listing["metadata"]["resourceVersion"]
            try:
                for event in self.watch(
                    path,
                    timeout=max(0.01, deadline - time.monotonic()),
                    fieldSelector=selector,
                    resourceVersion=revision,
                ):
                    if event["type"] == "ERROR":
                        break
                    yield None if event["type"] == "DELETED" else event["object"]
                    if time.monotonic() >= deadline:
                        return
            except httpx.TimeoutException:
                return


def condition(text: str) -> Callable[[Json], bool]:
    """The predicate of a condition given as text, for `wait`. Raises ValueError if the text is not one."""
    head, _, rest = text.partition("=")
    if head == "phase" and rest:
        return lambda obj: obj.get("status", {}).get("phase") == rest
    if head == "condition" and rest:
        kind, _, status = rest.partition("=")
        return lambda obj: any(
            c["type"] == kind and c["status"] == (status or "True")
            for c in obj.get("status", {}).get("conditions") or ()
        )
    if text in {"create", "delete"}:
        return lambda _: text == "create"
    raise ValueError(f'cannot wait for "{text}": use phase=X, condition=TYPE[=STATUS], create, delete or a function')
