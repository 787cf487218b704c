"""Job and CronJob of batch/v1."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import BOOL, INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, Immutable, Limits
from apiserver.api.schema.markers import OMITTED, Invalid, Union, equals, knows
from apiserver.api.types.core.pods import ConditionStatus, PodConditionType, PodTemplateSpec
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, UID, LabelSelector, ObjectMeta, list_of

CompletionMode = string("v1.CompletionMode", "Indexed", "NonIndexed")
PodFailurePolicyAction = string("v1.PodFailurePolicyAction", "Count", "FailIndex", "FailJob", "Ignore")
PodFailurePolicyOnExitCodesOperator = string("v1.PodFailurePolicyOnExitCodesOperator", "In", "NotIn")
PodReplacementPolicy = string("v1.PodReplacementPolicy", "Failed", "TerminatingOrFailed")
JobConditionType = string("v1.JobConditionType")
ConcurrencyPolicy = string("v1.ConcurrencyPolicy", "Allow", "Forbid", "Replace")
_STATUSES = ("False", "True", "Unknown")
_NOT_PER_INDEX = "requires the backoffLimitPerIndex to be set"
_NO_CONDITION = "specifying one of OnExitCodes and OnPodConditions is required"
_TWO_CONDITIONS = "specifying both OnExitCodes and OnPodConditions is not supported"


def _one_of(*values: str) -> str:
    """Return the error text for a missing value."""
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"



PodFailurePolicyOnExitCodesRequirement = Struct("io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement", lambda: (
    field("containerName", 1, STRING, pointer=True,
        doc="Container whose exit code is compared; any container of the pod when not set."),
    field("operator", 2, PodFailurePolicyOnExitCodesOperator, omit=False, required=True,
        limits=Limits(required=_one_of("In", "NotIn")),
        doc="In when one of the values matches, NotIn when none does."),
    field("values", 3, ListOf(INT32, "set"), omit=False, required=True, limits=Limits(items=255, all_items=True),
        doc="Exit codes in ascending order, 1 to 255 of them; 0 is not allowed with In."),
), doc="PodFailurePolicyOnExitCodesRequirement is a condition on the exit codes of containers.")
PodFailurePolicyOnPodConditionsPattern = Struct("io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", lambda: (
    field("type", 1, PodConditionType, omit=False, required=True, limits=Limits(format="label-key"),
        doc="Type of the pod's condition, such as DisruptionTarget."),
    field("status", 2, ConditionStatus, omit=False, fills="True",
        limits=Limits(required=_one_of(*_STATUSES), values=_STATUSES),
        doc="Status that it must have: True, False or Unknown; True when not set."),
), doc="PodFailurePolicyOnPodConditionsPattern is a condition on a pod's status.")
PodFailurePolicyRule = Struct("io.k8s.api.batch.v1.PodFailurePolicyRule", lambda: (
    field("action", 1, PodFailurePolicyAction, omit=False, required=True,
        limits=Limits(required=_one_of(*PodFailurePolicyAction.enum)),
        doc="FailJob, FailIndex, Ignore (the pod is replaced and not counted) or Count (as without a policy)."),
    field("onExitCodes", 2, PodFailurePolicyOnExitCodesRequirement, pointer=True, doc="Condition on exit codes."),
    field("onPodConditions", 3, ListOf(PodFailurePolicyOnPodConditionsPattern),
        limits=Limits(items=20, all_items=True),
        doc="Conditions of the pod, any of which is enough; at most 20."),
), doc="PodFailurePolicyRule defines the effect of a failed pod on its job; exactly one of the two conditions is set.",
    rules=(
    "action",
    Invalid("action", _NOT_PER_INDEX, when=(equals("action", "FailIndex"), knows(lambda env: not env.per_index))),
    "onExitCodes",
    "onPodConditions",
    Union(("onExitCodes", "onPodConditions"), none=Invalid("", _NO_CONDITION, shown=OMITTED),
        many=Invalid("", _TWO_CONDITIONS, shown=OMITTED)),
))
PodFailurePolicy = Struct("io.k8s.api.batch.v1.PodFailurePolicy", lambda: (
    field("rules", 1, ListOf(PodFailurePolicyRule), omit=False, required=True,
        limits=Limits(items=20, all_items=True),
        doc="Rules, at most 20; the first one that matches counts, and if none does the failure is counted as usual."),
), doc="PodFailurePolicy defines the effects of failed pods on their job.")
SuccessPolicyRule = Struct("io.k8s.api.batch.v1.SuccessPolicyRule", lambda: (
    field("succeededIndexes", 1, STRING, pointer=True, limits=Limits(length=64 * 1024),
        doc="Indexes that must have succeeded, such as 0,2-4."),
    field("succeededCount", 2, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of indexes that must have succeeded, of succeededIndexes if they are set, else of all."),
), doc="SuccessPolicyRule is a condition for the early success of a job; with both fields set both must hold.")
SuccessPolicy = Struct("io.k8s.api.batch.v1.SuccessPolicy", lambda: (
    field("rules", 1, ListOf(SuccessPolicyRule), omit=False, required=True,
        limits=Limits(required="at least one rules must be specified when the successPolicy is specified", items=20,
            all_items=True),
        doc="Rules, at most 20; the first one that holds makes the job succeed."),
), doc="SuccessPolicy has the conditions for the success of a job before all its indexes have succeeded.")
JobSpec = Struct("io.k8s.api.batch.v1.JobSpec", lambda: (
    field("parallelism", 1, INT32, pointer=True, limits=Limits(least=0),
        doc="How many pods may run together; 1 when not set."),
    field("completions", 2, INT32, pointer=True, limits=Limits(least=0),
        doc="How many pods must succeed; when not set, the success of any pod ends the job."),
    field("activeDeadlineSeconds", 3, INT64, pointer=True, limits=Limits(least=0),
        doc="Seconds after its start at which the job fails; no limit when not set."),
    field("podFailurePolicy", 11, PodFailurePolicy, pointer=True, limits=Limits(immutable=FIXED),
        doc="Effects of failed pods on the job; needs restartPolicy Never. Each failure counts when not set."),
    field("successPolicy", 16, SuccessPolicy, pointer=True, limits=Limits(immutable=FIXED),
        doc="Conditions for success before all indexes have succeeded; only for completionMode Indexed."),
    field("backoffLimit", 7, INT32, pointer=True, limits=Limits(least=0),
        doc="How many failures of pods are retried before the job fails; 6 when not set, and no limit with "
            "backoffLimitPerIndex."),
    field("backoffLimitPerIndex", 12, INT32, pointer=True, limits=Limits(immutable=FIXED, least=0),
        doc="How many failures of an index are retried before it fails; only for completionMode Indexed with "
            "restartPolicy Never."),
    field("maxFailedIndexes", 13, INT32, pointer=True, limits=Limits(least=0),
        doc="How many indexes may fail before the job fails; all may when not set. Needs backoffLimitPerIndex."),
    field("selector", 4, LabelSelector, pointer=True, limits=Limits(immutable=FIXED),
        doc="Labels of the job's pods; set by the server unless manualSelector is true."),
    field("manualSelector", 5, BOOL, pointer=True,
        doc="True if the client chooses the selector and the labels of the pods; false when not set."),
    field("template", 6, PodTemplateSpec, omit=False, required=True,
        doc="Pattern of the pods; restartPolicy must be Never or OnFailure."),
    field("ttlSecondsAfterFinished", 8, INT32, pointer=True, limits=Limits(least=0),
        doc="Seconds after its end at which the job is deleted; it is kept when not set."),
    field("completionMode", 9, CompletionMode, pointer=True,
        limits=Limits(values=("NonIndexed", "Indexed"), immutable=FIXED),
        doc="NonIndexed (the default) counts pods that succeed, Indexed gives each pod a number and needs one success "
            "of each."),
    field("suspend", 10, BOOL, pointer=True,
        doc="True to stop the job: its pods are deleted, and its time begins again when it is resumed; false when not "
            "set."),
    field("podReplacementPolicy", 14, PodReplacementPolicy, pointer=True,
        gate=gated("JobPodReplacementPolicy", "place"),
        doc="When a failing pod is replaced: TerminatingOrFailed (the default) or Failed, which is the only one with a "
            "podFailurePolicy."),
    field("managedBy", 15, STRING, pointer=True, gate=gated("JobManagedBy", "create"), limits=Limits(immutable=FIXED),
        doc="Controller that runs the job, as example.com/name; the built-in one when not set. Fixed."),
), doc="JobSpec describes the pods of a job and the number that must succeed.")
UncountedTerminatedPods = Struct("io.k8s.api.batch.v1.UncountedTerminatedPods", lambda: (
    field("succeeded", 1, ListOf(UID, "set"), doc="UIDs of pods that succeeded."),
    field("failed", 2, ListOf(UID, "set"), doc="UIDs of pods that failed."),
), doc="UncountedTerminatedPods lists ended pods that the counters do not have yet.")
JobCondition = Struct("io.k8s.api.batch.v1.JobCondition", lambda: (
    field("type", 1, JobConditionType, omit=False, required=True,
        doc="Aspect: Complete, Failed, Suspended, SuccessCriteriaMet or FailureTarget."),
    field("status", 2, ConditionStatus, omit=False, required=True, doc="True, False or Unknown."),
    field("lastProbeTime", 3, TIME, omit=False, doc="Time of the last check of the condition."),
    field("lastTransitionTime", 4, TIME, omit=False, doc="Time of the last change of status."),
    field("reason", 5, STRING, doc="Reason for the status as one CamelCase word, for programs."),
    field("message", 6, STRING, doc="Reason for the status as text, for people."),
), doc="JobCondition is one aspect of a Job's state.")
JobStatus = Struct("io.k8s.api.batch.v1.JobStatus", lambda: (
    field("conditions", 1, ListOf(JobCondition, merge_key="type"), doc="Latest conditions, at most one of each type."),
    field("startTime", 2, TIME, pointer=True, doc="When the job began to run; not set while it is suspended."),
    field("completionTime", 3, TIME, pointer=True, limits=Limits(immutable=Immutable(once=True, removable=True)),
        doc="When the job succeeded."),
    field("active", 4, INT32, limits=Limits(least=0),
        doc="Number of pods that are pending or running and not being deleted."),
    field("succeeded", 5, INT32, limits=Limits(least=0), doc="Number of pods that succeeded."),
    field("failed", 6, INT32, limits=Limits(least=0), doc="Number of pods that failed."),
    field("terminating", 11, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of pods that are being deleted and have not ended."),
    field("completedIndexes", 7, STRING, doc="Indexes that have succeeded, such as 0,2-4."),
    field("failedIndexes", 10, STRING, pointer=True,
        doc="Indexes that have failed, such as 0,2-4; only with backoffLimitPerIndex."),
    field("uncountedTerminatedPods", 8, UncountedTerminatedPods, pointer=True,
        doc="Ended pods that the counters do not have yet."),
    field("ready", 9, INT32, pointer=True, limits=Limits(least=0), doc="Number of active pods that are ready."),
), doc="JobStatus is the progress of a job.")
Job = Struct("io.k8s.api.batch.v1.Job", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, JobSpec, omit=False, doc="The pods and the number that must succeed."),
    field("status", 3, JobStatus, omit=False, doc="Progress of the job."),
), gvk=("batch", "v1", "Job"), doc="Job runs pods until enough of them have succeeded.")
JobTemplateSpec = Struct("io.k8s.api.batch.v1.JobTemplateSpec", lambda: (
    field("metadata", 1, ObjectMeta, omit=False, doc="Labels and annotations of the jobs."),
    field("spec", 2, JobSpec, omit=False, doc="Spec of the jobs."),
), doc="JobTemplateSpec is the template of jobs.")
CronJobSpec = Struct("io.k8s.api.batch.v1.CronJobSpec", lambda: (
    field("schedule", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Schedule: five fields of cron or a word such as @hourly."),
    field("timeZone", 8, STRING, pointer=True,
        doc="Name of the time zone of the schedule, such as Europe/Berlin; that of the controller when not set."),
    field("startingDeadlineSeconds", 2, INT64, pointer=True, limits=Limits(least=0),
        doc="Greatest delay of a job in seconds before it counts as missed; no limit when not set."),
    field("concurrencyPolicy", 3, ConcurrencyPolicy, fills="Allow", limits=Limits(required=True),
        doc="Action if the previous job still runs: Allow (the default) runs both, Forbid skips, Replace deletes the "
            "running job."),
    field("suspend", 4, BOOL, pointer=True, fills=False,
        doc="True to create no further jobs; running jobs are not affected. False when not set."),
    field("jobTemplate", 5, JobTemplateSpec, omit=False, required=True,
        ungated=("JobManagedBy", "JobPodReplacementPolicy"),
        doc="Pattern of the jobs."),
    field("successfulJobsHistoryLimit", 6, INT32, pointer=True, fills=3, limits=Limits(least=0),
        doc="How many successful jobs are kept; 3 when not set."),
    field("failedJobsHistoryLimit", 7, INT32, pointer=True, fills=1, limits=Limits(least=0),
        doc="How many failed jobs are kept; 1 when not set."),
), doc="CronJobSpec has a schedule and the template of its jobs.")
CronJobStatus = Struct("io.k8s.api.batch.v1.CronJobStatus", lambda: (
    field("active", 1, ListOf(ObjectReference), doc="Jobs that are running."),
    field("lastScheduleTime", 4, TIME, pointer=True, doc="Time of the last created job."),
    field("lastSuccessfulTime", 5, TIME, pointer=True, doc="Time of the last success."),
), doc="CronJobStatus lists the running jobs of a schedule and its last times.")
CronJob = Struct("io.k8s.api.batch.v1.CronJob", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, CronJobSpec, omit=False, required=True, doc="Schedule and template."),
    field("status", 3, CronJobStatus, omit=False, doc="Running jobs and last times."),
), gvk=("batch", "v1", "CronJob"), doc="CronJob creates jobs on a schedule.")


JobList = list_of(Job)
CronJobList = list_of(CronJob)
