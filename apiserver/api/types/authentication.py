"""TokenRequest (the body of serviceaccounts/token), TokenReview and SelfSubjectReview of authentication.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT64, STRING, TIME, ListOf, MapOf, Struct, field
from apiserver.api.types.meta import TYPE_META, UID, ObjectMeta

BoundObjectReference = Struct("io.k8s.api.authentication.v1.BoundObjectReference", lambda: (
    field("kind", 1, STRING),
    field("apiVersion", 2, STRING),
    field("name", 3, STRING),
    field("uid", 4, UID),
))
TokenRequestSpec = Struct("io.k8s.api.authentication.v1.TokenRequestSpec", lambda: (
    field("audiences", 1, ListOf(STRING), omit=False),
    field("expirationSeconds", 4, INT64, omit=False, pointer=True),
    field("boundObjectRef", 3, BoundObjectReference, omit=False, pointer=True),
))
TokenRequestStatus = Struct("io.k8s.api.authentication.v1.TokenRequestStatus", lambda: (
    field("token", 1, STRING, omit=False),
    field("expirationTimestamp", 2, TIME, omit=False),
))
TokenRequest = Struct("io.k8s.api.authentication.v1.TokenRequest", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, TokenRequestSpec, omit=False),
    field("status", 3, TokenRequestStatus, omit=False),
), gvk=("authentication.k8s.io", "v1", "TokenRequest"))

ExtraValue = ListOf(STRING, go="v1.ExtraValue")
UserInfo = Struct("io.k8s.api.authentication.v1.UserInfo", lambda: (
    field("username", 1, STRING),
    field("uid", 2, STRING),
    field("groups", 3, ListOf(STRING)),
    field("extra", 4, MapOf(ExtraValue)),
))
TokenReviewSpec = Struct("io.k8s.api.authentication.v1.TokenReviewSpec", lambda: (
    field("token", 1, STRING),
    field("audiences", 2, ListOf(STRING)),
))
TokenReviewStatus = Struct("io.k8s.api.authentication.v1.TokenReviewStatus", lambda: (
    field("authenticated", 1, BOOL),
    field("user", 2, UserInfo, omit=False),
    field("audiences", 4, ListOf(STRING)),
    field("error", 3, STRING),
))
TokenReview = Struct("io.k8s.api.authentication.v1.TokenReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, TokenReviewSpec, omit=False, required=True),
    field("status", 3, TokenReviewStatus, omit=False),
), gvk=("authentication.k8s.io", "v1", "TokenReview"))
SelfSubjectReviewStatus = Struct("io.k8s.api.authentication.v1.SelfSubjectReviewStatus", lambda: (
    field("userInfo", 1, UserInfo, omit=False),
))
SelfSubjectReview = Struct("io.k8s.api.authentication.v1.SelfSubjectReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("status", 2, SelfSubjectReviewStatus, omit=False),
), gvk=("authentication.k8s.io", "v1", "SelfSubjectReview"))
