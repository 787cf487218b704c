"""Webhooks that decide for a server, with the kubeconfigs that lead to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.webhook import Webhook

Json = dict[str, Any]


class Decider:
    """A webhook at /decide that answers reviews with a status. `calls` are the reviews that it got."""

    def __init__(self, webhook: Webhook, directory: Path, kind: str, version: str) -> None:
        self._webhook, self._kind, self._version = webhook, kind, version
        self.kubeconfig = directory / f"{kind.lower()}.kubeconfig"
        cluster = {"server": f"https://{webhook.address}/decide", "certificate-authority-data": webhook.authority}
        self.kubeconfig.write_text(json.dumps({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }))  # fmt: skip

    def says(self, *statuses: Json) -> None:
        """Answer so from now on, the last answer again and again; forget what was asked."""
        reviews = [{"kind": self._kind, "apiVersion": self._version, "status": status} for status in statuses]
        self._webhook.script({"/decide": [{"raw": json.dumps(review)} for review in reviews]})

    def fails(self) -> None:
        self._webhook.script({"/decide": [{"http": 400, "raw": "no", "content_type": "text/plain"}]})

    @property
    def calls(self) -> list[Json]:
        return [call["body"] for call in self._webhook.calls()]


@contextmanager
def decider(directory: Path, kind: str, version: str) -> Iterator[Decider]:
    webhook = Webhook()
    try:
        yield Decider(webhook, directory, kind, version)
    finally:
        webhook.close()
