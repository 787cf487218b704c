"""Lease of coordination.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema import INT32, MICRO_TIME, STRING, Struct, field, string
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

CoordinatedLeaseStrategy = string("v1.CoordinatedLeaseStrategy")

LeaseSpec = Struct("io.k8s.api.coordination.v1.LeaseSpec", lambda: (
    field("holderIdentity", 1, STRING, pointer=True),
    field("leaseDurationSeconds", 2, INT32, pointer=True),
    field("acquireTime", 3, MICRO_TIME, pointer=True),
    field("renewTime", 4, MICRO_TIME, pointer=True),
    field("leaseTransitions", 5, INT32, pointer=True),
    field("strategy", 6, CoordinatedLeaseStrategy, pointer=True, gate="CoordinatedLeaderElection"),
    field("preferredHolder", 7, STRING, pointer=True, gate="CoordinatedLeaderElection"),
))
Lease = Struct("io.k8s.api.coordination.v1.Lease", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, LeaseSpec, omit=False),
), gvk=("coordination.k8s.io", "v1", "Lease"))

LeaseList = list_of(Lease)
