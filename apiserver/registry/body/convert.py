"""Between what is stored and what an API version shows: versions of a kind as the registry uses them.

A stored object (hub form) has neither kind nor apiVersion; they belong to the version in which it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.codec import encode_exactly, restore_raws, zero
from apiserver.api.objects import Hub, Stored, Versioned
from apiserver.api.schema import Struct
from apiserver.registry.resource import Resource, Version, same_form

if TYPE_CHECKING:
    from apiserver.storage.cache import Entry

__all__ = [
    "Form",
    "Forms",
    "api_version",
    "copy_of",
    "encode_stored",
    "exact_copy",
    "read",
    "read_compact",
    "to_version",
]

Json = dict[str, Any]

OPENING: Final = b'{"metadata":{'
#: ObjectMeta's fields in the order in which they are stored; resourceVersion is not.
_ORDER: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def read(entry: Entry) -> Hub:
    """A private copy of an entry's object, with its resource version; raw extensions know how they were written."""
    text = OPENING + entry.tail
    obj = Hub(orjson.loads(text))
    restore_raws(obj, text)
    return obj


def read_compact(entry: Entry) -> Hub:
    """As `read`, with raw extensions in compact form: what a patch is applied to."""
    return Hub(orjson.loads(OPENING + entry.tail))


def copy_of(obj: Json) -> Json:
    """A deep copy of JSON; raw extensions become compact."""
    made: Json = orjson.loads(orjson.dumps(obj))
    return made


def exact_copy(obj: Hub) -> Hub:
    """A deep copy of JSON in which raw extensions know how they were written."""
    text = encode_exactly(obj)
    made = Hub(orjson.loads(text))
    restore_raws(made, text)
    return made


def encode_stored(obj: Hub) -> Stored:
    """The bytes that are stored: metadata first, in order, without a resource version."""
    metadata = obj["metadata"]
    stored: Json = {"metadata": {name: metadata[name] for name in _ORDER if name in metadata}}
    for name in obj:
        if name != "metadata" and name != "kind" and name != "apiVersion":
            stored[name] = obj[name]
    return Stored(encode_exactly(stored))


def to_version(resource: Resource, version: Version, obj: Hub) -> Versioned:
    """A hub object as a version shows it, with kind and apiVersion. `obj` is used up."""
    shown = version.from_hub(obj)
    return Versioned({"kind": resource.kind, "apiVersion": api_version(resource.group, version.name), **shown})


@dataclass(frozen=True, slots=True)
class Form:
    """One API version of a kind: its schema, how a stored object is turned into it (a private copy, unless it is the
    stored form itself) and back, and its object without any value."""

    schema: Struct
    of_hub: Callable[[Json], Json]
    to_hub: Callable[[Json], Json]
    empty: Callable[[], Json]


class Forms:
    """The forms of all versions under which the objects of one storage prefix can be seen, by apiVersion.

    Two resources may share a prefix (events of the core group and of events.k8s.io): a manager of either is understood.
    Of a version that is not `served` (by release or runtime-config) nothing is known, as upstream knows fields from the
    OpenAPI schema of what it serves: managers who spoke it are forgotten when an object is written next.
    """

    def __init__(
        self, resources: Iterable[Resource], served: Callable[[Resource, Version], bool] = lambda *_: True
    ) -> None:
        self._forms: dict[str, Form] = {}
        for resource in resources:
            for version in resource.versions:
                if served(resource, version):
                    self._forms[api_version(resource.group, version.name)] = _form(version)

    def get(self, version: str) -> Form | None:
        return self._forms.get(version)


def _form(version: Version) -> Form:
    convert: Callable[[Json], Json] = (
        _identity if version.from_hub is same_form else lambda obj: version.from_hub(copy_of(obj))
    )
    made: list[Json] = []

    def empty() -> Json:
        if not made:
            made.append(zero(version.schema))
        return made[0]

    return Form(version.schema, convert, version.to_hub, empty)


def _identity(obj: Json) -> Json:
    return obj
