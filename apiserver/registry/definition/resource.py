"""A resource as data, and the catalog of all served resources.

Discovery, routing, OpenAPI, tables, field validation and authorization names are functions of the catalog. Resources do
not register themselves: `apiserver.resources.CATALOG` is one visible tuple.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from apiserver.api.features.gates import RELEASES
from apiserver.api.objects import Json
from apiserver.api.schema.defaulting import fill_defaults
from apiserver.api.schema.language import Struct

if TYPE_CHECKING:
    from apiserver.api.errors.field_errors import FieldError
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.converter import Conversion
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.definition.strategy import Strategy
    from apiserver.request.messages import Request, Response, Stream
    from apiserver.storage.log.types import Record

Release = tuple[int, int]
#: The store of a resource (`registry.store.store.Store`). Stores import resources, so its type cannot be named here.
ItsStore = Any

#: Verbs of an ordinary resource, in discovery's (alphabetical) order.
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def same_form(obj: Json) -> Json:
    """Return the object unchanged: the conversion of a version that is the stored form."""
    return obj


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One API version of a resource.

    `to_hub`/`from_hub` convert a whole object, perhaps in place, and return it. `default(obj, now)` fills defaults
    across fields in place. The releases bound where the version is served; `on_by_default` applies without
    runtime-config. `successor` replaces a deprecated version. `list_schema` is the documented type of its lists if it
    is not derived from `schema`. `columns`, `subresources`, `field_labels` and `warning` are set if versions differ
    (custom resources); see `Resource.of_version`.
    """

    name: str
    schema: Struct
    introduced: Release = (1, 0)
    deprecated: Release | None = None
    successor: str = ""
    removed: Release | None = None
    on_by_default: bool = True
    to_hub: Callable[[Json], Json] = same_form
    from_hub: Callable[[Json], Json] = same_form
    default: Callable[[Json, datetime], None] | None = None
    list_schema: Struct | None = None
    columns: tuple[Column, ...] | None = None
    subresources: tuple[Subresource, ...] | None = None
    field_labels: Mapping[str, Callable[[Json], str]] | None = None
    #: The warning in every answer.
    warning: str = ""

    def fill(self, obj: Json, now: datetime) -> None:
        """Fill the defaults of an object of this version in place: by its type, then by `default`."""
        fill_defaults(self.schema, obj, now)
        if self.default is not None:
            self.default(obj, now)


def prerelease(name: str, schema: Struct, introduced: Release, **further: Any) -> Version:
    """Return an alpha or beta version: off by default, deprecated 3 and removed 6 releases after its introduction.

    The fields in `further` override these.
    """
    major, minor = introduced
    usual: Json = {"deprecated": (major, minor + 3), "removed": (major, minor + 6), "on_by_default": False}
    return Version(name=name, schema=schema, introduced=introduced, **(usual | further))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the Table form.

    `cell(obj)` returns its value for an object in hub form. With `timed` it takes `now` as second argument (ages). A
    column that is not `is_defined` has cells but no definition.
    """

    name: str
    cell: Callable[..., Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    timed: bool = False
    is_defined: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True)
class Projection:
    """A projection: a subresource that shows a part of an object as another kind (scale).

    `kind` is the kind of its body, which is not stored. `field` is the shared field in the object (dotted, a leaf), and
    `projected_field` its place in the projection if that differs. `show(obj)` returns the projection of an object in
    hub form, and `validate(shown)` the errors of a changed one. `check_exists(obj)` raises for an object without the
    field; its projection can be written but not read.
    """

    kind: Resource
    field: str
    show: Callable[[Json], Json]
    validate: Callable[[Json], list[FieldError]]
    check_exists: Callable[[Json], None] | None = None
    projected_field: str = ""

    @property
    def version(self) -> Version:
        return self.kind.versions[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A subresource such as `status`, `binding` or `scale`.

    `verbs` are in discovery's order. `kind`/`group`/`version` are its body's if it has a kind of its own.
    `create(store, ctx, body, options)` serves POST (the decoded body, without kind and apiVersion) and returns the
    answer: a Status or an object with kind and apiVersion. `connect(store, ctx, request)` serves any verb of log, exec
    and the like. `projection`: the body shows a part of the object as another kind and is read and written like it
    (scale).
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str | None = None
    version: str = ""
    schema: Struct | None = None
    #: Other accepted apiVersions of its body.
    accepts: tuple[str, ...] = ()
    create: Callable[[ItsStore, Context, Json, WriteOptions], Awaitable[Json]] | None = None
    connect: Callable[[ItsStore, Context, Request], Awaitable[Response | Stream]] | None = None
    #: Returns the options of a request as the object that admission sees; None: admission does not see it.
    connect_options: Callable[[Request], Json] | None = None
    projection: Projection | None = None
    #: Whether it can be shown as a Table. An action, which has `create`, cannot.
    tables: bool = True


def api_version(group: str, version: str) -> str:
    """Return the apiVersion of a group and version: `apps/v1`, or only `v1` for the core group."""
    return f"{group}/{version}" if group else version


def go_package(group: str) -> str:
    """Return the package of a group's hub types. Events of both groups belong to core."""
    return "core" if group in ("", "events.k8s.io") else group.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource. Objects are stored in hub form under `/registry/{storage_prefix}/[namespace/]name`.

    `field_labels` maps a selectable field to its value in an object ("" if unset). The store adds metadata.name and
    metadata.namespace. `delete_returns_object`: DELETE returns the object instead of a Status. `storage_version` is
    upstream's stored apiVersion if it does not depend on the release (see `stored_api_version`).
    `unconditional_update`: PUT without resourceVersion is allowed. `create_on_update`: PUT to a missing name creates
    it.
    """

    group: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    versions: tuple[Version, ...]
    strategy: Strategy
    columns: tuple[Column, ...]
    storage_prefix: str
    #: The kind of lists if it is not the kind with "List" appended.
    list_kind_name: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    field_labels: Mapping[str, Callable[[Json], str]] = field(default_factory=dict)
    delete_returns_object: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    storage_version: str = ""
    #: Whether upstream reads single objects from its watch cache, which has other errors.
    cached: bool = True
    #: A feature gate required to serve the resource.
    gate: str = ""
    #: Serves POST of a resource without stored objects (bindings), like a Subresource's `create`.
    create: Callable[[ItsStore, Context, Json, WriteOptions], Awaitable[Json]] | None = None
    #: Last check of a new or changed object (None: no old one) before its kind's rules, by its writer. It raises 403.
    guard: Callable[[ItsStore, Context, Json, Json | None], Awaitable[None]] | None = None
    #: Conditions of an object's row in the Table form (a finished pod), usually none.
    row_conditions: Callable[[Json], list[Json]] | None = None
    #: The sort key of rows in a list's Table if it is not the name.
    row_order: Callable[[Json], Any] | None = None
    #: Converts a stored row to the kind's present form (see `apiserver.storage.watchcache.cache.Cache`).
    to_current: Callable[[Record], Record] | None = None
    #: Converts rows to the former form, for watches that continue for a short time after the kind changes. None: they
    #: end.
    to_former: Callable[[Record], Record] | None = None
    #: Converts objects that need an external converter. All versions then have the stored form.
    conversion: Conversion | None = None
    #: Computes all objects of a resource without stored objects, at each request.
    compute_objects: Callable[[ItsStore, Context], Awaitable[list[Json]]] | None = None
    #: The suffix of stored objects if their version is not the first storage version.
    stored_mark: bytes = b""
    #: A custom resource: its objects are bare JSON, without strategic merge and protobuf.
    custom: bool = False
    #: The error for a field selector with an unknown label: "known" lists the known labels, "plain" the label, "kind"
    #: label and group version kind, "label" label and kind.
    field_error_style: Literal["known", "plain", "kind", "label"] = "known"

    #: The type of stored objects.
    hub_schema: Struct = field(init=False, repr=False, compare=False)
    #: The apiVersion of each version, by its name.
    api_versions: Mapping[str, str] = field(init=False, repr=False, compare=False)
    #: Whether reads wait for an external converter, or for computed objects.
    is_read_async: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hub = next((version for version in self.versions if version.to_hub is same_form), self.versions[0])
        object.__setattr__(self, "hub_schema", hub.schema)
        names = [version.name for version in self.versions]
        object.__setattr__(self, "api_versions", {name: api_version(self.group, name) for name in names})
        object.__setattr__(self, "is_read_async", self.conversion is not None or self.compute_objects is not None)

    @property
    def hub_group(self) -> str:
        """The group of the kind's hub type in errors about preconditions."""
        return "" if go_package(self.group) == "core" else self.group

    @property
    def go_type(self) -> str:
        """The kind's hub type in conversion errors (`core.Pod`)."""
        return "unstructured.Unstructured" if self.custom else f"{go_package(self.group)}.{self.kind}"

    def defines(self, api_version: str) -> bool:
        """Return whether field managers may have this apiVersion.

        Upstream cannot convert custom objects to a version that their definition lacks. Managers of unknown versions of
        other kinds are dropped.
        """
        return not self.custom or api_version in self.api_versions.values()

    @property
    def list_kind(self) -> str:
        return self.list_kind_name or self.kind + "List"

    @property
    def qualified(self) -> str:
        """The form in messages: `resourceclaims.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return any(sub.name == "status" for sub in self.subresources)

    def stored_api_version(self, release: Release) -> str:
        """Return the apiVersion in which upstream stores the kind, as discovery reports it.

        It is the newest version that also exists in the previous release, to allow a downgrade
        (apiserver/pkg/server/storage). Objects are stored in hub form here.
        """
        before = max((release[0], release[1] - 1), RELEASES[0])
        known = next((version for version in self.versions if version.introduced <= before), self.versions[0])
        return self.storage_version or self.api_versions[known.name]

    def storage_hash(self, release: Release) -> str:
        """Return discovery's storageVersionHash; "" for a kind without stored objects (reviews)."""
        if "get" not in self.verbs or self.compute_objects is not None:
            return ""
        stored = self.stored_api_version(release)
        text = f"{stored if '/' in stored else '/' + stored}/{self.kind}"
        return b64encode(sha256(text.encode()).digest()[:8]).decode()

    def of_version(self, version: Version) -> Resource:
        """Return the resource with the columns, subresources and selectable fields of one of its versions."""
        own = {
            name: value
            for name in ("columns", "subresources", "field_labels")
            if (value := getattr(version, name)) is not None
        }
        return replace(self, **own) if own else self

    def version(self, name: str) -> Version | None:
        return next((v for v in self.versions if v.name == name), None)

    def prefix(self, namespace: str = "") -> str:
        """Return the key prefix of all objects, or of those in a namespace."""
        return f"/registry/{self.storage_prefix}/{namespace}/" if namespace else f"/registry/{self.storage_prefix}/"
