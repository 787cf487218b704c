"""Webhook reviews, v1 and v1beta1: AdmissionReview of admission.k8s.io, ConversionReview of apiextensions.k8s.io.

Neither is served.
"""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, BYTES, RAW, STRING, ListOf, MapOf, Struct, field
from apiserver.api.types.meta import TYPE_META, Status

__all__ = ["ADMISSION_REVIEWS", "CONVERSION_REVIEWS"]


def _admission(version: str) -> Struct:
    prefix = f"io.k8s.api.admission.{version}."
    response = Struct(prefix + "AdmissionResponse", lambda: (
        field("uid", 1, STRING, omit=False, doc="The uid of the request."),
        field("allowed", 2, BOOL, omit=False, doc="Whether the request is allowed."),
        field("status", 3, Status, pointer=True, doc="Reason for a refusal."),
        field("patch", 4, BYTES, doc="Patch of the object."),
        field("patchType", 5, STRING, pointer=True, doc="JSONPatch, if there is a patch."),
        field("auditAnnotations", 6, MapOf(STRING), doc="Annotations for the audit log."),
        field("warnings", 7, ListOf(STRING), doc="Warnings for the client."),
    ), doc="AdmissionResponse is a webhook's answer to a request.")  # fmt: skip
    return Struct(prefix + "AdmissionReview", lambda: (
        TYPE_META,
        field("response", 2, response, pointer=True, doc="The webhook's answer."),
    ), doc="AdmissionReview is a request to an admission webhook, and its response.")  # fmt: skip


def _conversion(version: str) -> Struct:
    prefix = f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}."
    response = Struct(prefix + "ConversionResponse", lambda: (
        field("uid", 1, STRING, omit=False, doc="The uid of the request."),
        field("convertedObjects", 2, ListOf(RAW), omit=False, doc="The objects in the requested version."),
        field("result", 3, Status, omit=False, doc="Success, or the reason for a failure."),
    ), doc="ConversionResponse is a webhook's answer to a request.")  # fmt: skip
    return Struct(prefix + "ConversionReview", lambda: (
        TYPE_META,
        field("response", 2, response, pointer=True, doc="The webhook's answer."),
    ), doc="ConversionReview is a request to a conversion webhook, and its response.")  # fmt: skip


#: By apiVersion.
ADMISSION_REVIEWS = {f"admission.k8s.io/{version}": _admission(version) for version in ("v1", "v1beta1")}
CONVERSION_REVIEWS = {f"apiextensions.k8s.io/{version}": _conversion(version) for version in ("v1", "v1beta1")}
