"""Lease of coordination.k8s.io/v1, and LeaseCandidate of earlier versions."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import INT32, MICRO_TIME, STRING, Struct, field, string
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

CoordinatedLeaseStrategy = string("v1.CoordinatedLeaseStrategy")

LeaseSpec = Struct("io.k8s.api.coordination.v1.LeaseSpec", lambda: (
    field("holderIdentity", 1, STRING, pointer=True, doc="Identity of the holder; empty if the lease is not held."),
    field("leaseDurationSeconds", 2, INT32, pointer=True, limits=Limits(least=1, words="must be greater than 0"),
        doc="Seconds after renewTime at which other instances may acquire the lease."),
    field("acquireTime", 3, MICRO_TIME, pointer=True, doc="Time at which the current holder acquired the lease."),
    field("renewTime", 4, MICRO_TIME, pointer=True, doc="Time of the last renewal."),
    field("leaseTransitions", 5, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of changes of the holder."),
    field("strategy", 6, CoordinatedLeaseStrategy, pointer=True, gate=gated("CoordinatedLeaderElection", "place"),
        doc="Strategy for choosing the leader, such as OldestEmulationVersion; only for coordinated leader election."),
    field("preferredHolder", 7, STRING, pointer=True, gate=gated("CoordinatedLeaderElection", "place"),
        doc="Preferred holder, for whom the current holder steps back; only with strategy."),
), doc="LeaseSpec has the holder of a lease and its duration.")
Lease = Struct("io.k8s.api.coordination.v1.Lease", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, LeaseSpec, omit=False, doc="Holder and duration."),
), gvk=("coordination.k8s.io", "v1", "Lease"),
    doc="Lease is held by one of several instances of a program, which renews it while it runs.")

LeaseList = list_of(Lease)


class CandidateTypes:
    """LeaseCandidate in one version; all versions have the same fields."""

    def __init__(self, version: str) -> None:
        prefix = f"io.k8s.api.coordination.{version}."
        self.LeaseCandidateSpec = Struct(prefix + "LeaseCandidateSpec", lambda: (
            field("leaseName", 1, STRING, omit=False, required=True, limits=Limits(immutable=FIXED),
                doc="Name of the lease; fixed."),
            field("pingTime", 2, MICRO_TIME, pointer=True,
                doc="Time of the last ping by the server."),
            field("renewTime", 3, MICRO_TIME, pointer=True, doc="Time of the last renewal by the candidate."),
            field("binaryVersion", 4, STRING, omit=False, required=True,
                doc="Version of the candidate's program, without a v, such as 1.36.0."),
            field("emulationVersion", 5, STRING,
                doc="Version that the program emulates; required for the strategy OldestEmulationVersion."),
            field("strategy", 6, CoordinatedLeaseStrategy, omit=False, required=True,
                doc="Strategy for choosing the leader, such as OldestEmulationVersion."),
        ), doc="LeaseCandidateSpec has the lease and the versions of a candidate.")
        self.LeaseCandidate = Struct(prefix + "LeaseCandidate", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.LeaseCandidateSpec, omit=False, required=True, doc="Lease and versions."),
        ), gvk=("coordination.k8s.io", version, "LeaseCandidate"),
            doc="LeaseCandidate is an instance that can become the holder of a lease.")
        self.LeaseCandidateList = list_of(self.LeaseCandidate)


CANDIDATES_V1BETA1 = CandidateTypes("v1beta1")
CANDIDATES_V1ALPHA2 = CandidateTypes("v1alpha2")
