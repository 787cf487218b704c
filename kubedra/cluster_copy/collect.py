"""Read a cluster into memory: every kind in pages, without secrets, ready to be stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubedra.client.responses import ApiError
from kubedra.cluster_copy.adapt import adapt_definition, adapt_node, drop_missing_owners, is_token, redact_secret
from kubedra.cluster_copy.kinds import Kind, KindFilter, discover, left_out
from kubedra.cluster_copy.progress import Progress
from kubedra.cluster_copy.source import Source
from kubedra.runtime.objects import Json

__all__ = ["Copy", "Selection", "collect", "list_objects"]

_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_MISSING: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a cluster to copy. No namespaces and no kinds mean all of them."""

    namespaces: Sequence[str] = ()
    kinds: KindFilter = field(default_factory=lambda: KindFilter(()))
    with_secrets: bool = False
    anonymize: bool = False


@dataclass(slots=True)
class Copy:
    """The objects of a cluster in an order in which they can be created.

    `problems` are (subject, reason) of parts that could not be read. `notes` are texts about parts that were left out
    or changed on purpose.
    """

    objects: list[Json] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_problem(self, subject: str, reason: str) -> None:
        self.problems.append((subject, " ".join(reason.split())))


def collect(source: Source, selection: Selection, progress: Progress) -> Copy:
    """Read the selected objects. Raise LostError if the connection fails, ValueError for an unknown kind."""
    copy = Copy()
    kinds = selection.kinds.select(discover(source.get, copy.add_problem))
    if selection.anonymize:
        dropped = [kind.qualified for kind in kinds if not kind.is_anonymous and not left_out(kind)]
        kinds = [kind for kind in kinds if kind.is_anonymous]
        if dropped:
            copy.notes.append(f"left out {_enumerate(dropped)}: kinds without an anonymous form")
    if not selection.kinds:
        kinds = _leave_out(kinds, copy)
    progress.start(len(kinds))
    versions: dict[tuple[str, str], str] = {}
    tokens = 0
    for kind in kinds:
        progress.step(kind.qualified)
        read = _in_storage_version(kind, versions)
        for obj in list_objects(source, read, selection.namespaces, copy):
            if kind.qualified == "secrets" and not selection.with_secrets:
                if is_token(obj):
                    tokens += 1
                    continue
                redact_secret(obj)
            elif kind.qualified == "nodes":
                adapt_node(obj)
            elif kind.qualified == _DEFINITIONS:
                spec = obj["spec"]
                versions[spec["group"], spec["names"]["plural"]] = next(
                    version["name"] for version in spec["versions"] if version.get("storage")
                )
                if adapt_definition(obj):
                    copy.notes.append(f"removed the conversion webhook of {obj['metadata']['name']}")
            copy.objects.append(obj)
    if tokens:
        copy.notes.append(f"left out {tokens} tokens of service accounts; --with-secrets copies them")
    for owner, count in sorted(drop_missing_owners(copy.objects).items()):
        copy.notes.append(f"removed {count} references to owners of kind {owner}, which are not copied")
    return copy


def _leave_out(kinds: Iterable[Kind], copy: Copy) -> list[Kind]:
    """Return the kinds without those that a copy leaves out."""
    kept: list[Kind] = []
    reasons: dict[str, list[str]] = {}
    for kind in kinds:
        reason = left_out(kind)
        if reason:
            reasons.setdefault(reason, []).append(kind.qualified)
        else:
            kept.append(kind)
    copy.notes += [f"left out {_enumerate(names)}: {reason}" for reason, names in reasons.items()]
    return kept


def _in_storage_version(kind: Kind, versions: dict[tuple[str, str], str]) -> Kind:
    """Return a custom kind in the version in which its objects are stored."""
    version = versions.get((kind.group, kind.plural))
    if version is None or version == kind.version:
        return kind
    return Kind(kind.group, version, kind.plural, kind.kind, kind.namespaced, kind.names)


def list_objects(source: Source, kind: Kind, named: Sequence[str], copy: Copy) -> list[Json]:
    """Return the objects of a kind in the named namespaces, or in all; a refusal becomes a problem."""
    objects: list[Json] = []
    for namespace in named if kind.namespaced and named else ("",):
        try:
            objects += source.list(kind, namespace)
        except ApiError as error:
            if error.code != _MISSING:  # a kind without objects that disappeared since discovery
                copy.add_problem(f"{kind.qualified} in {namespace}" if namespace else kind.qualified, error.message)
    if named and kind.qualified == "namespaces":
        objects = [each for each in objects if each["metadata"]["name"] in named]
        present = {each["metadata"]["name"] for each in objects}
        for name in named:
            if name not in present:
                copy.add_problem(f"namespace {name}", "it does not exist")
    return objects


def _enumerate(names: Sequence[str]) -> str:
    return ", ".join(sorted(names))
