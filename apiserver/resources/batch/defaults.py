"""Fill in the defaults of batch/v1. Facts: pkg/apis/batch/v1/defaults.go."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apiserver.api.objects import Json
from apiserver.resources.pods.template import default_template, template_to_hub

__all__ = ["cron_job_to_hub", "default_cron_job", "default_job", "job_to_hub"]


_MAX_INT32: Final = 2147483647
_BACKOFF_LIMIT: Final = 6


def default_job(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    default_template(spec["template"])
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _BACKOFF_LIMIT if spec.get("backoffLimitPerIndex") is None else _MAX_INT32)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not obj["metadata"].get("labels"):
        # Share the dict on purpose: labels generated for the pods also become labels of the Job.
        obj["metadata"]["labels"] = labels
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed")
    spec.setdefault("manualSelector", False)


def job_to_hub(obj: Json) -> Json:
    template_to_hub(obj["spec"]["template"])
    return obj


def default_cron_job(obj: Json, now: datetime) -> None:
    default_template(obj["spec"]["jobTemplate"]["spec"]["template"])


def cron_job_to_hub(obj: Json) -> Json:
    template_to_hub(obj["spec"]["jobTemplate"]["spec"]["template"])
    return obj
