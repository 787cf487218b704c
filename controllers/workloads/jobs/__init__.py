"""Jobs: run pods of a template until enough have succeeded or too many have failed.

    component   watches Jobs and pods; one pass over a Job
    reconcile   the state of a pass: counted pods, the Job's status
    verdict     the Job's final condition. Pure
    manager     creates and deletes pods
    tracking    counts ended pods once each, and removes their finalizers
    backoff     delay before a failed pod is replaced. Pure
    policies    pod failure policies and success policies. Pure
    indexes     completion indexes. Pure
    template    a Job's pods
    gangs       Workloads and PodGroups of Jobs
    orphans     removes the finalizers of pods without an active Job
    metrics     the controller's metrics

A pod has a finalizer until it has been counted. First its uid is added to status.uncountedTerminatedPods, then the
finalizer is removed, then the uid becomes part of the count. No pod is counted twice, whatever fails in between. Facts:
upstream's pkg/controller/job.
"""

from controllers.workloads.jobs.component import NAME, Jobs, build

__all__ = ["NAME", "Jobs", "build"]
