"""Servers that decide for this one, named by a kubeconfig: they review tokens and authorize requests.

    reviewer = Reviewer(webhooks, read_kubeconfig(path), "authorization.k8s.io", SubjectAccessReview)
    status = await reviewer.review("v1", {"spec": …}, seconds=30)

Facts: apiserver, pkg/util/webhook (webhook.go: pauses between attempts, and which errors are retried).
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final
from urllib.parse import urlsplit

import orjson

from apiserver.api.codec.codec import DecodeError, decode, interpret, loads
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.runtime.clock import Timer, outside, timers
from apiserver.webhooks.client import Target, Webhooks
from apiserver.webhooks.failures import WebhookError
from apiserver.webhooks.services import HTTPS
from kubedra.kubeconfig.reader import Cluster

__all__ = ["Reviewer"]


_ATTEMPTS: Final = 5
_FIRST_PAUSE, _FACTOR, _JITTER = 0.5, 1.5, 0.2
#: Status codes that are retried: overload, and internal errors of the other server.
_AGAIN: Final = frozenset({429, 500, 504})


class Reviewer:
    """Posts reviews of one kind. The statuses of their versions have the same fields."""

    def __init__(self, webhooks: Webhooks, where: Cluster, group: str, review: Struct) -> None:
        parts = urlsplit(where.server if "://" in where.server else f"http://{where.server}")
        port = parts.port or (HTTPS if parts.scheme == "https" else 80)
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        url = f"{parts.scheme}://{parts.netloc}{path}"
        self._target = Target(url, parts.hostname or "", port, where.authority, None, where.credentials)
        self._webhooks, self._group, self._review = webhooks, group, review
        self._random = Random()  # noqa: S311 - spreads attempts; not a secret

    async def review(self, version: str, body: Json, seconds: float) -> Json:
        """Post a review and return its status; retry overload and failures. Raise WebhookError."""
        sent = orjson.dumps({"kind": self._review.kind, "apiVersion": f"{self._group}/{version}", **body})
        pause = _FIRST_PAUSE
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = await self._webhooks.post(self._target, sent, seconds=seconds)
                return self._status(answer.body, f"{self._group}/{version}")
            except WebhookError as error:
                if attempt == _ATTEMPTS or not (error.code in _AGAIN or "connection reset" in str(error)):
                    raise
            with outside(), timers(Timer.MACHINE):
                await asyncio.sleep(pause * (1 + _JITTER * self._random.random()))
            pause *= _FACTOR
        raise AssertionError("the last attempt raises")

    def _status(self, body: bytes, version: str) -> Json:
        try:
            read = loads(body)
            found, kind = interpret(read)
            if (found, kind) != (version, self._review.kind):
                raise WebhookError(f'no kind "{kind}" is registered for version "{found}" in scheme')
            status: Json = decode(self._review, read.value, read).obj.get("status") or {}
        except DecodeError as error:
            raise WebhookError(str(error)) from None
        return status
