"""AdmissionReviews: the request to a webhook, and the validation of its response.

In v1 a webhook must repeat the UID, apiVersion and kind, and set the type of its patch. v1beta1 does not require them.
Facts: apiserver, pkg/admission/plugin/webhook/request.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Final, NamedTuple

from apiserver.admission.policies.requests import View
from apiserver.api.codec.codec import encode_exactly
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json
from apiserver.api.types.reviews import ADMISSION_REVIEWS
from apiserver.webhooks.client import Answer
from apiserver.webhooks.failures import WebhookError
from apiserver.webhooks.reviews import read_review

__all__ = ["Verdict", "review_of", "verdict_of", "version_for"]


_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"
_PATCH_TYPE: Final = "JSONPatch"


class Verdict(NamedTuple):
    """The response of a webhook."""

    allowed: bool
    status: Json | None
    warnings: Sequence[str]
    annotations: Json
    patch: bytes
    patch_type: str


def version_for(versions: Sequence[str]) -> str:
    """Return the webhook's first apiVersion that the server supports, or ""."""
    return next((f"{_GROUP}/{version}" for version in versions if f"{_GROUP}/{version}" in ADMISSION_REVIEWS), "")


def review_of(view: View, version: str, uid: str) -> bytes:
    """Encode the review of a request."""
    request = {"uid": uid, "object": view.object, "oldObject": view.old, "options": None, **view.request}
    return encode_exactly({"kind": _KIND, "apiVersion": version, "request": request})


def verdict_of(answer: Answer, version: str, uid: str, *, mutating: bool) -> Verdict:
    """Parse the verdict in a response.

    Raises WebhookError if it cannot be decoded, ValueError if it does not answer this review.
    """
    review = read_review(answer, ADMISSION_REVIEWS, version)
    response = review.response
    if response is None:
        raise ValueError("webhook response was absent")
    patch, patch_type = response.get("patch") or "", response.get("patchType")
    if version.endswith("/v1"):
        if response.get("uid", "") != uid:
            raise ValueError(f"expected response.uid={go_quote(uid)}, got {go_quote(response.get('uid', ''))}")
        if (review.api_version, review.kind) != (version, _KIND):
            raise ValueError(f"expected webhook response of {version}, Kind={_KIND}, got {review.shown}")
        _check_patch(patch, patch_type, mutating=mutating)
    elif patch:
        patch_type = _PATCH_TYPE
    return Verdict(
        bool(response.get("allowed")),
        response.get("status"),
        response.get("warnings") or (),
        response.get("auditAnnotations") or {},
        b64decode(patch) if mutating else b"",
        patch_type or "",
    )


def _check_patch(patch: str, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise ValueError("validating webhook may not return response.patch")
        if patch_type is not None:
            raise ValueError("validating webhook may not return response.patchType")
        return
    if patch and patch_type is None:
        raise ValueError("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise ValueError("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise ValueError('webhook returned invalid response.patchType of ""')


def format_call_error(error: WebhookError) -> str:
    """Return the error text of a call without a review."""
    return f"failed to call webhook: {error}"
