"""The kinds of a cluster, from discovery, and the kinds that a copy leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubedra.client.paths import group_path, join_path
from kubedra.client.responses import ApiError
from kubedra.runtime.objects import Json
from kubedra.runtime.user_settings import suggest

__all__ = ["ANONYMOUS", "Kind", "KindFilter", "UnknownKindError", "discover", "left_out"]

#: Reads a path of the source.
Get = Callable[[str], Json]
_WRITTEN_BY_COMPONENTS: Final = "heartbeats and reports of running components"
_OF_THE_SERVER: Final = "every server has its own"
_UNREACHABLE: Final = "their services cannot be reached from here"
#: Kinds that a copy leaves out unless they are named, by plural and group, with the reason.
_LEFT_OUT: Final[Mapping[str, str]] = {
    "events": _WRITTEN_BY_COMPONENTS,
    "events.events.k8s.io": _WRITTEN_BY_COMPONENTS,
    "leases.coordination.k8s.io": _WRITTEN_BY_COMPONENTS,
    "leasecandidates.coordination.k8s.io": _WRITTEN_BY_COMPONENTS,
    "storageversions.internal.apiserver.k8s.io": _OF_THE_SERVER,
    "apiservices.apiregistration.k8s.io": _OF_THE_SERVER,
    "flowschemas.flowcontrol.apiserver.k8s.io": _OF_THE_SERVER,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _OF_THE_SERVER,
    "componentstatuses": _OF_THE_SERVER,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _UNREACHABLE,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _UNREACHABLE,
}
#: Groups without stored objects.
_COMPUTED: Final = frozenset({"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"})
#: Kinds of an anonymous copy: those that scheduling depends on. Fields of other kinds have no common form.
ANONYMOUS: Final = frozenset(
    {
        "namespaces", "nodes", "pods", "services", "serviceaccounts", "secrets", "configmaps", "limitranges",
        "resourcequotas", "persistentvolumes", "persistentvolumeclaims", "replicationcontrollers", "podtemplates",
        "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "controllerrevisions.apps",
        "jobs.batch", "cronjobs.batch", "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
    }
)  # fmt: skip
_ANONYMOUS_GROUPS: Final = frozenset({"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"})
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
#: Kinds in the order in which their objects can be created; the others follow.
_FIRST: Final = (
    _DEFINITIONS, "namespaces", "priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io",
    "storageclasses.storage.k8s.io", "deviceclasses.resource.k8s.io", "serviceaccounts", "secrets", "configmaps",
    "limitranges", "resourcequotas", "nodes", "resourceslices.resource.k8s.io", "persistentvolumes",
    "persistentvolumeclaims", "services", "resourceclaimtemplates.resource.k8s.io", "resourceclaims.resource.k8s.io",
)  # fmt: skip
#: Objects of these kinds may need objects of all others.
_LAST: Final = ("pods",)


class UnknownKindError(ValueError):
    """A kind that the cluster does not serve; the message is one line."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind in the version that a copy reads."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    names: frozenset[str] = field(default_factory=frozenset, compare=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The plural with the group: "pods", "deployments.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_anonymous(self) -> bool:
        """Whether an anonymous copy has objects of the kind."""
        return self.qualified in ANONYMOUS or self.group in _ANONYMOUS_GROUPS

    def path(self, namespace: str = "") -> str:
        """Return the path of the kind's collection, of one namespace or of all."""
        return join_path(*group_path(self.api_version), *(("namespaces", namespace) if namespace else ()), self.plural)

    def order(self) -> tuple[int, int, str]:
        """Return the sort key of an order in which objects can be created."""
        name = self.qualified
        if name in _FIRST:
            return 0, _FIRST.index(name), name
        return (2 if name in _LAST else 1), 0, name


def left_out(kind: Kind) -> str:
    """Return the reason to leave out a kind that was not named, or ""."""
    return _LEFT_OUT.get(kind.qualified, "")


class KindFilter:
    """The kinds that the user named: plural, singular, kind or short name, each with or without the group."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.strip().lower() for item in names for name in item.split(",") if name.strip()}

    def __bool__(self) -> bool:
        return bool(self._names)

    def select(self, kinds: Sequence[Kind]) -> list[Kind]:
        """Return the named kinds; all of them if none is named. Raise UnknownKindError."""
        if not self._names:
            return [*kinds]
        chosen: dict[Kind, None] = {}
        for name in sorted(self._names):
            found = [kind for kind in kinds if name in kind.names]
            if not found:
                hint = suggest(name, sorted({known for kind in kinds for known in kind.names}))
                raise UnknownKindError(f"--kind {name}: the cluster serves no such kind{hint}")
            chosen |= dict.fromkeys(found)
        return [*chosen]


def discover(get: Get, problem: Callable[[str, str], None]) -> list[Kind]:
    """Return the kinds that can be listed, each in the preferred version of its group.

    A group version that does not answer, like that of a broken aggregated server, is passed to `problem` with the
    reason. Kinds are in an order in which objects can be created.
    """
    found: dict[tuple[str, str], Kind] = {}
    groups = get("/apis").get("groups") or ()
    wanted = ["v1"]
    for group in groups:
        if group["name"] not in _COMPUTED:
            preferred = group["preferredVersion"]["groupVersion"]
            wanted += dict.fromkeys([preferred, *(version["groupVersion"] for version in group["versions"])])
    for api_version in wanted:
        try:
            resources = get(join_path(*group_path(api_version))).get("resources") or ()
        except ApiError as error:
            problem(api_version, f"discovery fails: {error.message}")
            continue
        for kind in _kinds(api_version, resources):
            found.setdefault((kind.group, kind.plural), kind)
    return sorted(found.values(), key=Kind.order)


def _kinds(api_version: str, resources: Iterable[Json]) -> Iterator[Kind]:
    group, _, version = api_version.rpartition("/")
    for resource in resources:
        plural = resource["name"]
        if "/" in plural or "list" not in resource["verbs"] or "get" not in resource["verbs"]:
            continue
        single = {
            plural,
            resource.get("singularName", ""),
            resource["kind"].lower(),
            *(resource.get("shortNames") or ()),
        }
        names = {name for each in single - {""} for name in (each, f"{each}.{group}" if group else each)}
        yield Kind(group, version, plural, resource["kind"], resource["namespaced"], frozenset(names))
