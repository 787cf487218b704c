"""References of core/v1: to objects, to keys of config maps and secrets, to fields."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import BOOL, INT32, QUANTITY, STRING, Struct, field
from apiserver.api.schema.limits import Limits
from apiserver.api.types.meta import UID

#: Permission bits.
FILE_MODE = Limits(least=0, most=0o777, words="must be a number between 0 and 0777 (octal), both inclusive")
#: A reference that must have a name.
NAME_NEEDED = Limits(parts={"name": Limits(required=True)})
#: A reference whose name is validated.
_NAMED = Limits(parts={"name": Limits(format="subdomain", empty=True)})

ObjectReference = Struct("io.k8s.api.core.v1.ObjectReference", lambda: (
    field("kind", 1, STRING, doc="Kind of the object."),
    field("namespace", 2, STRING, doc="Namespace of the object; empty for objects of the whole cluster."),
    field("name", 3, STRING, doc="Name of the object."),
    field("uid", 4, UID,
        doc="UID of the object, to tell it from another one that had the same name before or gets it later."),
    field("apiVersion", 5, STRING, doc="Group and version in which the object is meant."),
    field("resourceVersion", 6, STRING, doc="Version of the object at which the reference was made."),
    field("fieldPath", 7, STRING,
        doc="Part of the object that is meant, such as spec.containers{web}; the whole object when empty."),
), atomic=True, doc="ObjectReference points to any object, in any namespace, or to a part of it.")
LocalObjectReference = Struct("io.k8s.api.core.v1.LocalObjectReference", lambda: (
    field("name", 1, STRING, default="", doc="Name of the object in the same namespace."),
), atomic=True,
    doc="LocalObjectReference points to an object of the same namespace whose kind is known from the context.")
TypedLocalObjectReference = Struct("io.k8s.api.core.v1.TypedLocalObjectReference", lambda: (
    field("apiGroup", 1, STRING, omit=False, pointer=True,
        doc="API group of the object; empty or not set for the core group."),
    field("kind", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Kind of the object."),
    field("name", 3, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the object."),
), atomic=True, doc="TypedLocalObjectReference points to an object of a given kind in the same namespace.")
TypedObjectReference = Struct("io.k8s.api.core.v1.TypedObjectReference", lambda: (
    field("apiGroup", 1, STRING, omit=False, pointer=True,
        doc="API group of the object; empty or not set for the core group."),
    field("kind", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Kind of the object."),
    field("name", 3, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the object."),
    field("namespace", 4, STRING, pointer=True, gate=gated("CrossNamespaceVolumeDataSource", "rule"),
        limits=Limits(format="dns-label", empty=False),
        doc="Namespace of the object; the referring object's own when not set. Another namespace must permit it with a "
            "ReferenceGrant."),
), doc="TypedObjectReference points to an object of a given kind, possibly in another namespace.")
ObjectFieldSelector = Struct("io.k8s.api.core.v1.ObjectFieldSelector", lambda: (
    field("apiVersion", 1, STRING, fills="v1", limits=Limits(required=True),
        doc="API version in which fieldPath is read; v1 when not set."),
    field("fieldPath", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Path of the field, such as metadata.name, metadata.labels['app'] or status.podIP."),
), atomic=True, doc="ObjectFieldSelector names a field of the pod.")
ResourceFieldSelector = Struct("io.k8s.api.core.v1.ResourceFieldSelector", lambda: (
    field("containerName", 1, STRING,
        doc="Container whose resources are read; needed in volumes, in environment variables the container itself when "
            "not set."),
    field("resource", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="The value to read, such as limits.cpu or requests.memory."),
    field("divisor", 3, QUANTITY, omit=False,
        doc="Unit in which the value is shown, rounded up to a whole number; 1 when not set."),
), atomic=True, doc="ResourceFieldSelector names a request or limit of a container.")
ConfigMapKeySelector = Struct("io.k8s.api.core.v1.ConfigMapKeySelector", lambda: (
    field("", 1, LocalObjectReference, inline=True, limits=_NAMED),
    field("key", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="config-map-key"),
        doc="Key whose value is taken."),
    field("optional", 3, BOOL, pointer=True,
        doc="True when the container may start without the ConfigMap or the key; false when not set."),
), atomic=True, doc="ConfigMapKeySelector names one key of a ConfigMap in the pod's namespace.")
SecretKeySelector = Struct("io.k8s.api.core.v1.SecretKeySelector", lambda: (
    field("", 1, LocalObjectReference, inline=True, limits=_NAMED),
    field("key", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="config-map-key"),
        doc="Key whose value is taken; the decoded bytes are used."),
    field("optional", 3, BOOL, pointer=True,
        doc="True when the container may start without the Secret or the key; false when not set."),
), atomic=True, doc="SecretKeySelector names one key of a Secret in the pod's namespace.")
FileKeySelector = Struct("io.k8s.api.core.v1.FileKeySelector", lambda: (
    field("volumeName", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="dns-label"),
        doc="Name of the volume that has the file."),
    field("path", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="no-backsteps"),
        doc="Path of the file, relative to the root of the volume; it must not contain `..`."),
    field("key", 3, STRING, omit=False, required=True, limits=Limits(required=True, format="env-var-name"),
        doc="Name of the variable in the file."),
    field("optional", 4, BOOL, pointer=True, default=False,
        doc="True when the container may start without the file or the variable; false when not set."),
), atomic=True, doc="FileKeySelector names one variable of a file of environment variables in a volume.")
KeyToPath = Struct("io.k8s.api.core.v1.KeyToPath", lambda: (
    field("key", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Key whose value becomes the content of the file."),
    field("path", 2, STRING, omit=False, required=True, limits=Limits(required=True, format="file-path"),
        doc="Path of the file, relative to the mount point; it must not contain `..`."),
    field("mode", 3, INT32, pointer=True, limits=FILE_MODE,
        doc="Permission bits of the file, 0 to 0777 (511 in decimal); the volume's defaultMode when not set."),
), doc="KeyToPath is the file of one key in a volume.")
