"""An API server of claims, slices and nodes in a dictionary, for the DRA manager's vectors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

from apiserver.api.objects import Json
from controllers.runtime.transport import NoTransport


class Api(NoTransport):
    """The transport of a `Client`. `deletions` are the field selectors of collections that were deleted."""

    def __init__(self, case: Json) -> None:
        self._claims = {(c["metadata"]["namespace"], c["metadata"]["name"]): c for c in case["claims"] or ()}
        self.slices: dict[str, Json] = {item["metadata"]["name"]: item for item in case["slices"] or ()}
        late = [step["name"] for step in case["steps"] if step["step"] == "setNode"]
        self.node: str = case["node"] or late[0]
        self.nodes: set[str] = set() if late else {self.node}
        self.deletions: list[str] = []
        self._failures: list[Json] = []

    def set_claim(self, claim: Json) -> None:
        self._claims[claim["metadata"]["namespace"], claim["metadata"]["name"]] = claim

    def delete_claim(self, namespace: str, name: str) -> None:
        del self._claims[namespace, name]

    def uid(self, namespace: str, name: str) -> str:
        """Return the uid of a claim, also of a deleted one."""
        claim = self._claims.get((namespace, name))
        uid: str = claim["metadata"]["uid"] if claim else f"{name}-uid"
        return uid

    def fail(self, step: Json) -> None:
        self._failures += [step] * step["times"]

    async def request(self, method: str, path: str, query: str, headers: object, body: bytes) -> Any:
        parts = path.strip("/").split("/")
        resource = next(part for part in ("resourceclaims", "resourceslices", "nodes") if part in parts)
        verb = "deletecollection" if method == "DELETE" else "get"
        if verb == "deletecollection":
            selector = parse_qs(query)["fieldSelector"][0]
            self.deletions.append(selector)
        for failure in self._failures:
            if (failure["verb"], failure["resource"]) == (verb, resource):
                self._failures.remove(failure)
                return self._status(failure["httpCode"], failure["reason"], failure["message"])
        if verb == "deletecollection":
            wanted = dict(part.split("=") for part in selector.split(","))
            for name, item in list(self.slices.items()):
                if all(item["spec"].get(key.removeprefix("spec.")) == value for key, value in wanted.items()):
                    del self.slices[name]
            return 200, [], b"{}"
        if resource == "nodes":
            found: Any = {"metadata": {"name": parts[-1]}} if parts[-1] in self.nodes else None
        else:
            found = self._claims.get((parts[parts.index("namespaces") + 1], parts[-1]))
        if found is None:
            kind = f"{resource}.resource.k8s.io" if resource != "nodes" else resource
            return self._status(404, "NotFound", f'{kind} "{parts[-1]}" not found')
        return 200, [], json.dumps(found).encode()

    def _status(self, code: int, reason: str, message: str) -> Any:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
        return code, [("content-type", "application/json")], json.dumps({**status, "message": message}).encode()
