"""Share rules and cells of the kinds that create pods: counts, selectors, immutable fields, table cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.language import Struct, Type
from apiserver.api.schema.markers import AtMost
from apiserver.api.selectors.selectors import SelectorError, format_object, from_object
from apiserver.api.validation.compile import At
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.names import dns_label
from apiserver.registry.definition.resource import Column
from apiserver.resources.common.core_rules import RULES, validate_label_selector
from apiserver.resources.common.resource_names import NEGATIVE

__all__ = [
    "count_generation",
    "counted",
    "hostname_warnings",
    "immutable",
    "mismatch",
    "nonnegative",
    "selects_template",
    "shown_labels",
    "status_errors",
    "template_columns",
    "validate_required_selector",
]


_IMMUTABLE: Final = "field is immutable"
_HOSTNAME: Final = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is"
    " recommended: "
)


def count_generation(kind: Struct, obj: Json, old: Json) -> None:
    """Increase the generation if the spec (of type `kind`) changed."""
    if not semantic_equal(kind, obj["spec"], old["spec"]):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def hostname_warnings(obj: Json) -> list[str]:
    """Warn of a name that is no valid hostname for the pods."""
    texts = dns_label(obj["metadata"].get("name", ""))
    return [f"{_HOSTNAME}[{' '.join(texts)}]"] if texts else []


def nonnegative(path: Path, value: int | None) -> list[FieldError]:
    return [invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def counted(*parts: str, ready: str = "readyReplicas") -> tuple[AtMost, ...]:
    """Return the rules that parts are at most `replicas`, and available at most ready.

    `ready` is the name of the ready count in errors.
    """
    return (
        *(AtMost(part, "replicas", "cannot be greater than status.replicas") for part in parts),
        AtMost("availableReplicas", "readyReplicas", f"cannot be greater than {ready}"),
    )


def status_errors(kind: Struct, obj: Json, old: Json) -> list[FieldError]:
    return RULES.of(kind).errors(Path("status"), obj.get("status") or {}, old=old.get("status") or {})


def immutable(path: Path, kind: Type, new: Any, old: Any) -> list[FieldError]:
    """Reject a change of an immutable field. The error shows the new value."""
    if (new is None and old is None) or semantic_equal(kind, new, old):
        return []
    return [invalid(path, None if new is None else internal(kind, new), _IMMUTABLE)]


def shown_labels(labels: Json | None) -> Json | None:
    """Format labels as errors show them."""
    return dict(sorted(labels.items())) if labels else None


def validate_required_selector(path: Path, selector: Json | None) -> list[FieldError]:
    return [required(path)] if selector is None else validate_label_selector(path, selector)


def selects_template(path: Path, selector: Json | None, template: Json) -> list[FieldError]:
    """Require a selector that matches the labels of the template at `path`.

    An invalid selector is reported elsewhere.
    """
    try:
        if from_object(selector).matches(template["metadata"].get("labels") or {}):
            return []
    except SelectorError:
        return []
    return [_mismatch(path, template)]


def _mismatch(path: Path, template: Json) -> FieldError:
    labels = shown_labels(template["metadata"].get("labels"))
    return invalid(path / "metadata" / "labels", labels, "`selector` does not match template `labels`")


def mismatch(at: At) -> list[FieldError]:
    """Reject a template whose labels the selector does not match."""
    return [_mismatch(at.path / "template", at.value["template"])]


def template_columns(
    template: Callable[[Json], Json], selector: Callable[[Json], Json | None] | None
) -> tuple[Column, ...]:
    """Return the wide columns: container names and images of the template, and the selector."""

    def listed(field: str) -> Callable[[Json], str]:
        return lambda obj: ",".join(
            container.get(field, "") for container in template(obj)["spec"].get("containers") or ()
        )

    columns = (
        Column(name="Containers", cell=listed("name"), priority=1, description="Names of the template's containers."),
        Column(name="Images", cell=listed("image"), priority=1, description="Images of the template's containers."),
    )
    if selector is None:
        return columns
    chosen = Column(
        name="Selector",
        cell=lambda obj: format_object(selector(obj)),
        priority=1,
        description="Selector of the pods.",
    )
    return (*columns, chosen)
