"""Define scale subresources: the desired number of replicas and the pod selector (autoscaling/v1).

Facts: pkg/apis/autoscaling/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.errors.status import bad_request
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import SelectorError, from_labels, from_object
from apiserver.api.types.autoscaling import Scale
from apiserver.registry.definition.metadata import validate_metadata
from apiserver.registry.definition.resource import Column, Projection, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE
from apiserver.resources.common.workloads import nonnegative

__all__ = ["SCALE", "SCALE_BY_LABELS", "scale_subresource", "shown_metadata"]


_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def shown_metadata(obj: Json) -> Json:
    """Return the metadata that a Scale copies from its object."""
    metadata = obj["metadata"]
    return {name: metadata[name] for name in _SHOWN if name in metadata}


def _scale(obj: Json, selector: str) -> Json:
    replicas = obj["spec"].get("replicas")
    status: Json = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    if selector:
        status["selector"] = selector
    return {
        "metadata": shown_metadata(obj),
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }  # fmt: skip


def _by_selector(obj: Json) -> Json:
    try:
        return _scale(obj, str(from_object(obj["spec"].get("selector"))))
    except SelectorError as error:
        raise bad_request(str(error)) from None


def _by_labels(obj: Json) -> Json:
    return _scale(obj, str(from_labels(obj["spec"].get("selector") or {})))


def _validate(scale: Json) -> list[FieldError]:
    errors = validate_metadata(scale["metadata"], True, "subdomain", kind_rules=True)
    return errors + nonnegative(Path("spec.replicas"), scale["spec"].get("replicas"))


#: The kind of the scale subresource's body. Nothing of it is stored.
_KIND: Final = Resource(
    group="autoscaling",
    kind="Scale",
    plural="scales",
    singular="scale",
    namespaced=True,
    versions=(Version(name="v1", schema=Scale),),
    strategy=Strategy(),
    storage_prefix="",
    verbs=(),
    columns=(
        Column(
            name="Name",
            cell=lambda obj: obj["metadata"].get("name", ""),
            description="Name of the scaled object.",
        ),
        Column(
            name="Desired",
            cell=lambda obj: obj["spec"].get("replicas", 0),
            type="integer",
            description="Desired number of pods.",
        ),
        Column(
            name="Available",
            cell=lambda obj: obj["status"].get("replicas", 0),
            type="integer",
            description="Current number of pods.",
        ),
        AGE,
    ),
)


#: The Scale of a custom resource. Its columns have formats and types of their own.
CUSTOM_SCALE: Final = replace(
    _KIND,
    columns=(replace(_KIND.columns[0], format="name"), *_KIND.columns[1:-1], replace(AGE, type="date")),
)


def scale_subresource(
    field: str,
    show: Callable[[Json], Json],
    there: Callable[[Json], None] | None = None,
    validate: Callable[[Json], list[FieldError]] = _validate,
    kind: Resource = _KIND,
) -> Subresource:
    """Build the scale subresource of a kind.

    Args:
        field: The dotted path of the number of replicas.
        show: Convert an object to a Scale.
        there: Raise if an object has no number of replicas.
        validate: Validate a changed Scale.
        kind: The resource that defines how a Scale is served.
    """
    return Subresource(
        name="scale",
        kind="Scale",
        group="autoscaling",
        version="v1",
        schema=Scale,
        projection=Projection(kind, field, show, validate, there, "spec.replicas"),
    )


#: The Scale of kinds with a label selector.
SCALE: Final = scale_subresource("spec.replicas", _by_selector)
#: The Scale of kinds that select by equal labels only (ReplicationController).
SCALE_BY_LABELS: Final = scale_subresource("spec.replicas", _by_labels)
