"""Validate the status of a Job.

Facts: pkg/apis/batch/validation, ValidateJobUpdateStatus; pkg/registry/batch/job, getStatusValidationOptions.

External controllers may manage Jobs (gate JobManagedBy), so a status must be consistent, and a finished Job stays
finished. Most rules apply only to changed fields, so that a status that was invalid before can still be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import OMITTED, FieldError, Path, duplicate, invalid, required
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.batch import JobStatus, UncountedTerminatedPods
from apiserver.api.validation.changes import changes
from apiserver.api.validation.internal_values import internal
from apiserver.resources.batch.conditions import has_status, is_finished, is_true
from apiserver.resources.batch.indexes import IndexesError, count_indexes, overlap
from apiserver.resources.batch.jobvalidation import INDEXED
from apiserver.resources.common.core_rules import RULES

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["validate_job_status_update"]


_CHANGES: Final = changes(JobStatus)
_STATUS: Final = Path("status")
_CONDITIONS: Final = _STATUS / "conditions"
_KINDS: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")


class _Change:
    """The changes of a status update: fields by name, conditions by type, and `finished`."""

    def __init__(self, obj: Json, old: Json) -> None:
        self.spec: Json = obj["spec"]
        self.new: Json = obj.get("status") or {}
        self.old: Json = old.get("status") or {}
        self.indexed = self.spec.get("completionMode") == INDEXED
        self.finished = is_finished(self.new)
        self.changed = {kind for kind in _KINDS if is_true(self.new, kind) != is_true(self.old, kind)}
        if self.finished != is_finished(self.old):
            self.changed.add("finished")
        for field in ("active", "completedIndexes"):
            if (self.new.get(field) or None) != (self.old.get(field) or None):
                self.changed.add(field)
        for field in ("failedIndexes", "startTime", "completionTime", "ready", "terminating"):
            if self.new.get(field) != self.old.get(field):
                self.changed.add(field)
        uncounted = "uncountedTerminatedPods"
        if not _same_uncounted(self.new.get(uncounted), self.old.get(uncounted)):
            self.changed.add(uncounted)

    def any(self, *names: str) -> bool:
        return not self.changed.isdisjoint(names)

    def now(self, kind: str) -> bool:
        """Return whether the new status has the condition."""
        return is_true(self.new, kind)


def _same_uncounted(new: Json | None, old: Json | None) -> bool:
    return semantic_equal(UncountedTerminatedPods, new, old)


def validate_job_status_update(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    change = _Change(obj, old)
    errors = _counters(change.new)
    managed = ctx.features.enabled("JobManagedBy")
    if managed:
        errors += _conditions(change) + _times(change) + _end(change) + _finished(change) + _indexes(change)
    extended = managed or ctx.features.enabled("JobPodReplacementPolicy") or is_true(change.old, "SuccessCriteriaMet")
    errors += _success(change, extended)
    if managed:
        errors += _transitions(change)
    if is_true(change.old, "SuccessCriteriaMet") and not change.now("SuccessCriteriaMet"):
        errors.append(invalid(_CONDITIONS, OMITTED, "cannot disable the SuccessCriteriaMet=True condition"))
    if (
        is_true(change.old, "Complete")
        and not is_true(change.old, "SuccessCriteriaMet")
        and change.now("SuccessCriteriaMet")
    ):
        errors.append(
            invalid(
                _CONDITIONS, OMITTED, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
            )
        )
    return errors


def _counters(status: Json) -> list[FieldError]:
    errors = RULES.of(JobStatus).at(_STATUS, status).fields("active", "succeeded", "failed", "ready", "terminating")
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate((status.get("uncountedTerminatedPods") or {}).get(field) or ()):
            at = (_STATUS / "uncountedTerminatedPods" / field)[index]
            if not uid:
                errors.append(invalid(at, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(at, uid))
            seen.add(uid)
    return errors


def _conditions(change: _Change) -> list[FieldError]:
    """Reject Complete together with Failed or FailureTarget."""
    errors: list[FieldError] = []
    if change.any("Complete", "Failed") and change.now("Complete") and change.now("Failed"):
        errors.append(invalid(_CONDITIONS, OMITTED, "cannot set Complete=True and Failed=true conditions"))
    if change.any("Complete", "FailureTarget") and change.now("Complete") and change.now("FailureTarget"):
        errors.append(invalid(_CONDITIONS, OMITTED, "cannot set Complete=True and FailureTarget=true conditions"))
    return errors


def _times(change: _Change) -> list[FieldError]:
    at, started, ended = _STATUS / "completionTime", change.new.get("startTime"), change.new.get("completionTime")
    errors: list[FieldError] = []
    if change.any("Complete", "completionTime"):
        if ended is not None and not change.now("Complete"):
            errors.append(invalid(at, ended, "cannot set completionTime when there is no Complete=True condition"))
        if ended is None and change.now("Complete"):
            errors.append(required(at, "completionTime is required for Complete jobs"))
    if change.any("startTime", "completionTime") and started is not None and ended is not None and ended < started:
        errors.append(invalid(at, ended, "must be equal to or after `startTime`"))
    return errors


def _end(change: _Change) -> list[FieldError]:
    """Require the announcing condition before a Job is Complete or Failed."""
    errors: list[FieldError] = []
    if change.any("Failed", "failedIndexes") and change.now("Failed") and not change.now("FailureTarget"):
        errors.append(
            invalid(_CONDITIONS, OMITTED, "cannot set Failed=True condition without the FailureTarget=true condition")
        )
    if change.any("Complete", "SuccessCriteriaMet") and change.now("Complete") and not change.now("SuccessCriteriaMet"):
        errors.append(
            invalid(
                _CONDITIONS, OMITTED, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
            )
        )
    return errors


def _finished(change: _Change) -> list[FieldError]:
    if not change.finished:
        return []
    status, uncounted = change.new, change.new.get("uncountedTerminatedPods")
    errors: list[FieldError] = []
    if change.any("finished", "active") and status.get("active", 0) > 0:
        errors.append(invalid(_STATUS / "active", status["active"], "active>0 is invalid for finished job"))
    asleep = change.spec.get("suspend") is True and change.spec.get("completions") == 0
    if change.any("finished", "startTime") and not asleep and status.get("startTime") is None:
        errors.append(required(_STATUS / "startTime", "startTime is required for finished job"))
    if (
        change.any("finished", "uncountedTerminatedPods")
        and uncounted
        and (uncounted.get("succeeded") or uncounted.get("failed"))
    ):
        shown = internal(UncountedTerminatedPods, uncounted)
        errors.append(invalid(_STATUS / "uncountedTerminatedPods", shown, "must be empty for finished job"))
    return errors


def _indexes(change: _Change) -> list[FieldError]:
    status, completions, per_index = change.new, change.spec.get("completions"), change.spec.get("backoffLimitPerIndex")
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    errors: list[FieldError] = []
    if change.any("completedIndexes") and completions is not None:
        errors += _format("completedIndexes", done, completions)
    if change.any("failedIndexes") and completions is not None and per_index is not None and failed is not None:
        errors += _format("failedIndexes", failed, completions)
    if change.any("completedIndexes") and done and not change.indexed:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid(_STATUS / "completedIndexes", done, detail))
    if change.any("failedIndexes") and per_index is None and failed is not None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid(_STATUS / "failedIndexes", failed, detail))
    if change.any("failedIndexes", "completedIndexes") and completions is not None and failed is not None:
        both = overlap(done, failed, completions)
        if both is not None:
            errors.append(
                invalid(
                    _STATUS / "failedIndexes", failed, f"failedIndexes and completedIndexes overlap at index: {both}"
                )
            )
    if change.any("finished", "terminating") and change.finished and (status.get("terminating") or 0) > 0:
        errors.append(
            invalid(_STATUS / "terminating", status["terminating"], "terminating>0 is invalid for finished job")
        )
    ready = status.get("ready")
    if change.any("ready", "active") and ready is not None and ready > status.get("active", 0):
        errors.append(invalid(_STATUS / "ready", ready, "cannot set more ready pods than active"))
    return errors


def _format(field: str, text: str, completions: int) -> list[FieldError]:
    try:
        count_indexes(text, completions)
    except IndexesError as error:
        return [invalid(_STATUS / field, text, f"error parsing {field}: {error}")]
    return []


def _success(change: _Change, extended: bool) -> list[FieldError]:
    """Validate SuccessCriteriaMet on every update.

    `extended`: Jobs without a success policy may meet the criteria too.
    """
    errors: list[FieldError] = []
    met = change.now("SuccessCriteriaMet")
    if met and not extended and not change.indexed:
        errors.append(invalid(_CONDITIONS, OMITTED, "cannot set SuccessCriteriaMet to NonIndexed Job"))
    if met and change.now("Failed"):
        errors.append(invalid(_CONDITIONS, OMITTED, "cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if met and change.now("FailureTarget"):
        errors.append(
            invalid(_CONDITIONS, OMITTED, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
        )
    if met and not extended and change.spec.get("successPolicy") is None:
        errors.append(invalid(_CONDITIONS, OMITTED, "cannot set SuccessCriteriaMet=True for Job without SuccessPolicy"))
    if change.spec.get("successPolicy") is not None and not met and change.now("Complete"):
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(invalid(_CONDITIONS, OMITTED, detail))
    return errors


def _transitions(change: _Change) -> list[FieldError]:
    """Reject changes of fields that are final or only increase."""
    new, old = change.new, change.old
    errors = [
        invalid(_CONDITIONS, OMITTED, f"cannot disable the terminal {kind}=True condition")
        for kind in ("Failed", "Complete", "FailureTarget") if is_true(old, kind) and not change.now(kind)
    ]  # fmt: skip
    scaled = change.indexed and change.spec.get("completions") == change.spec.get("parallelism")
    errors += [
        invalid(_STATUS / field, new.get(field, 0), f"cannot decrease the {field} counter")
        for field in (("failed",) if scaled else ("failed", "succeeded")) if new.get(field, 0) < old.get(field, 0)
    ]  # fmt: skip
    started = new.get("startTime")
    errors += _CHANGES.errors(_STATUS, new, old)
    resuming = is_true(old, "Suspended") and has_status(new, "Suspended", "False")
    if (
        old.get("startTime") is not None
        and started != old["startTime"]
        and not resuming
        and not change.spec.get("suspend")
    ):
        errors.append(invalid(_STATUS / "startTime", started, "field is immutable for unsuspended job once set"))
    return errors
