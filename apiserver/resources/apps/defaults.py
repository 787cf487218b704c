"""Fill in the defaults of apps/v1, and convert to and from the stored form.

Facts: pkg/apis/apps/v1.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from apiserver.api.codec.codec import DecodeError
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json
from apiserver.resources.pods.defaults import default_claim_spec
from apiserver.resources.pods.template import default_template, template_to_hub

__all__ = [
    "ROLLBACK",
    "daemon_set_from_hub",
    "daemon_set_to_hub",
    "default_daemon_set",
    "default_deployment",
    "default_replica_set",
    "default_stateful_set",
    "deployment_to_hub",
    "replica_set_to_hub",
    "stateful_set_to_hub",
]


_ROLLING: Final = "RollingUpdate"
#: The number of changes of a DaemonSet's template: a former field that is still served as an annotation.
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
#: The rollback revision of a Deployment: also a former field that is still served as an annotation.
ROLLBACK: Final = "deprecated.deployment.rollback.to"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _count_from_zero(strategy: Json, *fields: str) -> None:
    """Default the counts of an unused rolling update to 0, because upstream's internal type has integers there."""
    for field in fields if strategy.get("rollingUpdate") is not None else ():
        strategy["rollingUpdate"].setdefault(field, 0)


def default_deployment(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    strategy = spec["strategy"]
    if strategy["type"] == _ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _count_from_zero(strategy, "maxUnavailable", "maxSurge")
    default_template(spec["template"])


def default_replica_set(obj: Json, now: datetime) -> None:
    default_template(obj["spec"]["template"])


def default_daemon_set(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    strategy = spec["updateStrategy"]
    if strategy["type"] == _ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    _count_from_zero(strategy, "maxUnavailable", "maxSurge")
    default_template(spec["template"])


def default_stateful_set(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == _ROLLING and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    _count_from_zero(strategy, "partition")
    default_template(spec["template"])
    for claim in spec.get("volumeClaimTemplates") or ():
        default_claim_spec(claim["spec"])


# --- the stored form
# ----------------------------------------------------------------------------------------------------------------------


def replica_set_to_hub(obj: Json) -> Json:
    template_to_hub(obj["spec"]["template"])
    return obj


def deployment_to_hub(obj: Json) -> Json:
    template_to_hub(obj["spec"]["template"])
    annotations = obj["metadata"].get("annotations") or {}
    revision = annotations.get(ROLLBACK)
    if revision == "":
        del annotations[ROLLBACK]
    elif revision is not None and not _INTEGER.fullmatch(revision):
        error = f"strconv.ParseInt: parsing {go_quote(revision)}: invalid syntax"
        raise DecodeError(f"failed to parse annotation[{ROLLBACK}]={revision} as int64: {error}")
    return obj


def daemon_set_to_hub(obj: Json) -> Json:
    """Move the template generation from the served annotation to the stored field."""
    template_to_hub(obj["spec"]["template"])
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    text = annotations.pop(_TEMPLATE_GENERATION, "0")
    if not _INTEGER.fullmatch(text):
        raise DecodeError(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    obj["spec"]["templateGeneration"] = int(text)
    if not annotations:
        metadata.pop("annotations", None)
    return obj


def daemon_set_from_hub(obj: Json) -> Json:
    obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(obj["spec"].pop("templateGeneration", 0))
    return obj


def stateful_set_to_hub(obj: Json) -> Json:
    """Set the kind of claim templates, as on claims themselves."""
    template_to_hub(obj["spec"]["template"])
    for claim in obj["spec"].get("volumeClaimTemplates") or ():
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
    return obj
