"""TokenRequest (the body of serviceaccounts/token), TokenReview and SelfSubjectReview of authentication.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, INT64, STRING, TIME, ListOf, MapOf, Struct, field
from apiserver.api.types.meta import TYPE_META, UID, ObjectMeta

BoundObjectReference = Struct("io.k8s.api.authentication.v1.BoundObjectReference", lambda: (
    field("kind", 1, STRING, doc="Kind of the object: Pod, Secret or Node."),
    field("apiVersion", 2, STRING, doc="Group and version of the object."),
    field("name", 3, STRING, doc="Name of the object."),
    field("uid", 4, UID, doc="UID of the object."),
), doc="BoundObjectReference points to the object that a token is bound to.")
TokenRequestSpec = Struct("io.k8s.api.authentication.v1.TokenRequestSpec", lambda: (
    field("audiences", 1, ListOf(STRING), omit=False,
        doc="Audiences of the token; any other server must reject it. The API server when empty."),
    field("expirationSeconds", 4, INT64, omit=False, pointer=True,
        doc="Lifetime of the token in seconds, at least 600; the server may choose another. 3600 (1 hour) when not "
            "set."),
    field("boundObjectRef", 3, BoundObjectReference, omit=False, pointer=True,
        doc="Object without which the token is not valid; it ends when the object is deleted."),
), doc="TokenRequestSpec describes the requested token.")
TokenRequestStatus = Struct("io.k8s.api.authentication.v1.TokenRequestStatus", lambda: (
    field("token", 1, STRING, omit=False, doc="The token, opaque to clients."),
    field("expirationTimestamp", 2, TIME, omit=False, doc="When the token expires."),
), doc="TokenRequestStatus is the token.")
TokenRequest = Struct("io.k8s.api.authentication.v1.TokenRequest", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, TokenRequestSpec, omit=False, doc="The requested token."),
    field("status", 3, TokenRequestStatus, omit=False, doc="The token."),
), gvk=("authentication.k8s.io", "v1", "TokenRequest"),
    doc="TokenRequest requests a token of a service account; it is the body of the subresource token.")

ExtraValue = ListOf(STRING, go="v1.ExtraValue")
UserInfo = Struct("io.k8s.api.authentication.v1.UserInfo", lambda: (
    field("username", 1, STRING, doc="Unique name of the user."),
    field("uid", 2, STRING, doc="Unique ID of the user, different if the name is reused."),
    field("groups", 3, ListOf(STRING), doc="Groups that the user belongs to."),
    field("extra", 4, MapOf(ExtraValue), doc="Further facts from the authenticator, by key."),
), doc="UserInfo describes a user.")
TokenReviewSpec = Struct("io.k8s.api.authentication.v1.TokenReviewSpec", lambda: (
    field("token", 1, STRING, required=True, doc="The bearer token."),
    field("audiences", 2, ListOf(STRING),
        doc="Audiences of the server that sends the review; the API server when empty."),
), doc="TokenReviewSpec is the token to review.")
TokenReviewStatus = Struct("io.k8s.api.authentication.v1.TokenReviewStatus", lambda: (
    field("authenticated", 1, BOOL, doc="True when the token is valid for a known user."),
    field("user", 2, UserInfo, omit=False, doc="User of the token."),
    field("audiences", 4, ListOf(STRING), doc="Audiences of the request for which the token is valid."),
    field("error", 3, STRING, doc="Reason that the token could not be verified."),
), doc="TokenReviewStatus reports whether a token is valid, and its user.")
TokenReview = Struct("io.k8s.api.authentication.v1.TokenReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, TokenReviewSpec, omit=False, required=True, doc="The token to review."),
    field("status", 3, TokenReviewStatus, omit=False, doc="The answer, filled in by the server."),
), gvk=("authentication.k8s.io", "v1", "TokenReview"), doc="TokenReview requests the user of a bearer token.")
SelfSubjectReviewStatus = Struct("io.k8s.api.authentication.v1.SelfSubjectReviewStatus", lambda: (
    field("userInfo", 1, UserInfo, omit=False, doc="The user that sent the request."),
), doc="SelfSubjectReviewStatus is the user that sent the request.")
SelfSubjectReview = Struct("io.k8s.api.authentication.v1.SelfSubjectReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("status", 2, SelfSubjectReviewStatus, omit=False, doc="The answer, filled in by the server."),
), gvk=("authentication.k8s.io", "v1", "SelfSubjectReview"),
    doc="SelfSubjectReview requests the user that the server has authenticated, as kubectl auth whoami does.")
