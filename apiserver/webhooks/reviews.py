"""Decode the reviews that webhooks return, as upstream's codecs do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from apiserver.api.codec.codec import DecodeError, decode, interpret, loads
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.webhooks.client import Answer
from apiserver.webhooks.failures import WebhookError

__all__ = ["Review", "read_review"]


class Review(NamedTuple):
    """A review: its apiVersion and kind, which may be empty, and its response, if there is one."""

    api_version: str
    kind: str
    response: Json | None

    @property
    def shown(self) -> str:
        """Group, version and kind, as Go formats them."""
        return f"{self.api_version or '/'}, Kind={self.kind}"


def read_review(answer: Answer, reviews: Mapping[str, Struct], request_version: str) -> Review:
    """Decode the review in a response. Raise WebhookError.

    `reviews` are the types by apiVersion; `request_version` is the apiVersion of the request.
    """
    if not answer.body:
        raise WebhookError(f"0-length response with status code: {answer.code} and content type: {answer.content_type}")
    # A body that does not begin as a JSON object is read as YAML, whatever its content type.
    like_json = answer.body.lstrip()[:1] == b"{"
    try:
        body = loads(answer.body, "application/json" if like_json else "application/yaml")
    except DecodeError as error:
        prefix = "couldn't get version/kind; json parse error: " if like_json else ""
        raise WebhookError(f"{prefix}{error}") from None
    try:
        version, kind = interpret(body)
        expected = reviews[request_version]
        found = reviews.get(version or request_version)
        if found is None or (kind and kind != expected.kind):
            shown = version or request_version
            raise WebhookError(f'no kind "{kind or expected.kind}" is registered for version "{shown}" in scheme')
        response = decode(found, body.value if body.value is not None else {}, body).obj.get("response")
    except DecodeError as error:
        raise WebhookError(str(error)) from None
    if found is not expected:
        raise WebhookError(f"converting ({found.go}) to ({expected.go}): unknown conversion")
    return Review(version, kind, response)
