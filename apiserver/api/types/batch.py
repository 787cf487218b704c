"""Job and CronJob of batch/v1."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.pods import ConditionStatus, PodConditionType, PodTemplateSpec
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, UID, LabelSelector, ObjectMeta, list_of

CompletionMode = string("v1.CompletionMode", "Indexed", "NonIndexed")
PodFailurePolicyAction = string("v1.PodFailurePolicyAction", "Count", "FailIndex", "FailJob", "Ignore")
PodFailurePolicyOnExitCodesOperator = string("v1.PodFailurePolicyOnExitCodesOperator", "In", "NotIn")
PodReplacementPolicy = string("v1.PodReplacementPolicy", "Failed", "TerminatingOrFailed")
JobConditionType = string("v1.JobConditionType")
ConcurrencyPolicy = string("v1.ConcurrencyPolicy", "Allow", "Forbid", "Replace")

PodFailurePolicyOnExitCodesRequirement = Struct("io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement", lambda: (
    field("containerName", 1, STRING, pointer=True),
    field("operator", 2, PodFailurePolicyOnExitCodesOperator, omit=False, required=True),
    field("values", 3, ListOf(INT32, "set"), omit=False, required=True),
))
PodFailurePolicyOnPodConditionsPattern = Struct("io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", lambda: (
    field("type", 1, PodConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False),
))
PodFailurePolicyRule = Struct("io.k8s.api.batch.v1.PodFailurePolicyRule", lambda: (
    field("action", 1, PodFailurePolicyAction, omit=False, required=True),
    field("onExitCodes", 2, PodFailurePolicyOnExitCodesRequirement, pointer=True),
    field("onPodConditions", 3, ListOf(PodFailurePolicyOnPodConditionsPattern)),
))
PodFailurePolicy = Struct("io.k8s.api.batch.v1.PodFailurePolicy", lambda: (
    field("rules", 1, ListOf(PodFailurePolicyRule), omit=False, required=True),
))
SuccessPolicyRule = Struct("io.k8s.api.batch.v1.SuccessPolicyRule", lambda: (
    field("succeededIndexes", 1, STRING, pointer=True),
    field("succeededCount", 2, INT32, pointer=True),
))
SuccessPolicy = Struct("io.k8s.api.batch.v1.SuccessPolicy", lambda: (
    field("rules", 1, ListOf(SuccessPolicyRule), omit=False, required=True),
))
JobSpec = Struct("io.k8s.api.batch.v1.JobSpec", lambda: (
    field("parallelism", 1, INT32, pointer=True),
    field("completions", 2, INT32, pointer=True),
    field("activeDeadlineSeconds", 3, INT64, pointer=True),
    field("podFailurePolicy", 11, PodFailurePolicy, pointer=True),
    field("successPolicy", 16, SuccessPolicy, pointer=True),
    field("backoffLimit", 7, INT32, pointer=True),
    field("backoffLimitPerIndex", 12, INT32, pointer=True),
    field("maxFailedIndexes", 13, INT32, pointer=True),
    field("selector", 4, LabelSelector, pointer=True),
    field("manualSelector", 5, BOOL, pointer=True),
    field("template", 6, PodTemplateSpec, omit=False, required=True),
    field("ttlSecondsAfterFinished", 8, INT32, pointer=True),
    field("completionMode", 9, CompletionMode, pointer=True),
    field("suspend", 10, BOOL, pointer=True),
    field("podReplacementPolicy", 14, PodReplacementPolicy, pointer=True),
    field("managedBy", 15, STRING, pointer=True),
))
UncountedTerminatedPods = Struct("io.k8s.api.batch.v1.UncountedTerminatedPods", lambda: (
    field("succeeded", 1, ListOf(UID, "set")),
    field("failed", 2, ListOf(UID, "set")),
))
JobCondition = Struct("io.k8s.api.batch.v1.JobCondition", lambda: (
    field("type", 1, JobConditionType, omit=False, required=True),
    field("status", 2, ConditionStatus, omit=False, required=True),
    field("lastProbeTime", 3, TIME, omit=False),
    field("lastTransitionTime", 4, TIME, omit=False),
    field("reason", 5, STRING),
    field("message", 6, STRING),
))
JobStatus = Struct("io.k8s.api.batch.v1.JobStatus", lambda: (
    field("conditions", 1, ListOf(JobCondition, merge_key="type")),
    field("startTime", 2, TIME, pointer=True),
    field("completionTime", 3, TIME, pointer=True),
    field("active", 4, INT32),
    field("succeeded", 5, INT32),
    field("failed", 6, INT32),
    field("terminating", 11, INT32, pointer=True),
    field("completedIndexes", 7, STRING),
    field("failedIndexes", 10, STRING, pointer=True),
    field("uncountedTerminatedPods", 8, UncountedTerminatedPods, pointer=True),
    field("ready", 9, INT32, pointer=True),
))
Job = Struct("io.k8s.api.batch.v1.Job", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, JobSpec, omit=False),
    field("status", 3, JobStatus, omit=False),
), gvk=("batch", "v1", "Job"))
JobTemplateSpec = Struct("io.k8s.api.batch.v1.JobTemplateSpec", lambda: (
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, JobSpec, omit=False),
))
CronJobSpec = Struct("io.k8s.api.batch.v1.CronJobSpec", lambda: (
    field("schedule", 1, STRING, omit=False, required=True),
    field("timeZone", 8, STRING, pointer=True),
    field("startingDeadlineSeconds", 2, INT64, pointer=True),
    field("concurrencyPolicy", 3, ConcurrencyPolicy),
    field("suspend", 4, BOOL, pointer=True),
    field("jobTemplate", 5, JobTemplateSpec, omit=False, required=True),
    field("successfulJobsHistoryLimit", 6, INT32, pointer=True),
    field("failedJobsHistoryLimit", 7, INT32, pointer=True),
))
CronJobStatus = Struct("io.k8s.api.batch.v1.CronJobStatus", lambda: (
    field("active", 1, ListOf(ObjectReference)),
    field("lastScheduleTime", 4, TIME, pointer=True),
    field("lastSuccessfulTime", 5, TIME, pointer=True),
))
CronJob = Struct("io.k8s.api.batch.v1.CronJob", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, CronJobSpec, omit=False, required=True),
    field("status", 3, CronJobStatus, omit=False),
), gvk=("batch", "v1", "CronJob"))


JobList = list_of(Job)
CronJobList = list_of(CronJob)
