"""Extenders: HTTP services that filter and score nodes after the plugins, and may bind pods.

A request is a POST of JSON to `urlPrefix/VERB`. Facts: Kubernetes 1.36, pkg/scheduler/extender.go, the types of
k8s.io/kube-scheduler/extender/v1 (with capitalized fields).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from apiserver.api.objects import Json
from controllers.runtime.http import HttpTransport
from controllers.runtime.transport import TransportError
from controllers.scheduler.config.extenders import ExtenderSettings
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

log = logging.getLogger(__name__)
#: The name under which pods rejected by an extender wait.
NAME: Final = "Extender"
#: The value of one point of an extender, before its weight: extenders score 0 to 10, plugins 0 to 100.
_POINT: Final = 10


class ExtenderError(Exception):
    """A failed request to an extender or an invalid answer."""


@dataclass(slots=True)
class Extender:
    """One extender."""

    settings: ExtenderSettings
    _transport: HttpTransport = field(init=False)

    def __post_init__(self) -> None:
        self._transport = HttpTransport(self.settings.server)

    def is_interested(self, pod: PodInfo) -> bool:
        """Return whether the extender is relevant for the pod."""
        managed = self.settings.managed
        containers = (*pod.spec["containers"], *(pod.spec.get("initContainers") or ()))
        return not managed or any(
            name in managed
            for container in containers
            for part in ("requests", "limits")
            for name in (container.get("resources") or {}).get(part) or ()
        )

    async def filter(self, pod: PodInfo, nodes: list[NodeInfo], rejections: dict[str, Rejection]) -> list[NodeInfo]:
        """Return the feasible nodes; add the reasons for the others to `rejections`. Raise ExtenderError."""
        if not self.settings.filter:
            return nodes
        answer = await self._post(self.settings.filter, self._args(pod, nodes))
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))
        for part, code in (("failednodes", Code.UNSCHEDULABLE), ("failedandunresolvablenodes", Code.UNRESOLVABLE)):
            for name, why in (answer.get(part) or {}).items():
                rejections[name] = Rejection(NAME, (str(why),), code)
        names = answer.get("nodenames") if self.settings.by_name else None
        if names is None:
            names = [item["metadata"]["name"] for item in (answer.get("nodes") or {}).get("items") or ()]
        known = {node.name: node for node in nodes}
        for name in names:
            if name not in known:
                where = self.settings.server.server
                raise ExtenderError(
                    f'extender "{where}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return [known[name] for name in names]

    async def scores(self, pod: PodInfo, nodes: list[NodeInfo]) -> dict[str, int]:
        """Return weighted scores by node; empty after a failure."""
        if not self.settings.prioritize:
            return {}
        try:
            answer = await self._post(self.settings.prioritize, self._args(pod, nodes))
            entries = [_lower_fields(entry) for entry in answer["list"]]
            return {
                str(entry["host"]): int(entry.get("score") or 0) * self.settings.weight * _POINT for entry in entries
            }
        except (ExtenderError, KeyError, TypeError, ValueError) as error:
            log.info("an extender returned no scores for pod %s: %s", pod.key, error)
            return {}

    async def bind(self, pod: PodInfo, node: str) -> None:
        """Let the extender bind the pod. Raise ExtenderError."""
        body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        answer = await self._post(self.settings.bind, body)
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))

    async def close(self) -> None:
        """Close its connections."""
        await self._transport.close()

    def _args(self, pod: PodInfo, nodes: list[NodeInfo]) -> Json:
        names = [node.name for node in nodes] if self.settings.by_name else None
        node_list = None if self.settings.by_name else {"metadata": {}, "items": [node.node for node in nodes]}
        return {"Pod": pod.pod, "Nodes": node_list, "NodeNames": names}

    async def _post(self, verb: str, body: Json) -> Json:
        """Return the answer with lower-case fields; a list is under "list". Raise ExtenderError."""
        url = f"{self.settings.server.server}/{verb}"
        headers = {"content-type": "application/json"}
        try:
            async with asyncio.timeout(self.settings.timeout.total_seconds()):
                status, _, content = await self._transport.request("POST", f"/{verb}", "", headers, orjson.dumps(body))
        except TimeoutError as error:
            raise ExtenderError(f'Post "{url}": context deadline exceeded') from error
        except TransportError as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        try:
            answer = orjson.loads(content)
        except ValueError as error:
            raise ExtenderError(f'Post "{url}": the answer is not JSON: {error}') from error
        return {"list": answer} if isinstance(answer, list) else _lower_fields(answer)


def _lower_fields(answer: Any) -> Json:
    """Return the answer with lower-case fields: their case does not matter."""
    if not isinstance(answer, dict):
        raise ExtenderError("an extender's answer is not an object")
    return {str(name).lower(): value for name, value in answer.items()}


class Extenders:
    """All extenders of a scheduler, in order."""

    def __init__(self, settings: Sequence[ExtenderSettings] = ()) -> None:
        self._all = [Extender(each) for each in settings]

    def __bool__(self) -> bool:
        return bool(self._all)

    async def filter(self, pod: PodInfo, nodes: list[NodeInfo], rejections: dict[str, Rejection]) -> list[NodeInfo]:
        """Return the nodes that all extenders admit. Raise ExtenderError."""
        for extender in self._all:
            if not nodes:
                break
            if extender.is_interested(pod):
                try:
                    nodes = await extender.filter(pod, nodes, rejections)
                except ExtenderError as error:
                    if not extender.settings.ignorable:
                        raise
                    log.info("skipping an extender for pod %s: %s", pod.key, error)
        return nodes

    async def scores(self, pod: PodInfo, nodes: list[NodeInfo]) -> list[int]:
        """Return the sum of the extenders' scores for each node."""
        requests = [extender.scores(pod, nodes) for extender in self._all if extender.is_interested(pod)]
        answers = await asyncio.gather(*requests)
        return [sum(scores.get(node.name, 0) for scores in answers) for node in nodes]

    async def close(self) -> None:
        """Close all connections."""
        for extender in self._all:
            await extender.close()

    async def bind(self, pod: PodInfo, node: str) -> bool:
        """Let an extender bind the pod; return whether one did. Raise ExtenderError."""
        for extender in self._all:
            if not extender.settings.bind or not extender.is_interested(pod):
                continue
            try:
                await extender.bind(pod, node)
            except ExtenderError as error:
                if not extender.settings.ignorable:
                    raise
                log.info("skipping an extender for pod %s: %s", pod.key, error)
                continue
            return True
        return False
