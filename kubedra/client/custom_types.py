"""`apply` of a CustomResourceDefinition: wait until the server serves its kinds, so that their objects can follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kubedra.client.paths import group_path, join_path
from kubedra.client.responses import ApiError
from kubedra.client.steps import Pause, Steps
from kubedra.client.waiting import condition
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True

#: Seconds between two reads of a definition.
_POLL = 0.01
_is_established = condition("condition=Established")
_is_refused = condition("condition=NamesAccepted=False")


class Requester(Protocol):
    """The client methods that this module uses."""

    monotonic: Callable[[], float]
    default_timeout: Callable[[float], float]

    def request(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None
    ) -> Steps[Json]: ...


def is_definition(obj: Json) -> bool:
    return bool(obj["kind"] == "CustomResourceDefinition" and obj["apiVersion"].startswith("apiextensions.k8s.io/"))


def wait_until_served(methods: Requester, path: str, definition: Json) -> Steps[Json | None]:
    """Wait until the definition is established and discovery lists its kind in every served version. Return it.

    Return None if the definition was being deleted and is gone now. A definition whose names another one has is
    returned as it is, because it will not be served. Raises TimeoutError with the conditions.
    """
    timeout = methods.default_timeout(30)
    deadline = methods.monotonic() + timeout
    while not _is_refused(definition):
        leaving = "deletionTimestamp" in definition["metadata"]
        if not leaving and _is_established(definition) and (yield from _is_discovered(methods, definition["spec"])):
            break
        if methods.monotonic() >= deadline:
            found = [f"{c['type']}={c['status']}" for c in definition.get("status", {}).get("conditions") or ()]
            raise TimeoutError(f"its kind was not served within {timeout:g} s ({', '.join(found) or 'no conditions'})")
        yield Pause(_POLL)
        try:
            definition = yield from methods.request("GET", path)
        except ApiError as error:
            if error.code != 404:
                raise
            return None
    return definition


def _is_discovered(methods: Requester, spec: Json) -> Steps[bool]:
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        try:
            listed = yield from methods.request("GET", join_path(*group_path(f"{spec['group']}/{version['name']}")))
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        if all(resource["kind"] != spec["names"]["kind"] for resource in listed["resources"]):
            return False
    return True
