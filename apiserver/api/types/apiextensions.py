"""CustomResourceDefinitions of apiextensions.k8s.io/v1: user-defined kinds with the schema of their objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.schema.language import (
    BOOL,
    BYTES,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    Field,
    ListOf,
    MapOf,
    OwnForm,
    Scalar,
    Struct,
    Type,
    field,
    string,
)
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

_PREFIX = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
ConditionStatus = string("v1.ConditionStatus")
ConditionType = string("v1.CustomResourceDefinitionConditionType")
ConversionStrategyType = string("v1.ConversionStrategyType")
FieldValueErrorReason = string(
    "v1.FieldValueErrorReason", "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"
)
JSONSchemaURL = string("v1.JSONSchemaURL")
ResourceScope = string("v1.ResourceScope")
#: Any JSON.
JSON = Scalar("any", "v1.JSON", _PREFIX + "JSON")


def _schema_or(name: str, fields: Callable[[], tuple[Field, ...]], alternative: str, other: Type) -> Scalar:
    """Build the type of a schema or its alternative: a list of schemas, a list of texts, or a boolean."""
    truth = other is BOOL

    def opened(value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return {"schema": value, **({"allows": True} if truth else {})}
        return {alternative: value}

    def closed(message: dict[str, Any]) -> Any:
        schema = message.get("schema")
        return message.get(alternative) if schema is None else schema

    forms = {"object": JSONSchemaProps, "bool" if truth else "array": other}
    error = "boolean or JSON schema expected" if truth else ""
    form = OwnForm(forms, error, Struct(_PREFIX + name, fields), opened, closed)
    return Scalar("own", f"v1.{name}", _PREFIX + name, own=form)


ValidationRule = Struct(_PREFIX + "ValidationRule", lambda: (
    field("rule", 1, STRING, omit=False, required=True,
        doc="CEL expression that must be true; self is the value, oldSelf the stored value."),
    field("message", 2, STRING, doc="Error message when the rule fails; required for a rule of several lines."),
    field("messageExpression", 3, STRING, doc="CEL expression that returns the error message, instead of message."),
    field("reason", 4, FieldValueErrorReason, pointer=True,
        doc="Reason of the error: FieldValueInvalid (the default), FieldValueForbidden, FieldValueRequired or "
            "FieldValueDuplicate."),
    field("fieldPath", 5, STRING, doc="Path of the field in the error, relative to this schema."),
    field("optionalOldSelf", 6, BOOL, pointer=True,
        doc="True to evaluate a rule with oldSelf on creation, too; oldSelf is an optional value then."),
), doc="ValidationRule is a condition in CEL that values must meet.")
ExternalDocumentation = Struct(_PREFIX + "ExternalDocumentation", lambda: (
    field("description", 1, STRING, doc="Description of the documentation."),
    field("url", 2, STRING, doc="Address of the documentation."),
), doc="ExternalDocumentation points to documentation elsewhere.")
JSONSchemaProps: Struct = Struct(_PREFIX + "JSONSchemaProps", lambda: (
    field("id", 1, STRING, doc="Not supported: schemas have no names."),
    field("$schema", 2, JSONSchemaURL, doc="Not supported: all schemas have the same language."),
    field("$ref", 3, STRING, pointer=True, doc="Not supported: schemas cannot be referenced."),
    field("description", 4, STRING, doc="Description of the value for kubectl explain."),
    field("type", 5, STRING, doc="Type of the value: object, array, string, integer, number or boolean."),
    field("format", 6, STRING,
        doc="Format of strings (date-time, duration, cidr, uuid and others) or numbers; unknown ones are ignored."),
    field("title", 7, STRING, doc="Title of the value."),
    field("default", 8, JSON, pointer=True, doc="Default value."),
    field("maximum", 9, FLOAT64, pointer=True, doc="Largest number."),
    field("exclusiveMaximum", 10, BOOL, doc="True when the number must be below maximum."),
    field("minimum", 11, FLOAT64, pointer=True, doc="Smallest number."),
    field("exclusiveMinimum", 12, BOOL, doc="True when the number must be above minimum."),
    field("maxLength", 13, INT64, pointer=True, doc="Most characters of a string."),
    field("minLength", 14, INT64, pointer=True, doc="Fewest characters of a string."),
    field("pattern", 15, STRING, doc="Regular expression that a string must match somewhere."),
    field("maxItems", 16, INT64, pointer=True, doc="Most items of an array."),
    field("minItems", 17, INT64, pointer=True, doc="Fewest items of an array."),
    field("uniqueItems", 18, BOOL, doc="Must not be true; x-kubernetes-list-type: set does the same."),
    field("multipleOf", 19, FLOAT64, pointer=True, doc="Number of which the value is a multiple."),
    field("enum", 20, ListOf(JSON), doc="The only values that are allowed."),
    field("maxProperties", 21, INT64, pointer=True, doc="Most properties of an object."),
    field("minProperties", 22, INT64, pointer=True, doc="Fewest properties of an object."),
    field("required", 23, ListOf(STRING), doc="Required properties."),
    field("items", 24, SchemaOrArray, pointer=True, doc="Schema of the items of an array."),
    field("allOf", 25, ListOf(JSONSchemaProps), doc="Schemas that all must hold."),
    field("oneOf", 26, ListOf(JSONSchemaProps), doc="Schemas of which exactly one must hold."),
    field("anyOf", 27, ListOf(JSONSchemaProps), doc="Schemas of which one must hold."),
    field("not", 28, JSONSchemaProps, pointer=True, doc="Schema that must not hold."),
    field("properties", 29, MapOf(JSONSchemaProps), doc="Schemas of an object's properties by name."),
    field("additionalProperties", 30, SchemaOrBool, pointer=True,
        doc="Schema of the values of a map, or true for a map of any values."),
    field("patternProperties", 31, MapOf(JSONSchemaProps), doc="Not supported: properties are named, or all alike."),
    field("dependencies", 32, MapOf(SchemaOrStrings, go="v1.JSONSchemaDependencies"),
        doc="Not supported: use a rule in x-kubernetes-validations."),
    field("additionalItems", 33, SchemaOrBool, pointer=True,
        doc="Not supported: all items of an array have one schema."),
    field("definitions", 34, MapOf(JSONSchemaProps, go="v1.JSONSchemaDefinitions"),
        doc="Not supported: schemas have no shared definitions."),
    field("externalDocs", 35, ExternalDocumentation, pointer=True, doc="Further documentation."),
    field("example", 36, JSON, pointer=True, doc="An example of the value."),
    field("nullable", 37, BOOL, doc="True when null is a value."),
    field("x-kubernetes-preserve-unknown-fields", 38, BOOL, pointer=True,
        doc="True to keep properties that the schema does not have; otherwise they are dropped."),
    field("x-kubernetes-embedded-resource", 39, BOOL,
        doc="True when the value is an object of Kubernetes with apiVersion, kind and metadata of its own."),
    field("x-kubernetes-int-or-string", 40, BOOL, doc="True when the value is an integer or a string."),
    field("x-kubernetes-list-map-keys", 41, ListOf(STRING),
        doc="Properties that identify the items of a list of type map."),
    field("x-kubernetes-list-type", 42, STRING, pointer=True,
        doc="How server-side apply merges a list: atomic (the default), set or map."),
    field("x-kubernetes-map-type", 43, STRING, pointer=True,
        doc="How server-side apply merges an object: granular (the default) or atomic."),
    field("x-kubernetes-validations", 44, ListOf(ValidationRule, "map", ("rule",), merge_key="rule"),
        doc="Conditions in CEL that the value must meet."),
), doc="JSONSchemaProps is a JSON schema, as far as custom resources may use one.")
SchemaOrArray: Scalar = _schema_or("JSONSchemaPropsOrArray", lambda: (
    field("schema", 1, JSONSchemaProps, pointer=True),
    field("jSONSchemas", 2, ListOf(JSONSchemaProps)),
), "jSONSchemas", ListOf(JSONSchemaProps))
SchemaOrBool: Scalar = _schema_or("JSONSchemaPropsOrBool", lambda: (
    field("allows", 1, BOOL, omit=False),
    field("schema", 2, JSONSchemaProps, pointer=True),
), "allows", BOOL)
SchemaOrStrings: Scalar = _schema_or("JSONSchemaPropsOrStringArray", lambda: (
    field("schema", 1, JSONSchemaProps, pointer=True),
    field("property", 2, ListOf(STRING)),
), "property", ListOf(STRING))
CustomResourceValidation = Struct(_PREFIX + "CustomResourceValidation", lambda: (
    field("openAPIV3Schema", 1, JSONSchemaProps, pointer=True,
        doc="Schema of the whole object; it must be structural."),
), doc="CustomResourceValidation is the schema of a version.")
CustomResourceSubresourceStatus = Struct(_PREFIX + "CustomResourceSubresourceStatus", (),
    doc="CustomResourceSubresourceStatus enables the subresource status.")
CustomResourceSubresourceScale = Struct(_PREFIX + "CustomResourceSubresourceScale", lambda: (
    field("specReplicasPath", 1, STRING, omit=False, required=True,
        doc="Path below .spec of the desired number of replicas, such as .spec.replicas."),
    field("statusReplicasPath", 2, STRING, omit=False, required=True,
        doc="Path below .status of the actual number of replicas."),
    field("labelSelectorPath", 3, STRING, pointer=True,
        doc="Path below .spec or .status of the selector, as a string, that autoscalers need."),
), doc="CustomResourceSubresourceScale has the paths of the fields that a scale shows.")
CustomResourceSubresources = Struct(_PREFIX + "CustomResourceSubresources", lambda: (
    field("status", 1, CustomResourceSubresourceStatus, pointer=True,
        doc="Enables the subresource status; .status can only be written through it then."),
    field("scale", 2, CustomResourceSubresourceScale, pointer=True, doc="Enables the subresource scale."),
), doc="CustomResourceSubresources lists the subresources of the objects.")
CustomResourceColumnDefinition = Struct(_PREFIX + "CustomResourceColumnDefinition", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Title of the column."),
    field("type", 2, STRING, omit=False, required=True,
        doc="Type of the cells: string, integer, number, boolean or date."),
    field("format", 3, STRING, doc="Format of the cells, such as byte or date-time."),
    field("description", 4, STRING, doc="Description of the column."),
    field("priority", 5, INT32, doc="0 for columns that are always shown, more for those that only a wide output has."),
    field("jsonPath", 6, STRING, omit=False, required=True, doc="Path of the value in the object."),
), doc="CustomResourceColumnDefinition is a column of kubectl get.")
SelectableField = Struct(_PREFIX + "SelectableField", lambda: (
    field("jsonPath", 1, STRING, omit=False, required=True,
        doc="Path of a string, boolean or integer outside of metadata by which objects can be selected."),
), doc="SelectableField is a field for field selectors.")
CustomResourceDefinitionVersion = Struct(_PREFIX + "CustomResourceDefinitionVersion", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the version, such as v1beta1."),
    field("served", 2, BOOL, omit=False, required=True, doc="Whether clients can use the version."),
    field("storage", 3, BOOL, omit=False, required=True, doc="True for the one version in which objects are stored."),
    field("deprecated", 7, BOOL, doc="True to warn clients that use the version."),
    field("deprecationWarning", 8, STRING, pointer=True, doc="The warning, instead of the usual one."),
    field("schema", 4, CustomResourceValidation, pointer=True, doc="Schema of objects in this version."),
    field("subresources", 5, CustomResourceSubresources, pointer=True, doc="Subresources in this version."),
    field("additionalPrinterColumns", 6, ListOf(CustomResourceColumnDefinition),
        doc="Columns of kubectl get; only the age without any."),
    field("selectableFields", 9, ListOf(SelectableField),
        doc="Fields by which objects can be selected, at most eight."),
), doc="CustomResourceDefinitionVersion is one version of a custom resource.")
CustomResourceDefinitionNames = Struct(_PREFIX + "CustomResourceDefinitionNames", lambda: (
    field("plural", 1, STRING, omit=False, required=True, doc="Name in paths, lower case, such as widgets."),
    field("singular", 2, STRING, doc="Name of one object for command lines; by default the kind in lower case."),
    field("shortNames", 3, ListOf(STRING), doc="Short names for command lines."),
    field("kind", 4, STRING, omit=False, required=True, doc="Kind of the objects, CamelCase and singular."),
    field("listKind", 5, STRING, doc="Kind of lists of them; by default the kind with List added."),
    field("categories", 6, ListOf(STRING), doc="Groups of resources that it belongs to, such as all."),
), doc="CustomResourceDefinitionNames are the names of a custom resource.")
ServiceReference = Struct(_PREFIX + "ServiceReference", lambda: (
    field("namespace", 1, STRING, omit=False, required=True, doc="Namespace of the service."),
    field("name", 2, STRING, omit=False, required=True, doc="Name of the service."),
    field("path", 3, STRING, pointer=True, doc="Path of the URL at which the webhook is called."),
    field("port", 4, INT32, pointer=True, fills=443, doc="Port of the service; 443 by default."),
), doc="ServiceReference points to a service.")
WebhookClientConfig = Struct(_PREFIX + "WebhookClientConfig", lambda: (
    field("url", 3, STRING, pointer=True, doc="Address of the webhook, with https; instead of service."),
    field("service", 1, ServiceReference, pointer=True, doc="Service of the webhook; instead of url."),
    field("caBundle", 2, BYTES, doc="Certificates in PEM by which the webhook's own is checked."),
), doc="WebhookClientConfig has the address of a webhook and the certificates to verify it.")
WebhookConversion = Struct(_PREFIX + "WebhookConversion", lambda: (
    field("clientConfig", 2, WebhookClientConfig, pointer=True, doc="How to call the webhook."),
    field("conversionReviewVersions", 3, ListOf(STRING), omit=False, required=True,
        doc="Versions of ConversionReview that the webhook understands, the preferred one first."),
), doc="WebhookConversion converts objects by calling a webhook.")
CustomResourceConversion = Struct(_PREFIX + "CustomResourceConversion", lambda: (
    field("strategy", 1, ConversionStrategyType, omit=False, required=True,
        doc="None (only apiVersion changes) or Webhook."),
    field("webhook", 2, WebhookConversion, pointer=True, doc="The webhook, with strategy Webhook."),
), doc="CustomResourceConversion defines the conversion of objects between versions.")
CustomResourceDefinitionSpec = Struct(_PREFIX + "CustomResourceDefinitionSpec", lambda: (
    field("group", 1, STRING, omit=False, required=True, doc="API group of the resource."),
    field("names", 3, CustomResourceDefinitionNames, omit=False, required=True, doc="Its names."),
    field("scope", 4, ResourceScope, omit=False, required=True, doc="Cluster or Namespaced."),
    field("versions", 7, ListOf(CustomResourceDefinitionVersion), omit=False, required=True, doc="Its versions."),
    field("conversion", 9, CustomResourceConversion, pointer=True, doc="Conversion of objects between versions."),
    field("preserveUnknownFields", 10, BOOL,
        doc="Must be false for new definitions; true keeps unknown fields everywhere."),
), doc="CustomResourceDefinitionSpec describes a custom resource.")
CustomResourceDefinitionCondition = Struct(_PREFIX + "CustomResourceDefinitionCondition", lambda: (
    field("type", 1, ConditionType, omit=False, required=True,
        doc="NamesAccepted, Established (served), Terminating, NonStructuralSchema and others."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastTransitionTime", 3, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 4, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 5, STRING, doc="Reason for the status as text, for people."),
    field("observedGeneration", 6, INT64, doc="metadata.generation that the condition reflects."),
), doc="CustomResourceDefinitionCondition is one aspect of a definition's state.")
CustomResourceDefinitionStatus = Struct(_PREFIX + "CustomResourceDefinitionStatus", lambda: (
    field("conditions", 1, ListOf(CustomResourceDefinitionCondition, "map", ("type",)), omit=False,
        doc="Latest conditions, at most one of each type."),
    field("acceptedNames", 2, CustomResourceDefinitionNames, omit=False,
        doc="Names in use, which may differ from the requested ones."),
    field("storedVersions", 3, ListOf(STRING), omit=False, doc="Versions in which objects have ever been stored."),
    field("observedGeneration", 4, INT64, doc="metadata.generation that this status reflects."),
), doc="CustomResourceDefinitionStatus is the state of a definition.")
CustomResourceDefinition = Struct(_PREFIX + "CustomResourceDefinition", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata; the name is PLURAL.GROUP."),
    field("spec", 2, CustomResourceDefinitionSpec, omit=False, required=True, doc="The resource."),
    field("status", 3, CustomResourceDefinitionStatus, omit=False, doc="Served names and conditions."),
), gvk=("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    doc="CustomResourceDefinition adds a kind of object to the API.")

CustomResourceDefinitionList = list_of(CustomResourceDefinition)
