"""Apply the defaults, rules and warnings of pods to pod templates.

Facts: pkg/apis/core/validation (ValidatePodTemplateSpec), pkg/api/pod (GetWarningsForPodTemplate).
"""

from __future__ import annotations

from apiserver.api.errors.field_errors import FieldError, Path, forbidden
from apiserver.api.objects import Json
from apiserver.resources.common.template_metadata import validate_annotations, validate_labels
from apiserver.resources.pods.defaults import default_pod_spec, spec_to_hub
from apiserver.resources.pods.gates import PodGates

__all__ = ["default_template", "template_to_hub", "template_warnings", "validate_template"]


def default_template(template: Json) -> None:
    """Set the defaults in place.

    Requests do not default to limits here; that happens when a pod is created.
    """
    default_pod_spec(template["spec"])


def template_to_hub(template: Json) -> None:
    """Convert to the stored form in place."""
    spec_to_hub(template["spec"])


def validate_template(path: Path, template: Json, *, gates: PodGates) -> list[FieldError]:
    """Validate a template. `gates` is the result of `pod_gates`.

    Error paths of labels and annotations are directly below the template, as upstream's are.
    """
    from apiserver.resources.pods.validation import validate_pod_annotations, validate_pod_spec

    metadata, spec = template["metadata"], template["spec"]
    annotations = metadata.get("annotations") or {}
    errors = validate_labels(metadata.get("labels") or {}, path / "labels")
    errors += validate_annotations(annotations, path / "annotations")
    errors += validate_pod_annotations(annotations, spec, path / "annotations")
    errors += validate_pod_spec(spec, {}, path / "spec", gates=gates)
    if spec.get("ephemeralContainers"):
        errors.append(
            forbidden(path / "spec" / "ephemeralContainers", "ephemeral containers not allowed in pod template")
        )
    return errors


def template_warnings(path: Path, template: Json) -> list[str]:
    from apiserver.resources.pods.warnings import pod_warnings

    return pod_warnings(template, path)
