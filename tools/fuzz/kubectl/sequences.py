"""Generate sequences of kubectl commands, each in a namespace of its own.

A sequence depends only on the seed and its number: two control planes can receive the same commands. Each works with a
few objects of a few kinds, most of them related, so that commands meet objects in many states.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource, Version
from tools.fuzz.fields import set_field
from tools.fuzz.pairs import draw_field
from tools.fuzz.requests import Requests

#: Groups and kinds that affect other sequences.
_APART: Final = frozenset(
    (
        "apiregistration.k8s.io/apiservices", "flowcontrol.apiserver.k8s.io/flowschemas", "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        "networking.k8s.io/servicecidrs", "networking.k8s.io/ipaddresses", "/namespaces", "/events", "events.k8s.io/events",
        "authentication.k8s.io/tokenreviews", "authentication.k8s.io/selfsubjectreviews", "authorization.k8s.io/selfsubjectrulesreviews",
        "authorization.k8s.io/subjectaccessreviews", "authorization.k8s.io/selfsubjectaccessreviews", "authorization.k8s.io/localsubjectaccessreviews",
        "coordination.k8s.io/leasecandidates", "certificates.k8s.io/certificatesigningrequests", "/bindings", "/componentstatuses",
    )
)  # fmt: skip
#: Kinds whose objects controllers work on, drawn more often.
_WORKLOADS: Final = (
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "replicationcontrollers",
    "jobs",
    "cronjobs",
)
_OFTEN: Final = frozenset(
    (*_WORKLOADS, "pods", "services", "configmaps", "secrets", "resourceclaims", "resourceclaimtemplates", "persistentvolumeclaims", "poddisruptionbudgets", "serviceaccounts")
)  # fmt: skip
#: Kinds that controllers work on.
_WORKED_ON: Final = frozenset(
    (*_WORKLOADS, "pods", "services", "endpoints", "persistentvolumeclaims", "persistentvolumes", "poddisruptionbudgets", "horizontalpodautoscalers", "resourcequotas")
)  # fmt: skip
_NAMES: Final = ("a", "b", "c")
_LABEL: Final = "seq"


@dataclass(frozen=True, slots=True)
class Command:
    """A kubectl command; `files` are written before it.

    `reads`: it changes nothing, so that it may be repeated until both planes have come to the same state.
    """

    arguments: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    reads: bool = False

    def __str__(self) -> str:
        return "kubectl " + " ".join(each if each and " " not in each else repr(each) for each in self.arguments)


@dataclass(frozen=True, slots=True)
class Sequence:
    """The commands of a namespace. `kinds` are those of its objects; `live`: controllers may act on them."""

    number: int
    namespace: str
    commands: tuple[Command, ...]
    kinds: tuple[Resource, ...]
    live: bool


@dataclass(slots=True)
class Made:
    """An object that a sequence created, or wanted to."""

    resource: Resource
    version: Version
    name: str
    body: Json

    @property
    def kind(self) -> str:
        """Return the kind as an argument: the plural with its group where another group has the same plural."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural


class Writer:
    """A builder of one sequence."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = Random(f"{seed}/{number}")
        self.number, self.namespace = number, f"s{number}"
        self.made: list[Made] = []
        self.files = 0
        self.live = False
        targets = [
            (resource, version, obj)
            for resource, version, obj in Requests(1).targets
            if obj is not None and f"{resource.group}/{resource.plural}" not in _APART and version.on_by_default
        ]
        weights = [6 if resource.plural in _OFTEN else 1 for resource, _, _ in targets]
        self.targets = self.random.choices(targets, weights, k=4)

    # --- objects

    def new_object(self) -> Made:
        """Build an object: a seed with labels, sometimes with one field changed."""
        resource, version, seed = self.random.choice(self.targets)
        name = self.random.choice(_NAMES)
        if not resource.namespaced:
            name = f"{name}-{self.namespace}"
        head = {"apiVersion": api_version(resource, version), "kind": resource.kind}
        labels = {"app": name, _LABEL: self.namespace}
        body: Json = {**head, "metadata": {"name": name, "labels": labels}, **deepcopy(seed)}
        self._adapt(resource, body)
        if self.random.random() < 0.45:
            self.vary(version, body)
        return Made(resource, version, name, body)

    def vary(self, version: Version, body: Json) -> None:
        """Set one random field to one of its values."""
        drawn = draw_field(self.random, version.schema)
        set_field(body, version.schema, list(drawn.path), self.random.choice(drawn.values))

    def _adapt(self, resource: Resource, body: Json) -> None:
        """Keep an object from affecting other sequences."""
        if resource.plural == "daemonsets":
            body["spec"]["template"]["spec"]["nodeSelector"] = {_LABEL: self.namespace}
        if resource.plural == "persistentvolumes":
            body["spec"]["storageClassName"] = self.namespace
        if resource.plural == "persistentvolumeclaims" and self.random.random() < 0.7:
            body["spec"]["storageClassName"] = self.namespace
        if resource.plural == "services" and self.random.random() < 0.6:
            body["spec"].pop("clusterIP", None)
        if resource.plural == "horizontalpodautoscalers":
            body["spec"]["scaleTargetRef"]["name"] = self.random.choice(_NAMES)
        if resource.plural == "resourceslices":
            body["spec"]["pool"]["name"] = body["spec"]["nodeName"] = self.namespace

    def any_object(self) -> Made:
        """Return an object that exists, with good fortune; rarely one that was never created."""
        if not self.made or self.random.random() < 0.06:
            return self.new_object()
        return self.random.choice(self.made[-6:])

    def file(self, *bodies: Json) -> tuple[str, dict[str, str]]:
        """Return the name and the content of a manifest."""
        self.files += 1
        name = f"{self.namespace}-{self.files}.yaml"
        return name, {name: "\n---\n".join(json.dumps(body) for body in bodies)}

    def command(self, *arguments: str, files: dict[str, str] | None = None, reads: bool = False) -> Command:
        return Command((*arguments, "-n", self.namespace), files or {}, reads)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)


def api_version(resource: Resource, version: Version) -> str:
    return f"{resource.group}/{version.name}" if resource.group else version.name


def sequences(seed: int, length: int, first: int = 0) -> Iterator[Sequence]:
    """Yield sequences of a seed without end, each with `length` commands."""
    from tools.fuzz.kubectl.verbs import VERBS

    number = first
    while True:
        writer = Writer(seed, number)
        commands: list[Command] = []
        while len(commands) < length:
            early = not writer.made or (len(writer.made) < 3 and writer.chance(0.5))
            verb = VERBS[0][0] if early else writer.random.choices(*VERBS)[0]
            commands += verb(writer)
        kinds = {f"{each.resource.group}/{each.resource.plural}": each.resource for each in writer.made}
        live = writer.live or any(kind.plural in _WORKED_ON for kind in kinds.values())
        yield Sequence(number, writer.namespace, tuple(commands), tuple(kinds.values()), live)
        number += 1
