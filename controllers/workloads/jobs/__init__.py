"""Jobs: pods of a template until enough of them have succeeded, or too many have failed.

    component   follows Jobs and pods, and leads through one look at a Job
    look        what one look at a Job has found out: which pods count, and how the Job stands
    verdict     whether the Job has ended, and why. Pure
    manager     makes and deletes pods
    tracking    counts pods that ended, once each, and lets them go
    backoff     how long to wait before a pod that failed is replaced. Pure
    policies    pod failure policies and success policies. Pure
    indexes     completion indexes. Pure
    template    a Job's pods
    orphans     pods that no Job counts any more are let go
    metrics     what is counted for /metrics

A pod that ended has a finalizer until it has been counted. It is noted by its uid in status.uncountedTerminatedPods,
then the finalizer goes, then the uid becomes part of the number: whatever fails in between, no pod counts twice.
Facts: upstream's pkg/controller/job.
"""

from controllers.workloads.jobs.component import NAME, Jobs, build

__all__ = ["NAME", "Jobs", "build"]
