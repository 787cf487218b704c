"""ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings, written once for all versions.

`Policies("v1")` has the types of one version. All have the same shape. Only v1alpha1 has a default for the action on a
missing parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.api.schema.language import INT64, STRING, Field, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.schema.markers import Forbidden, Required, Step, equals, is_set, is_unset
from apiserver.api.types.admissionregistration.rules import RuleWithOperations
from apiserver.api.types.meta import TYPE_META, Condition, LabelSelector, ObjectMeta, list_of

__all__ = ["V1", "V1ALPHA1", "V1BETA1", "Policies"]

_GROUP: Final = "admissionregistration.k8s.io"
_EXCLUSIVE: Final = "name and selector are mutually exclusive"


class Policies:
    """The types of one version."""

    def __init__(self, version: str, *, parameter_not_found: str | None = None) -> None:
        self.version, self._parameter_not_found = version, parameter_not_found
        # The documented values differ by version.
        listed = version != "v1beta1"
        self.FailurePolicyType = string(f"{version}.FailurePolicyType", *(("Fail", "Ignore") if listed else ()))
        self.MatchPolicyType = string(f"{version}.MatchPolicyType", *(("Equivalent", "Exact") if listed else ()))
        actions = ("Allow", "Deny") if version == "v1alpha1" else ()
        self.ParameterNotFoundActionType = string(f"{version}.ParameterNotFoundActionType", *actions)
        self._expressions()
        self._matching()
        self._validating()
        self._mutating()

    def _struct(
        self,
        name: str,
        build: Callable[[], tuple[Field, ...]],
        doc: str,
        *,
        atomic: bool = False,
        kind: bool = False,
        rules: tuple[Step, ...] = (),
    ) -> Struct:
        gvk = (_GROUP, self.version, name) if kind else None
        full = f"io.k8s.api.admissionregistration.{self.version}.{name}"
        return Struct(full, build, gvk=gvk, atomic=atomic, doc=doc, rules=rules)

    def _expressions(self) -> None:
        self.ParamKind = self._struct("ParamKind", lambda: (
            field("apiVersion", 1, STRING, doc="Group and version of the parameters, as group/version."),
            field("kind", 2, STRING, doc="Kind of the parameters."),
        ), "ParamKind names the kind of the objects that parametrize a policy.", atomic=True)
        self.MatchCondition = self._struct("MatchCondition", lambda: (
            field("name", 1, STRING, omit=False, required=True, doc="Name of the condition, a qualified name."),
            field("expression", 2, STRING, omit=False, required=True,
                doc="CEL expression that must be true for a request to be of concern; it may use object, oldObject, "
                    "request and authorizer."),
        ), "MatchCondition decides by an expression whether a request is of concern.")
        self.Variable = self._struct("Variable", lambda: (
            field("name", 1, STRING, omit=False, required=True,
                doc="Name, an identifier of CEL; expressions further down use it as variables.name."),
            field("expression", 2, STRING, omit=False, required=True,
                doc="CEL expression of the value, evaluated when it is used for the first time."),
        ), "Variable names the value of an expression.", atomic=self.version != "v1alpha1")
        self.AuditAnnotation = self._struct("AuditAnnotation", lambda: (
            field("key", 1, STRING, omit=False, required=True,
                doc="Key of the annotation; the record of a request has it behind the name of the policy."),
            field("valueExpression", 2, STRING, omit=False, required=True,
                doc="CEL expression of the value, a text; null or an empty text for no annotation."),
        ), "AuditAnnotation adds an annotation to the record of a request.")
        self.Validation = self._struct("Validation", lambda: (
            field("expression", 1, STRING, omit=False, required=True,
                doc="CEL expression that must be true; it may use object, oldObject, request, params, namespaceObject, "
                    "variables and authorizer."),
            field("message", 2, STRING, doc="Error message for the client; one line."),
            field("reason", 3, string("v1.StatusReason"), pointer=True,
                doc="Reason of the refusal, which decides its status code: Unauthorized, Forbidden, Invalid (the "
                    "default) or RequestEntityTooLarge."),
            field("messageExpression", 4, STRING,
                doc="CEL expression of the message; message is used where it fails or gives no text of one line."),
        ), "Validation is one rule about objects.")

    def _matching(self) -> None:
        self.NamedRuleWithOperations = self._struct("NamedRuleWithOperations", lambda: (
            field("resourceNames", 1, ListOf(STRING), doc="Names of objects; all of them when empty."),
            field("", 2, RuleWithOperations, inline=True),
        ), "NamedRuleWithOperations names operations on resources, or on some of their objects.", atomic=True)
        rules = ListOf(self.NamedRuleWithOperations)
        self.MatchResources = self._struct("MatchResources", lambda: (
            field("namespaceSelector", 1, LabelSelector, pointer=True, fills={}, limits=Limits(required=True),
                doc="Labels of the namespace of the object, or of the namespace that is the object; other objects "
                    "without a namespace always match."),
            field("objectSelector", 2, LabelSelector, pointer=True, fills={}, limits=Limits(required=True),
                doc="Labels that the object must have before or after the request."),
            field("resourceRules", 3, rules, doc="Operations on resources that match; one of the rules is enough."),
            field("excludeResourceRules", 4, rules, doc="Operations on resources that do not, whatever else matches."),
            field("matchPolicy", 7, self.MatchPolicyType, pointer=True, fills="Equivalent",
                doc="Exact to match only requests in the groups and versions that the rules name, Equivalent (the "
                    "default) to match those in other versions of the same resource, too, which are converted."),
        ), "MatchResources says which requests match.", atomic=True, rules=(
            Required("matchPolicy"), "matchPolicy", "namespaceSelector", "objectSelector", "resourceRules",
            "excludeResourceRules",
        ))
        self.ParamRef = self._struct("ParamRef", lambda: (
            field("name", 1, STRING, limits=Limits(format="path-segment"),
                doc="Name of the parameter; not together with selector."),
            field("namespace", 2, STRING,
                doc="Namespace of parameters that have one; that of the object under evaluation when not set."),
            field("selector", 3, LabelSelector, pointer=True,
                doc="Labels of the parameters; the policy is evaluated for each of them."),
            field("parameterNotFoundAction", 4, self.ParameterNotFoundActionType, pointer=True,
                fills=self._parameter_not_found, limits=Limits(values=("Deny", "Allow"), empty=False),
                doc="Action if no parameter is found: Allow, or Deny to apply the failurePolicy."),
        ), "ParamRef says where the parameters of a binding are.", atomic=True, rules=(
            "name",
            Forbidden("name", _EXCLUSIVE, when=is_set("selector")),
            "selector",
            Forbidden("selector", _EXCLUSIVE, when=is_set("name")),
            Required("", "one of name or selector must be specified", when=is_unset("name", "selector")),
            Required("parameterNotFoundAction", when=equals("parameterNotFoundAction", None, ""), anyway=True),
            "parameterNotFoundAction",
        ))

    def _kind(self, name: str, spec: Struct, doc: str, *more: Field, required: bool = False) -> Struct:
        return self._struct(name, lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata; the kind has no namespace."),
            field("spec", 2, spec, omit=False, required=required, doc="The request."),
            *more,
        ), doc, kind=True)

    def _common(self, *, failure: int) -> tuple[Field, Field, Field, Field]:
        """Return paramKind, matchConstraints, failurePolicy and matchConditions, common to both kinds of policies."""
        return (
            field("paramKind", 1, self.ParamKind, pointer=True, doc="Kind of parameters; none when not set."),
            field("matchConstraints", 2, self.MatchResources, pointer=True, doc="Requests that the policy applies to."),
            field("failurePolicy", failure, self.FailurePolicyType, pointer=True, fills="Fail",
                doc="Action if an expression cannot be evaluated: Fail (the default) refuses the request, Ignore "
                    "allows it."),
            field("matchConditions", 6, ListOf(self.MatchCondition, "map", ("name",), merge_key="name"),
                doc="Further conditions; if one is false the policy does not apply to the request."),
        )

    def _validating(self) -> None:
        param, match, failure, conditions = self._common(failure=4)
        self.ValidatingAdmissionPolicySpec = self._struct("ValidatingAdmissionPolicySpec", lambda: (
            param, match,
            field("validations", 3, ListOf(self.Validation), doc="Rules; all are evaluated."),
            failure,
            field("auditAnnotations", 5, ListOf(self.AuditAnnotation),
                doc="Annotations for the record of a request; at least one rule or annotation is needed."),
            conditions,
            field("variables", 7, ListOf(self.Variable, "map", ("name",), merge_key="name"),
                doc="Values that rules share; each may use those before it."),
        ), "ValidatingAdmissionPolicySpec says which requests are checked, and how.")
        self.ExpressionWarning = self._struct("ExpressionWarning", lambda: (
            field("fieldRef", 2, STRING, omit=False, required=True, doc="Path of the field with the expression."),
            field("warning", 3, STRING, omit=False, required=True, doc="Type errors of the expression."),
        ), "ExpressionWarning is what type checking found in an expression.")
        self.TypeChecking = self._struct("TypeChecking", lambda: (
            field("expressionWarnings", 1, ListOf(self.ExpressionWarning), doc="Findings by expression."),
        ), "TypeChecking is the result of checking a policy's expressions against the types that they are about.")
        self.ValidatingAdmissionPolicyStatus = self._struct("ValidatingAdmissionPolicyStatus", lambda: (
            field("observedGeneration", 1, INT64, doc="The metadata.generation that was checked last."),
            field("typeChecking", 2, self.TypeChecking, pointer=True,
                doc="Result of the type check; set when it has been done."),
            field("conditions", 3, ListOf(Condition, "map", ("type",)), doc="Latest conditions."),
        ), "ValidatingAdmissionPolicyStatus says what is known of a policy.")
        self.ValidatingAdmissionPolicy = self._kind(
            "ValidatingAdmissionPolicy", self.ValidatingAdmissionPolicySpec,
            "ValidatingAdmissionPolicy accepts or refuses objects by expressions, where a binding says so.",
            field("status", 3, self.ValidatingAdmissionPolicyStatus, omit=False, doc="Result of type checking."),
        )
        self.ValidatingAdmissionPolicyBindingSpec = self._struct("ValidatingAdmissionPolicyBindingSpec", lambda: (
            *self._binding(required=True),
            field("validationActions", 4,
                ListOf(string(f"{self.version}.ValidationAction", "Audit", "Deny", "Warn"), "set"), required=True,
                doc="Actions of a failed rule: Deny refuses the request, Warn warns the client, Audit adds an "
                    "annotation to the audit event. Deny and Warn exclude each other."),
        ), "ValidatingAdmissionPolicyBindingSpec says where a policy applies, with which parameters and effect.")
        self.ValidatingAdmissionPolicyBinding = self._kind(
            "ValidatingAdmissionPolicyBinding", self.ValidatingAdmissionPolicyBindingSpec,
            "ValidatingAdmissionPolicyBinding puts a ValidatingAdmissionPolicy into effect.", required=True,
        )
        self.ValidatingAdmissionPolicyList = list_of(self.ValidatingAdmissionPolicy)
        self.ValidatingAdmissionPolicyBindingList = list_of(self.ValidatingAdmissionPolicyBinding)

    def _binding(self, *, required: bool = False) -> tuple[Field, ...]:
        return (
            field("policyName", 1, STRING, required=required, limits=Limits(required=True, format="subdomain"),
                doc="Name of the policy; one that does not exist (yet) has no effect."),
            field("paramRef", 2, self.ParamRef, pointer=True, doc="Reference to the parameters."),
            field("matchResources", 3, self.MatchResources, pointer=True,
                doc="Requests that the binding applies to, among those of the policy; all of them when not set."),
        )

    def _computed(self, name: str, what: str) -> Struct:
        return self._struct(name, lambda: (
            field("expression", 1, STRING, doc=f"CEL expression that gives {what}."),
        ), f"{name} says how a mutation is computed.")

    def _mutating(self) -> None:
        param, match, failure, conditions = self._common(failure=5)
        self.ApplyConfiguration = self._computed("ApplyConfiguration", "an Object with the fields to apply")
        self.JSONPatch = self._computed("JSONPatch", "a list of JSONPatch operations")
        self.Mutation = self._struct("Mutation", lambda: (
            field("patchType", 2, string(f"{self.version}.PatchType", "ApplyConfiguration", "JSONPatch"),
                omit=False, required=True, doc="Type of the patch: ApplyConfiguration or JSONPatch."),
            field("applyConfiguration", 3, self.ApplyConfiguration, pointer=True,
                doc="Fields that are merged into the object, as server-side apply does."),
            field("jsonPatch", 4, self.JSONPatch, pointer=True, doc="Operations of a JSON patch."),
        ), "Mutation is one change of an object.")
        self.MutatingAdmissionPolicySpec = self._struct("MutatingAdmissionPolicySpec", lambda: (
            param, match,
            field("variables", 3, ListOf(self.Variable),
                doc="Values that mutations share; each may use those before it."),
            field("mutations", 4, ListOf(self.Mutation), doc="Changes, one after the other."),
            failure, conditions,
            field("reinvocationPolicy", 7, string("v1.ReinvocationPolicyType", "IfNeeded", "Never"),
                doc="IfNeeded to apply the policy again if later plugins changed the object, or Never."),
        ), "MutatingAdmissionPolicySpec says which requests are changed, and how.")
        self.MutatingAdmissionPolicy = self._kind(
            "MutatingAdmissionPolicy", self.MutatingAdmissionPolicySpec,
            "MutatingAdmissionPolicy changes objects by expressions, where a binding says so.",
        )
        self.MutatingAdmissionPolicyBindingSpec = self._struct(
            "MutatingAdmissionPolicyBindingSpec", self._binding,
            "MutatingAdmissionPolicyBindingSpec says where a policy applies, and with which parameters.",
        )
        self.MutatingAdmissionPolicyBinding = self._kind(
            "MutatingAdmissionPolicyBinding", self.MutatingAdmissionPolicyBindingSpec,
            "MutatingAdmissionPolicyBinding puts a MutatingAdmissionPolicy into effect.",
        )
        self.MutatingAdmissionPolicyList = list_of(self.MutatingAdmissionPolicy)
        self.MutatingAdmissionPolicyBindingList = list_of(self.MutatingAdmissionPolicyBinding)


V1: Final = Policies("v1")
V1BETA1: Final = Policies("v1beta1")
V1ALPHA1: Final = Policies("v1alpha1", parameter_not_found="Deny")
