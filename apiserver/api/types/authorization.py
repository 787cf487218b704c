"""Access reviews of authorization.k8s.io/v1, created as objects that are not stored."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.types.meta import TYPE_META, LabelSelectorRequirement, ObjectMeta

_GROUP = "authorization.k8s.io"
FieldSelectorOperator = string("v1.FieldSelectorOperator")
ExtraValue = ListOf(STRING, go="v1.ExtraValue")

FieldSelectorRequirement = Struct("io.k8s.apimachinery.pkg.apis.meta.v1.FieldSelectorRequirement", lambda: (
    field("key", 1, STRING, omit=False, required=True, doc="Path of the field, such as spec.nodeName."),
    field("operator", 2, FieldSelectorOperator, omit=False, required=True, doc="In, NotIn, Exists or DoesNotExist."),
    field("values", 3, ListOf(STRING),
        doc="Values to compare with: at least one for In and NotIn, none for Exists and DoesNotExist."),
), doc="FieldSelectorRequirement is one condition on a field.")
FieldSelectorAttributes = Struct("io.k8s.api.authorization.v1.FieldSelectorAttributes", lambda: (
    field("rawSelector", 1, STRING, doc="The selector as text, as in the parameter fieldSelector."),
    field("requirements", 2, ListOf(FieldSelectorRequirement),
        doc="The selector as single conditions, all of which hold."),
), doc="FieldSelectorAttributes is the field selector of a reviewed request; exactly one field is set.")
LabelSelectorAttributes = Struct("io.k8s.api.authorization.v1.LabelSelectorAttributes", lambda: (
    field("rawSelector", 1, STRING, doc="The selector as text, as in the parameter labelSelector."),
    field("requirements", 2, ListOf(LabelSelectorRequirement),
        doc="The selector as single conditions, all of which hold."),
), doc="LabelSelectorAttributes is the label selector of a reviewed request; exactly one field is set.")
ResourceAttributes = Struct("io.k8s.api.authorization.v1.ResourceAttributes", lambda: (
    field("namespace", 1, STRING,
        doc="Namespace of the request; empty for all namespaces, or for resources of the whole cluster."),
    field("verb", 2, STRING, doc="Verb, such as get, list, watch, create, update, patch or delete; * for all."),
    field("group", 3, STRING, doc="API group of the resource; empty for the core group, * for all."),
    field("version", 4, STRING, doc="API version of the resource; * for all."),
    field("resource", 5, STRING, doc="Plural name of the resource; * for all."),
    field("subresource", 6, STRING, doc="Subresource, such as status; empty for none, * for all."),
    field("name", 7, STRING, doc="Name of the object; empty for all."),
    field("fieldSelector", 8, FieldSelectorAttributes, pointer=True,
        doc="Field selector of a list, watch or deletecollection."),
    field("labelSelector", 9, LabelSelectorAttributes, pointer=True,
        doc="Label selector of a list, watch or deletecollection."),
), doc="ResourceAttributes describes a request for a resource.")
NonResourceAttributes = Struct("io.k8s.api.authorization.v1.NonResourceAttributes", lambda: (
    field("path", 1, STRING, doc="Path of the URL, such as /healthz."),
    field("verb", 2, STRING, doc="HTTP method in lower case, such as get."),
), doc="NonResourceAttributes describes a request for a path that is not of a resource.")
SubjectAccessReviewSpec = Struct("io.k8s.api.authorization.v1.SubjectAccessReviewSpec", lambda: (
    field("resourceAttributes", 1, ResourceAttributes, pointer=True,
        doc="A request for a resource; exactly one of this and nonResourceAttributes is set."),
    field("nonResourceAttributes", 2, NonResourceAttributes, pointer=True,
        doc="A request for another path; exactly one of this and resourceAttributes is set."),
    field("user", 3, STRING, doc="Name of the user; a user or a group must be given."),
    field("groups", 4, ListOf(STRING), doc="Groups of the user."),
    field("extra", 5, MapOf(ExtraValue), doc="Further facts about the user, by key."),
    field("uid", 6, STRING, doc="Identity of the user."),
), doc="SubjectAccessReviewSpec is the reviewed request and its user.")
SelfSubjectAccessReviewSpec = Struct("io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec", lambda: (
    field("resourceAttributes", 1, ResourceAttributes, pointer=True,
        doc="A request for a resource; exactly one of this and nonResourceAttributes is set."),
    field("nonResourceAttributes", 2, NonResourceAttributes, pointer=True,
        doc="A request for another path; exactly one of this and resourceAttributes is set."),
), doc="SelfSubjectAccessReviewSpec is the reviewed request.")
SubjectAccessReviewStatus = Struct("io.k8s.api.authorization.v1.SubjectAccessReviewStatus", lambda: (
    field("allowed", 1, BOOL, omit=False, required=True, doc="True when the request is allowed."),
    field("denied", 4, BOOL,
        doc="True when the request is denied regardless of other authorizers; never together with allowed."),
    field("reason", 2, STRING, doc="Reason for the decision as text, for people."),
    field("evaluationError", 3, STRING, doc="Error during the evaluation; the decision may be valid nevertheless."),
), doc="SubjectAccessReviewStatus reports whether a request is allowed.")
SubjectAccessReview = Struct("io.k8s.api.authorization.v1.SubjectAccessReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, SubjectAccessReviewSpec, omit=False, required=True, doc="The request and the user."),
    field("status", 3, SubjectAccessReviewStatus, omit=False, doc="The answer, filled in by the server."),
), gvk=(_GROUP, "v1", "SubjectAccessReview"), doc="SubjectAccessReview checks whether a user may make a request.")
LocalSubjectAccessReview = Struct("io.k8s.api.authorization.v1.LocalSubjectAccessReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, SubjectAccessReviewSpec, omit=False, required=True,
        doc="The request and the user; its namespace must be that of the review."),
    field("status", 3, SubjectAccessReviewStatus, omit=False, doc="The answer, filled in by the server."),
), gvk=(_GROUP, "v1", "LocalSubjectAccessReview"),
    doc="LocalSubjectAccessReview checks whether a user may make a request in one namespace.")
SelfSubjectAccessReview = Struct("io.k8s.api.authorization.v1.SelfSubjectAccessReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, SelfSubjectAccessReviewSpec, omit=False, required=True, doc="The reviewed request."),
    field("status", 3, SubjectAccessReviewStatus, omit=False, doc="The answer, filled in by the server."),
), gvk=(_GROUP, "v1", "SelfSubjectAccessReview"),
    doc="SelfSubjectAccessReview checks whether the sender may make a request, as kubectl auth can-i does.")
ResourceRule = Struct("io.k8s.api.authorization.v1.ResourceRule", lambda: (
    field("verbs", 1, ListOf(STRING), omit=False, required=True, doc="Verbs that are allowed; * for all."),
    field("apiGroups", 2, ListOf(STRING), doc="API groups of the resources; * for all."),
    field("resources", 3, ListOf(STRING),
        doc="Plural names of resources, with a subresource as pods/status; * for all."),
    field("resourceNames", 4, ListOf(STRING), doc="Names of objects that the rule is limited to; all when empty."),
), doc="ResourceRule lists verbs that are allowed for resources.")
NonResourceRule = Struct("io.k8s.api.authorization.v1.NonResourceRule", lambda: (
    field("verbs", 1, ListOf(STRING), omit=False, required=True,
        doc="HTTP methods that are allowed, in lower case; * for all."),
    field("nonResourceURLs", 2, ListOf(STRING), doc="Paths; a * as the last step stands for any further path."),
), doc="NonResourceRule lists verbs that are allowed for paths.")
SubjectRulesReviewStatus = Struct("io.k8s.api.authorization.v1.SubjectRulesReviewStatus", lambda: (
    field("resourceRules", 1, ListOf(ResourceRule), omit=False, required=True,
        doc="Allowed requests for resources, in no order; rules may overlap."),
    field("nonResourceRules", 2, ListOf(NonResourceRule), omit=False, required=True,
        doc="Allowed requests for other paths, in no order; rules may overlap."),
    field("incomplete", 3, BOOL, omit=False, required=True,
        doc="True when more may be allowed than is listed, because an authorizer cannot list its rules."),
    field("evaluationError", 4, STRING, doc="Error while the rules were collected."),
), doc="SubjectRulesReviewStatus lists the allowed requests that the authorizers can enumerate.")
SelfSubjectRulesReviewSpec = Struct("io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec", lambda: (
    field("namespace", 1, STRING, doc="Namespace of the requested rules; required."),
), doc="SelfSubjectRulesReviewSpec has the namespace of the requested rules.")
SelfSubjectRulesReview = Struct("io.k8s.api.authorization.v1.SelfSubjectRulesReview", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, SelfSubjectRulesReviewSpec, omit=False, required=True, doc="The namespace."),
    field("status", 3, SubjectRulesReviewStatus, omit=False, doc="The answer, filled in by the server."),
), gvk=(_GROUP, "v1", "SelfSubjectRulesReview"),
    doc="SelfSubjectRulesReview requests all rules of the sender in a namespace, as kubectl auth can-i --list does.")
