"""Reviews of authorization.k8s.io/v1: who may do what, asked as an object that is not stored."""

from __future__ import annotations

from apiserver.api.schema import BOOL, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.types.meta import TYPE_META, LabelSelectorRequirement, ObjectMeta

_GROUP = "authorization.k8s.io"
FieldSelectorOperator = string("v1.FieldSelectorOperator")
ExtraValue = ListOf(STRING, go="v1.ExtraValue")

FieldSelectorRequirement = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.FieldSelectorRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True),
    field("operator", 2, FieldSelectorOperator, omit=False, required=True),
    field("values", 3, ListOf(STRING)),
))
FieldSelectorAttributes = Struct("io.k8s.api.authorization.v1.FieldSelectorAttributes", lambda: (
    field("rawSelector", 1, STRING),
    field("requirements", 2, ListOf(FieldSelectorRequirement)),
))
LabelSelectorAttributes = Struct("io.k8s.api.authorization.v1.LabelSelectorAttributes", lambda: (
    field("rawSelector", 1, STRING),
    field("requirements", 2, ListOf(LabelSelectorRequirement)),
))
ResourceAttributes = Struct("io.k8s.api.authorization.v1.ResourceAttributes", lambda: (
    field("namespace", 1, STRING),
    field("verb", 2, STRING),
    field("group", 3, STRING),
    field("version", 4, STRING),
    field("resource", 5, STRING),
    field("subresource", 6, STRING),
    field("name", 7, STRING),
    field("fieldSelector", 8, FieldSelectorAttributes, pointer=True),
    field("labelSelector", 9, LabelSelectorAttributes, pointer=True),
))
NonResourceAttributes = Struct("io.k8s.api.authorization.v1.NonResourceAttributes", lambda: (
    field("path", 1, STRING),
    field("verb", 2, STRING),
))
SubjectAccessReviewSpec = Struct("io.k8s.api.authorization.v1.SubjectAccessReviewSpec", lambda: (
    field("resourceAttributes", 1, ResourceAttributes, pointer=True),
    field("nonResourceAttributes", 2, NonResourceAttributes, pointer=True),
    field("user", 3, STRING),
    field("groups", 4, ListOf(STRING)),
    field("extra", 5, MapOf(ExtraValue)),
    field("uid", 6, STRING),
))
SelfSubjectAccessReviewSpec = Struct("io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec", lambda: (
    field("resourceAttributes", 1, ResourceAttributes, pointer=True),
    field("nonResourceAttributes", 2, NonResourceAttributes, pointer=True),
))
SubjectAccessReviewStatus = Struct("io.k8s.api.authorization.v1.SubjectAccessReviewStatus", lambda: (
    field("allowed", 1, BOOL, omit=False, required=True),
    field("denied", 4, BOOL),
    field("reason", 2, STRING),
    field("evaluationError", 3, STRING),
))
SubjectAccessReview = Struct("io.k8s.api.authorization.v1.SubjectAccessReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, SubjectAccessReviewSpec, omit=False, required=True),
    field("status", 3, SubjectAccessReviewStatus, omit=False),
), gvk=(_GROUP, "v1", "SubjectAccessReview"))
LocalSubjectAccessReview = Struct("io.k8s.api.authorization.v1.LocalSubjectAccessReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, SubjectAccessReviewSpec, omit=False, required=True),
    field("status", 3, SubjectAccessReviewStatus, omit=False),
), gvk=(_GROUP, "v1", "LocalSubjectAccessReview"))
SelfSubjectAccessReview = Struct("io.k8s.api.authorization.v1.SelfSubjectAccessReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, SelfSubjectAccessReviewSpec, omit=False, required=True),
    field("status", 3, SubjectAccessReviewStatus, omit=False),
), gvk=(_GROUP, "v1", "SelfSubjectAccessReview"))
ResourceRule = Struct("io.k8s.api.authorization.v1.ResourceRule", lambda: (
    field("verbs", 1, ListOf(STRING), omit=False, required=True),
    field("apiGroups", 2, ListOf(STRING)),
    field("resources", 3, ListOf(STRING)),
    field("resourceNames", 4, ListOf(STRING)),
))
NonResourceRule = Struct("io.k8s.api.authorization.v1.NonResourceRule", lambda: (
    field("verbs", 1, ListOf(STRING), omit=False, required=True),
    field("nonResourceURLs", 2, ListOf(STRING)),
))
SubjectRulesReviewStatus = Struct("io.k8s.api.authorization.v1.SubjectRulesReviewStatus", lambda: (
    field("resourceRules", 1, ListOf(ResourceRule), omit=False, required=True),
    field("nonResourceRules", 2, ListOf(NonResourceRule), omit=False, required=True),
    field("incomplete", 3, BOOL, omit=False, required=True),
    field("evaluationError", 4, STRING),
))
SelfSubjectRulesReviewSpec = Struct("io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec", lambda: (
    field("namespace", 1, STRING),
))
SelfSubjectRulesReview = Struct("io.k8s.api.authorization.v1.SelfSubjectRulesReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, SelfSubjectRulesReviewSpec, omit=False, required=True),
    field("status", 3, SubjectRulesReviewStatus, omit=False),
), gvk=(_GROUP, "v1", "SelfSubjectRulesReview"))
