"""The TTL controller: sets `node.alpha.kubernetes.io/ttl`, the seconds for which kubelets may cache objects.

It grows with the number of nodes. Facts: upstream's pkg/controller/ttl.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, key_of

NAME = "ttl-controller"
ANNOTATION = "node.alpha.kubernetes.io/ttl"
_WORKERS: Final = 5
#: Minimum and maximum number of nodes of each step, and its TTL in seconds. Steps overlap, so that a cluster at an edge
#: does not rewrite all nodes repeatedly.
_STEPS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, None, 300))
_NUMBER = re.compile(r"[+-]?[0-9]+")


def build(client: Client, informers: Informers, options: Options) -> NodeTtl:
    """Build the component for the manager."""
    return NodeTtl(client, informers)


class NodeTtl(ControllerComponent):
    """The TTL controller. Keys are names of nodes."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.for_controller(NAME)
        self._nodes = informers.of(NODES)
        self._count, self._step = 0, 0
        self._controller = Controller(NAME, self.reconcile, workers=_WORKERS, queue="ttlcontroller")
        self._controller.require(self._nodes)
        self._nodes.on(added=self._node_added, updated=self._node_updated, deleted=lambda _: self._change_count(-1))

    def _node_added(self, node: Json) -> None:
        self._change_count(1)
        self._controller.queue.add(key_of(node))

    def _node_updated(self, _: Json, node: Json) -> None:
        self._controller.queue.add(key_of(node))

    def _change_count(self, more: int) -> None:
        """Update the number of nodes. A new step enqueues all nodes.

        Upstream waits for the next heartbeat of each node instead.
        """
        self._count += more
        least, most, _ = _STEPS[self._step]
        if most is not None and self._count > most:
            self._step += 1
        elif self._count < least:
            self._step -= 1
        else:
            return
        for name in self._nodes.objects:
            self._controller.queue.add(name)

    async def reconcile(self, key: str) -> timedelta | None:
        node = self._nodes.get(key)
        seconds = _STEPS[self._step][2]
        if node is None or _parse_annotation(node) == seconds:
            return None
        body = {"metadata": {"annotations": {ANNOTATION: str(seconds)}}}
        try:
            await self._client.patch(NODES, key, body)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
        return None


def _parse_annotation(node: Json) -> int | None:
    """Return the annotation's number; None if absent or invalid."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    return int(text) if _NUMBER.fullmatch(text) else None
