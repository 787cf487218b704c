"""A resource as data, and the catalog of everything served.

Discovery, routing, OpenAPI, tables, field validation and authorization names are functions of the catalog. Nothing
registers itself: `apiserver.resources.CATALOG` is one visible tuple.
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
#: The store of a resource (`registry.store.store.Store`): stores know resources, so resources cannot name its type.
ItsStore = Any

#: Verbs of an ordinary resource, in discovery's (alphabetical) order.
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def same_form(obj: Json) -> Json:
    """The conversion of a version that is the stored form itself."""
    return obj


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One API version of a resource. `to_hub`/`from_hub` convert a whole object (may change it in place; returns it);
    `default(obj, now)` fills in place what the type does not say: defaults across fields. Releases bound where it is
    served; `on_by_default` without runtime-config. `successor` is what to use instead of a deprecated version.
    `list_schema` is the type of its lists as documents tell of it, where it is not made of `schema` alone.
    `columns`, `subresources`, `field_labels` and `warning` are those of this version alone, where versions differ
    (custom resources); see `Resource.of_version`."""

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
    #: goes with every answer.
    warning: str = ""

    def fill(self, obj: Json, now: datetime) -> None:
        """Fills what an object of this version leaves out, in place: by its type, then by `default`."""
        fill_defaults(self.schema, obj, now)
        if self.default is not None:
            self.default(obj, now)


def prerelease(name: str, schema: Struct, introduced: Release, **further: Any) -> Version:
    """Return an alpha or beta version: off by default, deprecated 3 and removed 6 releases after its introduction.
    `further` fields replace these.
    """
    major, minor = introduced
    usual: Json = {"deprecated": (major, minor + 3), "removed": (major, minor + 6), "on_by_default": False}
    return Version(name=name, schema=schema, introduced=introduced, **(usual | further))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the Table form. `cell(obj)` gives its value for an object in hub form; `now`-dependent cells (ages)
    take it as second argument when `timed`. A column that is not `told` has cells, and no definition."""

    name: str
    cell: Callable[..., Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    timed: bool = False
    told: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True)
class Projection:
    """How a subresource shows a part of an object as another kind (scale). `kind` says what its body is (nothing of it
    is stored), `field` where the object has what they share (dotted, a leaf), `within` where the projection has it if
    that is another place, `show(obj)` gives the projection of an object in hub form, `validate(shown)` what is wrong
    with a changed one. `there(obj)` raises for an object without the field, whose projection can be written and not
    read.
    """

    kind: Resource
    field: str
    show: Callable[[Json], Json]
    validate: Callable[[Json], list[FieldError]]
    there: Callable[[Json], None] | None = None
    within: str = ""

    @property
    def version(self) -> Version:
        return self.kind.versions[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """`status`, `binding`, `scale` …: `verbs` in discovery's order, `kind`/`group`/`version` of its body when it is
    another kind than the resource's own. `create(store, ctx, body, options)` serves POST (the body decoded, without
    kind and apiVersion) and gives the answer: a Status or an object with kind and apiVersion. `connect(store, ctx,
    request)` serves any verb of log, exec and the like.
    `projection`: the body shows a part of the object as another kind, and is read and written like it (scale).
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str | None = None
    version: str = ""
    schema: Struct | None = None
    #: Other apiVersions in which its body is taken.
    accepts: tuple[str, ...] = ()
    create: Callable[[ItsStore, Context, Json, WriteOptions], Awaitable[Json]] | None = None
    connect: Callable[[ItsStore, Context, Request], Awaitable[Response | Stream]] | None = None
    #: What such a request says, as the object of this kind that admission sees; None: admission does not see it.
    connect_options: Callable[[Request], Json] | None = None
    projection: Projection | None = None
    #: it can be shown as a Table; an action, which has `create`, never can.
    tables: bool = True


def api_version(group: str, version: str) -> str:
    """The apiVersion of a group and version: `apps/v1`, or `v1` alone for the core group."""
    return f"{group}/{version}" if group else version


def go_package(group: str) -> str:
    """The package of a group's hub types; events of either group are core's."""
    return "core" if group in ("", "events.k8s.io") else group.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource. Objects are stored in hub form under `/registry/{storage_prefix}/[namespace/]name`.

    `field_labels` maps a selectable field to its value of an object ("" when unset); metadata.name (and
    metadata.namespace)
    are added by the store. `delete_returns_object`: DELETE answers with the object, else with a Status.
    `storage_version` is the apiVersion in which upstream stores it, where that is not a matter of releases (see
    `stored_as`).
    `unconditional_update`: PUT without resourceVersion is allowed.
    `create_on_update`: PUT to a missing name creates it.
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
    #: The kind of lists, where it is not the kind with "List" added.
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
    #: Whether upstream reads single objects from its watch cache, whose errors have other words.
    cached: bool = True
    #: A feature gate without which the resource is not served.
    gate: str = ""
    #: Serves POST of a resource that stores nothing of its own (bindings), as a Subresource's `create` does.
    create: Callable[[ItsStore, Context, Json, WriteOptions], Awaitable[Json]] | None = None
    #: Last word on a new or changed object (None: no old one) before its kind's rules, by who writes it; raises 403.
    guard: Callable[[ItsStore, Context, Json, Json | None], Awaitable[None]] | None = None
    #: Conditions of an object's row in the Table form (a finished pod), usually none.
    row_conditions: Callable[[Json], list[Json]] | None = None
    #: By what the rows of a list's Table are sorted, where not by names.
    row_order: Callable[[Json], Any] | None = None
    #: Brings a stored row into the kind's present form (see `apiserver.storage.watchcache.cache.Cache`).
    present: Callable[[Record], Record] | None = None
    #: Shows any row in this form, to watches that go on for a moment when the kind gets another; None where they end.
    former: Callable[[Record], Record] | None = None
    #: Converts objects where that takes asking somebody else; versions are all the stored form then.
    conversion: Conversion | None = None
    #: Gives all objects of a resource that stores none, as they are when somebody asks.
    shown: Callable[[ItsStore, Context], Awaitable[list[Json]]] | None = None
    #: What stored objects end with, where their version is not the first in which objects were stored.
    stored_mark: bytes = b""
    #: A custom resource: its objects are bare JSON, which is neither merged strategically nor written as protobuf.
    custom: bool = False
    #: How a field selector with an unknown label is refused: "known" names the known ones, "plain" the label, "kind"
    #: label and group version kind, "label" label and kind.
    field_error_style: Literal["known", "plain", "kind", "label"] = "known"

    #: The type of what is stored.
    hub_schema: Struct = field(init=False, repr=False, compare=False)
    #: The apiVersion of each version, by its name.
    api_versions: Mapping[str, str] = field(init=False, repr=False, compare=False)
    #: Whether an answer takes asking somebody.
    asks: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hub = next((version for version in self.versions if version.to_hub is same_form), self.versions[0])
        object.__setattr__(self, "hub_schema", hub.schema)
        names = [version.name for version in self.versions]
        object.__setattr__(self, "api_versions", {name: api_version(self.group, name) for name in names})
        object.__setattr__(self, "asks", self.conversion is not None or self.shown is not None)

    @property
    def hub_group(self) -> str:
        """The group of the kind's hub type, which precondition failures name."""
        return "" if go_package(self.group) == "core" else self.group

    @property
    def go_type(self) -> str:
        """The kind's hub type, as conversion errors name it (`core.Pod`)."""
        return "unstructured.Unstructured" if self.custom else f"{go_package(self.group)}.{self.kind}"

    @property
    def list_kind(self) -> str:
        return self.list_kind_name or self.kind + "List"

    @property
    def qualified(self) -> str:
        """`resourceclaims.resource.k8s.io`, the form in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return any(sub.name == "status" for sub in self.subresources)

    def stored_as(self, release: Release) -> str:
        """The apiVersion in which upstream stores the kind: the newest one that the release before knew as well, so
        that there is a way back (apiserver/pkg/server/storage). Here objects are stored in hub form; discovery tells
        what upstream would."""
        before = max((release[0], release[1] - 1), RELEASES[0])
        known = next((version for version in self.versions if version.introduced <= before), self.versions[0])
        return self.storage_version or self.api_versions[known.name]

    def storage_hash(self, release: Release) -> str:
        """Discovery's storageVersionHash; empty where nothing is stored (reviews)."""
        if "get" not in self.verbs or self.shown is not None:
            return ""
        stored = self.stored_as(release)
        text = f"{stored if '/' in stored else '/' + stored}/{self.kind}"
        return b64encode(sha256(text.encode()).digest()[:8]).decode()

    def of_version(self, version: Version) -> Resource:
        """The resource as one of its versions shows it: with the columns, subresources and selectable fields of that
        version."""
        own = {
            name: value
            for name in ("columns", "subresources", "field_labels")
            if (value := getattr(version, name)) is not None
        }
        return replace(self, **own) if own else self

    def version(self, name: str) -> Version | None:
        return next((v for v in self.versions if v.name == name), None)

    def prefix(self, namespace: str = "") -> str:
        """Return what the keys of all objects begin with, or of those in a namespace."""
        return f"/registry/{self.storage_prefix}/{namespace}/" if namespace else f"/registry/{self.storage_prefix}/"
