"""The template of pods in other kinds: the same defaults, gates, rules and warnings as a pod's own.

Facts: pkg/apis/core/validation (ValidatePodTemplateSpec), pkg/api/pod (DropDisabledTemplateFields,
GetWarningsForPodTemplate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver.api.fielderrors import FieldError, Path, forbidden
from apiserver.resources.metadata import validate_annotations, validate_labels
from apiserver.resources.pods.defaults import default_pod_spec, spec_to_hub
from apiserver.resources.pods.dropping import drop_from_spec

if TYPE_CHECKING:
    from apiserver.registry.context import Context

__all__ = ["default_template", "drop_from_template", "template_to_hub", "template_warnings", "validate_template"]

Json = dict[str, Any]


def default_template(template: Json) -> None:
    """Defaults in place. Unlike a pod's own, requests are not taken from limits: that is done when the pod is made."""
    default_pod_spec(template["spec"])


def template_to_hub(template: Json) -> None:
    """The stored form, in place."""
    spec_to_hub(template["spec"])


def drop_from_template(ctx: Context, template: Json, old: Json | None, at: str = "spec.template") -> None:
    """Takes what disabled gates forbid, in place; `old` is the stored template, `at` the path of the new one."""
    drop_from_spec(ctx, template["spec"], None if old is None else old["spec"], f"{at}.spec")


def validate_template(path: Path, template: Json) -> list[FieldError]:
    """Labels and annotations stand directly below the template in the paths of errors, as upstream has them."""
    from apiserver.resources.pods.validation import validate_pod_annotations, validate_pod_spec

    metadata, spec = template["metadata"], template["spec"]
    annotations = metadata.get("annotations") or {}
    errors = validate_labels(metadata.get("labels") or {}, path / "labels")
    errors += validate_annotations(annotations, path / "annotations")
    errors += validate_pod_annotations(annotations, spec, path / "annotations")
    errors += validate_pod_spec(spec, {}, path / "spec")
    if spec.get("ephemeralContainers"):
        errors.append(
            forbidden(path / "spec" / "ephemeralContainers", "ephemeral containers not allowed in pod template")
        )
    return errors


def template_warnings(path: Path, template: Json) -> list[str]:
    from apiserver.resources.pods.warnings import pod_warnings

    return pod_warnings(template, path)
