"""Webhooks that decide for a server, and their kubeconfigs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apiserver.api.objects import Json
from tests.conformance.webhook import Webhook
from tests.support.tokens import token_flag


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

    def says(self, *statuses: Json, failures: int = 0) -> None:
        """Answer so after some failures and repeat the last answer; clear the calls."""
        reviews = [{"kind": self._kind, "apiVersion": self._version, "status": status} for status in statuses]
        failed = [{"http": 500, "raw": "no", "content_type": "text/plain"}] * failures
        self._webhook.script({"/decide": [*failed, *({"raw": json.dumps(review)} for review in reviews)]})

    def fails(self) -> None:
        self._webhook.script({"/decide": [{"http": 400, "raw": "no", "content_type": "text/plain"}]})

    @property
    def calls(self) -> list[Json]:
        return [call["body"] for call in self._webhook.calls()]


def configuration(webhook: Decider, *after: str, **said: Any) -> str:
    """Return an AuthorizationConfiguration with a webhook and the authorizers `after` it."""
    given = {
        "timeout": "10s", "failurePolicy": "NoOpinion", "subjectAccessReviewVersion": "v1",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(webhook.kubeconfig)}, **said,
    }  # fmt: skip
    others = [{"type": each, "name": each.lower()} for each in after]
    return json.dumps({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": [{"type": "Webhook", "name": "w", "webhook": given}, *others],
    })  # fmt: skip


def with_tokens(directory: Path, *more: str) -> tuple[str, ...]:
    """Return flags of a server that knows the tokens `root` (system:masters) and `ann`."""
    return (token_flag(directory, 'root,root,1,"system:masters"\nann,ann,2,"devs,qa"\n'), *more)


def authorized_by(directory: Path, text: str) -> tuple[str, ...]:
    """Return flags of a server with these tokens and an AuthorizationConfiguration."""
    (directory / "authorizers").write_text(text)
    return with_tokens(directory, f"--authorization-config={directory / 'authorizers'}")


@contextmanager
def decider(directory: Path, kind: str, version: str) -> Iterator[Decider]:
    webhook = Webhook()
    try:
        yield Decider(webhook, directory, kind, version)
    finally:
        webhook.close()
