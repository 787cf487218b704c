"""Request rules of the policies and webhooks of admissionregistration.k8s.io, the same types for all versions."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, Struct, field, string

__all__ = [
    "FailurePolicyType",
    "MatchPolicyType",
    "ReinvocationPolicyType",
    "Rule",
    "RuleWithOperations",
]

FailurePolicyType = string("v1.FailurePolicyType", "Fail", "Ignore")
MatchPolicyType = string("v1.MatchPolicyType", "Equivalent", "Exact")
ReinvocationPolicyType = string("v1.ReinvocationPolicyType", "IfNeeded", "Never")
OperationType = string("v1.OperationType", "*", "CONNECT", "CREATE", "DELETE", "UPDATE")
ScopeType = string("v1.ScopeType", "*", "Cluster", "Namespaced")

_RULE = (
    field("apiGroups", 1, ListOf(STRING),
        doc="API groups; only * for all of them, the empty string for the core group."),
    field("apiVersions", 2, ListOf(STRING), doc="API versions; only * for all of them."),
    field("resources", 3, ListOf(STRING),
        doc="Resources, as pods, pods/status, pods/* (its subresources), */scale, * (all resources, no subresource) or "
            "*/* (everything)."),
    field("scope", 4, ScopeType, pointer=True, fills="*",
        doc="Cluster for resources of the cluster (namespaces are such), Namespaced for those in namespaces, * for "
            "both, which is the default."),
)
Rule = Struct("io.k8s.api.admissionregistration.v1.Rule", _RULE,
    doc="Rule names resources by group, version, name and scope.")
RuleWithOperations = Struct("io.k8s.api.admissionregistration.v1.RuleWithOperations", lambda: (
    field("operations", 1, ListOf(OperationType),
        doc="Operations: CREATE, UPDATE, DELETE, CONNECT, or only * for all of them."),
    field("", 2, Rule, inline=True),
), doc="RuleWithOperations names operations on resources.")
