"""Writer of generated lives: steps of requests, the same for the same seed.

What has no namespace has the life's number at the end of its name.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from apiserver.api.objects import Json
from controllers.runtime.kinds import Kind

Verb = Literal["create", "patch", "status", "approval", "delete"]
LABELS = {"app": "x"}
CUSTOM_RESOURCES = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")


@dataclass(frozen=True, slots=True)
class Act:
    """A request. `body` is the object, a merge patch, or the options of a deletion."""

    verb: Verb
    kind: Kind
    name: str
    body: Json = field(default_factory=dict)
    namespace: str = ""

    def __str__(self) -> str:
        body = (
            {**self.body, "spec": {**self.body["spec"], "request": "…"}}
            if "request" in self.body.get("spec", ())
            else self.body
        )
        return f"{self.verb} {self.kind.kind} {self.name} {body}"


class Writer:
    """Puts a life together."""

    def __init__(self, choice: random.Random, number: int) -> None:
        self.choice, self.number, self.namespace = choice, number, f"n{number}"
        self.steps: list[list[Act]] = [[]]

    def named(self, kind: Kind, name: str) -> str:
        return name if kind.namespaced else f"{name}-l{self.number}"

    def act(self, verb: Verb, kind: Kind, name: str, body: Json | None = None, namespace: str = "") -> None:
        own = namespace or (self.namespace if kind.namespaced else "")
        self.steps[-1].append(Act(verb, kind, self.named(kind, name), body or {}, own))

    def create(self, kind: Kind, name: str, body: Json | None = None, **metadata: Any) -> None:
        metadata = {key: value for key, value in metadata.items() if value is not None}
        self.act("create", kind, name, {**(body or {}), "metadata": {"name": self.named(kind, name), **metadata}})

    def step(self) -> None:
        self.steps.append([])

    def maybe(self, chance: float) -> bool:
        return self.choice.random() < chance


def container(**more: Any) -> Json:
    return {"name": "c", "image": "i", **more}


def template(annotations: Json | None = None, **more: Any) -> Json:
    return {"metadata": {"labels": LABELS, "annotations": annotations or {}},
            "spec": {"containers": [container(**more)]}}  # fmt: skip
