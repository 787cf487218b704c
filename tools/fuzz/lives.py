"""Generate lives of objects: each is created, written in every way, read, listed and deleted in its own namespace.

A life is a list of requests that build on each other, so that two servers can receive the same requests and their
answers can be compared (`tools.fuzz.record`). It depends only on the kind, the version and a number, and so do its
names. Lives can be played in any order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource, Version
from tools.fuzz import patches, values
from tools.fuzz.requests import Requests

#: Kinds that change the answers about other objects, or share state between their objects.
APART: Final = frozenset(
    (
        "admissionregistration.k8s.io", "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io",
        "/namespaces", "networking.k8s.io/servicecidrs", "networking.k8s.io/ipaddresses", "scheduling.k8s.io/priorityclasses",
    )
)  # fmt: skip
#: A placeholder for the last answered resourceVersion.
LAST: Final = "$last"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_QUERIES: Final = (
    "", "", "", "", "dryRun=All", "fieldValidation=Strict", "fieldValidation=Warn", "fieldValidation=Ignore", "fieldManager=m",
    "fieldManager=n&dryRun=All", "dryRun=x", "fieldValidation=x",
)  # fmt: skip
_WRITES: Final = 6


@dataclass(frozen=True, slots=True)
class Step:
    """A request. `media` and `accept` are "" for JSON."""

    method: str
    target: str
    body: Any = None
    media: str = ""
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """`of` names version and kind; `namespace` is "" where there is none."""

    of: str
    number: int
    namespace: str
    steps: tuple[Step, ...]


def lives(seed: int, number: int, wanted: Callable[[Resource, Version], int]) -> Iterator[Life]:
    """Yield lives of each version and kind with a seed; `wanted` returns their number, `number` is the first one's."""
    for resource, version, obj in Requests(1).targets:
        if obj is None or resource.group in APART or f"{resource.group}/{resource.plural}" in APART:
            continue
        for n in range(number, number + wanted(resource, version)):
            yield _Maker(
                Random(f"{seed}/{resource.group}/{resource.plural}/{version.name}/{n}"), n, resource, version, obj
            ).life()


class _Maker:
    """A builder of one life."""

    def __init__(self, random: Random, number: int, resource: Resource, version: Version, seed: Json) -> None:
        self._random, self._number, self._resource, self._version, self._seed = random, number, resource, version, seed
        self._api_version = f"{resource.group}/{version.name}" if resource.group else version.name
        self._life = f"{resource.plural[:24]}-{version.name}-{number}"
        self._namespace = self._life if resource.namespaced else ""
        root = f"/apis/{self._api_version}" if resource.group else f"/api/{version.name}"
        self._collection = f"{root}/{f'namespaces/{self._life}/' if self._namespace else ''}{resource.plural}"
        self._name = "a" if self._namespace else self._life
        self._place = f"{self._collection}/{self._name}"

    def life(self) -> Life:
        random = self._random
        steps = [Step("POST", self._with_query(self._collection), self._created())]
        if self._namespace and random.random() < 0.6:
            steps.append(Step("POST", self._collection, self._object("b", changes=0)))
        steps += [way(self) for way in random.choices(self._WAYS, self._SHARES, k=_WRITES)]
        steps += [self._read(), *self._end(), Step("GET", self._place)]
        return Life(f"{self._api_version} {self._resource.plural}", self._number, self._namespace, tuple(steps))

    def _object(self, name: str, changes: int) -> Json:
        """Build the seed with labels for list selectors, and some changes."""
        head = {"apiVersion": self._api_version, "kind": self._resource.kind}
        obj = {**head, "metadata": {"name": name, "labels": {"life": self._life}}, **deepcopy(self._seed)}
        for _ in range(changes):
            values.change(self._random, obj, self._version.schema)
        return obj

    def _created(self) -> Json:
        random = self._random
        obj = self._object(self._name, random.choice((0, 0, 0, 1)))
        if random.random() < 0.3 and isinstance(obj.get("metadata"), dict):
            obj["metadata"] |= random.choice(
                (
                    {"finalizers": ["example.com/f"]}, {"annotations": {"a": "b"}}, {"generateName": "g-"},
                    {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "o", "uid": "u"}]},
                    {"finalizers": ["foregroundDeletion", "f"]}, {"resourceVersion": "1"}, {"uid": "u", "generation": 7},
                    {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                )
            )  # fmt: skip
        return obj

    def _put(self) -> Step:
        random = self._random
        obj = self._object(self._name, random.choice((0, 1, 1, 2)))
        if isinstance(obj.get("metadata"), dict):
            version = random.choices((LAST, "", "1", "x"), (0.7, 0.2, 0.06, 0.04))[0]
            obj["metadata"] |= {"resourceVersion": version} if version else {}
            obj["metadata"] |= random.choice(
                ({}, {}, {}, {"annotations": {"p": "q"}}, {"uid": "u"}, {"finalizers": []})
            )
        return Step("PUT", self._with_query(self._place + self._below()), obj)

    def _apply(self) -> Step:
        random = self._random
        obj = self._object(self._name, random.choice((0, 0, 1)))
        kept = patches.part(random, {key: obj[key] for key in self._seed if key in obj}, strategic=False)
        head: Json = {"apiVersion": self._api_version, "kind": self._resource.kind, "metadata": {"name": self._name}}
        if random.random() < 0.4:
            head["metadata"] |= random.choice(
                ({"labels": {"x": "y"}}, {"annotations": {"a": "c"}}, {"finalizers": ["example.com/g"]})
            )
        query = random.choice(
            (
                "fieldManager=m",
                "fieldManager=m",
                "fieldManager=n",
                "fieldManager=n&force=true",
                "force=true",
                "fieldManager=m&dryRun=All",
            )
        )
        place = f"{self._place}{self._below()}?{query}"
        return Step("PATCH", place, {**head, **kept}, "application/apply-patch+yaml")

    def _merge(self) -> Step:
        obj = self._object(self._name, self._random.choice((0, 1)))
        return self._patched(patches.part(self._random, obj, strategic=False), "merge-patch+json")

    def _strategic(self) -> Step:
        obj = self._object(self._name, self._random.choice((0, 1)))
        return self._patched(patches.part(self._random, obj, strategic=True), "strategic-merge-patch+json")

    def _operations(self) -> Step:
        return self._patched(
            patches.operations(self._random, self._object(self._name, 0), self._version.schema), "json-patch+json"
        )

    def _metadata(self) -> Step:
        """Build a small patch of the metadata that most kinds accept."""
        change: Json = self._random.choice(
            (
                {"labels": {"x": "z"}}, {"annotations": {"a": None, "n": "1"}}, {"finalizers": None}, {"finalizers": ["example.com/h"]},
                {"ownerReferences": None}, {"resourceVersion": LAST, "labels": {"v": "w"}}, {"resourceVersion": "1"}, {"name": "other"},
                {"managedFields": [{}]}, {"managedFields": None}, {"uid": "u"}, {"generation": 5}, {"creationTimestamp": None}, {"labels": {"-": "x"}},
            )
        )  # fmt: skip
        return self._patched({"metadata": change}, "merge-patch+json")

    def _patched(self, body: Any, kind: str) -> Step:
        return Step("PATCH", self._with_query(self._place + self._below()), body, f"application/{kind}")

    def _read(self) -> Step:
        random = self._random
        if random.random() < 0.5:
            return Step("GET", self._place, accept=random.choice(("", _TABLE, _METADATA)))
        query = [] if self._namespace else [f"labelSelector=life%3D{self._life}"]
        if self._namespace:
            query += random.choice(
                (
                    [], ["limit=1"], ["limit=1"], ["labelSelector=life"], ["labelSelector=x%3Dy"], ["labelSelector=!x"], ["labelSelector=life+in+(a,b)"],
                    ["fieldSelector=metadata.name%3Db"], ["fieldSelector=metadata.name!%3Db", "limit=1"], ["fieldSelector=spec.x%3Db"], ["limit=x"],
                    ["labelSelector=a=b=c"],
                )
            )  # fmt: skip
        query += random.choice(
            (
                [],
                [],
                [],
                ["resourceVersion=0"],
                ["resourceVersion=0", "resourceVersionMatch=Exact"],
                ["resourceVersionMatch=Exact"],
            )
        )
        if random.random() < 0.3:
            query.append(f"includeObject={random.choice(('None', 'Metadata', 'Object', 'x'))}")
            return Step("GET", f"{self._collection}?{'&'.join(query)}", accept=_TABLE)
        return Step(
            "GET", f"{self._collection}?{'&'.join(query)}", accept=random.choice(("", "", _TABLE, _METADATA_LIST))
        )

    def _end(self) -> list[Step]:
        random = self._random
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        options |= random.choice(
            (
                {}, {}, {"propagationPolicy": "Foreground"}, {"propagationPolicy": "Orphan"}, {"propagationPolicy": "Background"}, {"gracePeriodSeconds": 0},
                {"gracePeriodSeconds": 5}, {"gracePeriodSeconds": -1}, {"preconditions": {"uid": "u"}}, {"preconditions": {"resourceVersion": "1"}},
                {"preconditions": {"resourceVersion": LAST}}, {"dryRun": ["All"]}, {"dryRun": ["x"]}, {"orphanDependents": True}, {"propagationPolicy": "x"},
                {"orphanDependents": False, "propagationPolicy": "Orphan"}, {"kind": "X"},
            )
        )  # fmt: skip
        steps = []
        if self._namespace and random.random() < 0.25:
            selector = random.choice(
                ("", "?labelSelector=life", "?fieldSelector=metadata.name%3Da", "?dryRun=All", "?limit=1")
            )
            steps.append(Step("DELETE", self._collection + selector, options))
        steps.append(Step("DELETE", self._place, options if random.random() < 0.7 else None))
        if random.random() < 0.5:
            steps.append(Step("PATCH", self._place, {"metadata": {"finalizers": None}}, "application/merge-patch+json"))
        return steps

    def _below(self) -> str:
        """Return a subresource with the object's own schema, or usually ""."""
        own = [part.name for part in self._resource.subresources if part.name in ("status", "resize", "approval")]
        return f"/{self._random.choice(own)}" if own and self._random.random() < 0.25 else ""

    def _with_query(self, place: str) -> str:
        query = self._random.choice(_QUERIES)
        return f"{place}?{query}" if query else place

    _WAYS: Final = (_put, _apply, _merge, _strategic, _operations, _metadata, _read)
    _SHARES: Final = (3, 4, 2, 2, 2, 2, 2)


def sent(step: Step, last: str) -> bytes | None:
    """Return the body of a step's request, with the last answered resourceVersion."""
    return None if step.body is None else json.dumps(step.body).replace(f'"{LAST}"', json.dumps(last)).encode()
