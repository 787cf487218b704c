"""Containers of core/v1 as they are reported: states, resources, users, volumes."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.types.core.containers import RecursiveReadOnlyMode, ResourceName, Signal
from apiserver.api.types.core.resources import ResourceList, ResourceRequirements

ResourceID = string("v1.ResourceID")
ResourceHealthStatus = string("v1.ResourceHealthStatus")

ContainerStateWaiting = Struct("io.k8s.api.core.v1.ContainerStateWaiting", lambda: (
    field("reason", 1, STRING),
    field("message", 2, STRING),
))
ContainerStateRunning = Struct("io.k8s.api.core.v1.ContainerStateRunning", lambda: (
    field("startedAt", 1, TIME, omit=False),
))
ContainerStateTerminated = Struct("io.k8s.api.core.v1.ContainerStateTerminated", lambda: (
    field("exitCode", 1, INT32, omit=False, required=True),
    field("signal", 2, INT32),
    field("reason", 3, STRING),
    field("message", 4, STRING),
    field("startedAt", 5, TIME, omit=False),
    field("finishedAt", 6, TIME, omit=False),
    field("containerID", 7, STRING),
))
ContainerState = Struct("io.k8s.api.core.v1.ContainerState", lambda: (
    field("waiting", 1, ContainerStateWaiting, pointer=True),
    field("running", 2, ContainerStateRunning, pointer=True),
    field("terminated", 3, ContainerStateTerminated, pointer=True),
))
ImageVolumeStatus = Struct("io.k8s.api.core.v1.ImageVolumeStatus", lambda: (
    field("imageRef", 1, STRING, required=True),
))
VolumeStatus = Struct("io.k8s.api.core.v1.VolumeStatus", lambda: (
    field("image", 1, ImageVolumeStatus, pointer=True, gate="ImageVolumeWithDigest"),
))
VolumeMountStatus = Struct("io.k8s.api.core.v1.VolumeMountStatus", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("mountPath", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
    field("recursiveReadOnly", 4, RecursiveReadOnlyMode, pointer=True),
    field("volumeStatus", 5, VolumeStatus, pointer=True),
))
LinuxContainerUser = Struct("io.k8s.api.core.v1.LinuxContainerUser", lambda: (
    field("uid", 1, INT64, omit=False, required=True),
    field("gid", 2, INT64, omit=False, required=True),
    field("supplementalGroups", 3, ListOf(INT64)),
))
ContainerUser = Struct("io.k8s.api.core.v1.ContainerUser", lambda: (
    field("linux", 1, LinuxContainerUser, pointer=True),
))
ResourceHealth = Struct("io.k8s.api.core.v1.ResourceHealth", lambda: (
    field("resourceID", 1, ResourceID, omit=False, required=True),
    field("health", 2, ResourceHealthStatus),
    field("message", 6, STRING, pointer=True, gate="ResourceHealthStatusMessage"),
))
ResourceStatus = Struct("io.k8s.api.core.v1.ResourceStatus", lambda: (
    field("name", 1, ResourceName, omit=False, required=True),
    field("resources", 2, ListOf(ResourceHealth, "map", ("resourceID",))),
))
ContainerStatus = Struct("io.k8s.api.core.v1.ContainerStatus", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("state", 2, ContainerState, omit=False),
    field("lastState", 3, ContainerState, omit=False),
    field("ready", 4, BOOL, omit=False, required=True),
    field("restartCount", 5, INT32, omit=False, required=True),
    field("image", 6, STRING, omit=False, required=True),
    field("imageID", 7, STRING, omit=False, required=True),
    field("containerID", 8, STRING),
    field("started", 9, BOOL, pointer=True),
    field("allocatedResources", 10, ResourceList),
    field("resources", 11, ResourceRequirements, pointer=True, gate="InPlacePodVerticalScaling"),
    field("volumeMounts", 12, ListOf(VolumeMountStatus, "map", ("mountPath",), merge_key="mountPath")),
    field("user", 13, ContainerUser, pointer=True, gate="SupplementalGroupsPolicy"),
    field("allocatedResourcesStatus", 14, ListOf(ResourceStatus, "map", ("name",), merge_key="name"),
        gate="ResourceHealthStatus"),
    field("stopSignal", 15, Signal, pointer=True, gate="ContainerStopSignals"),
))
