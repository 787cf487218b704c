"""The objects of a list or watch: key range, label selector, field selector, shard selector.

A selection is compiled once per request. Some parts need no object: an exact name or namespace is in the key, a label
in the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import StatusError, bad_request, server_error
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import FieldRequirement, FieldSelector, LabelSelector

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import ListOptions
    from apiserver.registry.definition.resource import Resource
    from apiserver.registry.store.store import Store
    from apiserver.registry.verbs.shards import ShardSelector
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["Selection", "index_terms", "select", "selection_of"]

Test = Callable[["Entry"], bool]

LABELS = "labels"


class Selection:
    """A compiled selection.

    `prefix` is that of the keys. `key` is set if at most one object can match. `test` is None if every object under the
    prefix matches. `index` and `term` are set if an index narrows the search; with `exact` it returns exactly the
    selection. `shards` is the shard selector within the test.
    """

    __slots__ = ("exact", "index", "key", "prefix", "shards", "term", "test")

    def __init__(
        self, prefix: str, key: str | None, test: Test | None, index: str = "", term: str = "", exact: bool = False
    ) -> None:
        self.prefix, self.key, self.test, self.index, self.term, self.exact = prefix, key, test, index, term, exact
        self.shards = ""

    def narrow(self, shards: ShardSelector) -> None:
        """Narrow the selection to the objects in a shard."""
        test, holds = self.test, shards.compile()
        self.exact, self.shards = False, str(shards)
        if test is None:
            self.test = lambda entry: holds(entry.obj["metadata"])
        else:
            self.test = lambda entry: holds(entry.obj["metadata"]) and test(entry)

    @property
    def plain(self) -> bool:
        """Whether the selection is everything under the prefix."""
        return self.test is None


def selection_of(store: Store, ctx: Context, options: ListOptions) -> Selection:
    """Compile the selection of a request of a collection. Raise StatusError."""
    selection = select(store.variants[ctx.version], ctx.version, ctx.namespace, options, ctx.name)
    if options.shards and ctx.features.enabled("ShardedListAndWatch"):
        from apiserver.registry.verbs.shards import ShardError, parse_shards

        try:
            selection.narrow(parse_shards(options.shards))
        except ShardError as error:
            raise server_error(f"invalid shard selector: {error}") from None
    return selection


def select(resource: Resource, version: str, namespace: str, options: ListOptions, name: str = "") -> Selection:
    """Compile labels and fields. `name` is that of a collection request for one object (old watch paths)."""
    labels, fields = options.labels, options.fields
    if labels is None and fields is None and not name:
        return Selection(resource.prefix(namespace), None, None)
    fields = _with_name(fields, name)
    exact_name = exact_namespace = None
    check_fields(resource, version, fields)
    if fields is not None:
        exact_name, exact_namespace = fields.exact("metadata.name"), fields.exact("metadata.namespace")
    if exact_namespace and not namespace and resource.namespaced:
        namespace = exact_namespace
    key = resource.prefix(namespace) + exact_name if exact_name and (namespace or not resource.namespaced) else None
    index, term = _narrowed(resource, labels, fields)
    count = (len(labels.requirements) if labels is not None else 0) + (
        len(fields.requirements) if fields is not None else 0
    )
    exact = count == 1 and (
        index != LABELS or "=" in term or (labels is not None and labels.requirements[0].operator == "exists")
    )
    return Selection(
        resource.prefix(namespace), key, _test(resource, labels, fields), index, term, bool(index) and exact
    )


def _with_name(fields: FieldSelector | None, name: str) -> FieldSelector | None:
    if not name:
        return fields
    if fields is None:
        return FieldSelector((FieldRequirement("metadata.name", name),))
    if fields.exact("metadata.name") != name:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return fields


def check_fields(resource: Resource, version: str, fields: FieldSelector | None) -> None:
    """Raise 400 for a field that is not selectable in this kind."""
    for requirement in fields.requirements if fields is not None else ():
        field = requirement.field
        if field == "metadata.name" or field in resource.field_labels:
            continue
        if field == "metadata.namespace" and (resource.namespaced or resource.field_error_style == "known"):
            continue
        raise _unknown_field(resource, version, field)


def _unknown_field(resource: Resource, version: str, field: str) -> StatusError:
    if resource.field_error_style == "kind":
        return bad_request(f"field label not supported for {resource.group}/{version}, Kind={resource.kind}: {field}")
    if resource.field_error_style == "label":
        return bad_request(f"field label {go_quote(field)} not supported for {resource.kind}")
    if resource.field_error_style == "plain":
        return bad_request(f"field label not supported: {field}")
    return bad_request(f'{go_quote(field)} is not a known field selector: only "metadata.name", "metadata.namespace"')


def _name(obj: Json) -> str:
    name: str = obj["metadata"].get("name", "")
    return name


def _namespace(obj: Json) -> str:
    namespace: str = obj["metadata"].get("namespace", "")
    return namespace


def _test(resource: Resource, labels: LabelSelector | None, fields: FieldSelector | None) -> Test:
    field_test = None
    if fields is not None:
        look_ups = {"metadata.name": _name, "metadata.namespace": _namespace, **resource.field_labels}
        field_test = fields.compile(look_ups)
    if labels is None:
        assert field_test is not None
        return lambda entry: field_test(entry.obj)
    matches = labels.matches
    if field_test is None:
        return lambda entry: matches(labels_of(entry))
    return lambda entry: matches(labels_of(entry)) and field_test(entry.obj)


_LABELS_KEY = b'"labels":{'


def labels_of(entry: Entry) -> dict[str, str] | None:
    """Return an entry's labels from its bytes, without decoding the object.

    Metadata is stored first and labels in it before anything nested, so the first `"labels":{` is that of the metadata
    if no brace precedes it. Labels contain no braces, except unvalidated labels that a binding set on a pod. If the
    bytes are ambiguous, the object is decoded.
    """
    tail = entry.tail
    at = tail.find(_LABELS_KEY)
    if at < 0:
        return None
    labels: dict[str, str] | None
    if tail.find(b"{", 0, at) < 0:
        start = at + len(_LABELS_KEY) - 1
        with suppress(orjson.JSONDecodeError):  # The brace was within a label.
            labels = orjson.loads(tail[start : tail.index(b"}", start) + 1])
            return labels
    labels = entry.obj["metadata"].get("labels")
    return labels


def _narrowed(resource: Resource, labels: LabelSelector | None, fields: FieldSelector | None) -> tuple[str, str]:
    """Return an index and a term that every match has; ("", "") if there is none."""
    if fields is not None:
        for field in resource.field_labels:
            value = fields.exact(field)
            if value:
                return field, value
    if labels is not None:
        for requirement in labels.requirements:
            value = labels.exact(requirement.key)
            if value is not None:
                return LABELS, f"{requirement.key}={value}"
        for requirement in labels.requirements:
            if requirement.operator in ("exists", "in"):
                return LABELS, requirement.key
    return "", ""


def index_terms(resource: Resource) -> dict[str, Callable[[Entry], Iterable[str]]]:
    """Return the index functions of a resource's cache: labels (`key` and `key=value`) and selectable fields.

    An index is built at its first use.
    """
    indexes: dict[str, Callable[[Entry], Iterable[str]]] = {LABELS: _label_terms}
    for field, look_up in resource.field_labels.items():
        indexes[field] = _field_terms(look_up)
    return indexes


def _label_terms(entry: Entry) -> list[str]:
    labels = labels_of(entry)
    if not labels:
        return []
    return [*labels, *[f"{key}={value}" for key, value in labels.items()]]


def _field_terms(look_up: Callable[[Json], str]) -> Callable[[Entry], Iterable[str]]:
    def terms(entry: Entry) -> Iterable[str]:
        value = look_up(entry.obj)
        return (value,) if value else ()

    return terms
