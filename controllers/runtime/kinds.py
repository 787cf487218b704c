"""Kinds: group, version, plural, scope, with constants for those that the components use.

Garbage collection and namespace deletion build further kinds from discovery with the same class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from apiserver.api.objects import Json


@dataclass(frozen=True)
class Kind:
    """One served kind at one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def root(self) -> str:
        """Return `/api/v1` or `/apis/GROUP/VERSION`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @cached_property
    def collection(self) -> str:
        """Return the path of the collection over all namespaces."""
        return f"{self.root}/{self.plural}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        path = f"{self.root}/namespaces/{namespace}/{self.plural}" if self.namespaced and namespace else self.collection
        if name:
            path = f"{path}/{name}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
PODS = Kind("", "v1", "pods", "Pod")
CORE_EVENTS = Kind("", "v1", "events", "Event")
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
SECRETS = Kind("", "v1", "secrets", "Secret")
VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
VOLUME_ATTRIBUTES_CLASSES = Kind(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False
)
VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
STORAGE_CAPACITIES = Kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
SERVICES = Kind("", "v1", "services", "Service")
ENDPOINTS = Kind("", "v1", "endpoints", "Endpoints")
ENDPOINT_SLICES = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
RESOURCE_QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota")
REPLICATION_CONTROLLERS = Kind("", "v1", "replicationcontrollers", "ReplicationController")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISIONS = Kind("apps", "v1", "controllerrevisions", "ControllerRevision")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
CRON_JOBS = Kind("batch", "v1", "cronjobs", "CronJob")
JOBS = Kind("batch", "v1", "jobs", "Job")
AUTOSCALERS = Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = Kind("events.k8s.io", "v1", "events", "Event")
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
RESOURCE_CLAIMS = Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = Kind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
RESOURCE_SLICES = Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLASSES = Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_POOL_STATUS_REQUESTS = Kind(
    "resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest", namespaced=False
)
SERVICE_CIDRS = Kind("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", namespaced=False)
IP_ADDRESSES = Kind("networking.k8s.io", "v1", "ipaddresses", "IPAddress", namespaced=False)
SIGNING_REQUESTS = Kind(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
POD_CERTIFICATE_REQUESTS = Kind("certificates.k8s.io", "v1beta1", "podcertificaterequests", "PodCertificateRequest")
TRUST_BUNDLES = Kind("certificates.k8s.io", "v1beta1", "clustertrustbundles", "ClusterTrustBundle", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
WORKLOADS = Kind("scheduling.k8s.io", "v1alpha2", "workloads", "Workload")
POD_GROUPS = Kind("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
VALIDATING_ADMISSION_POLICIES = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
DEVICE_TAINT_RULES = Kind("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False)


DEVICES_GROUP = "resource.k8s.io"
#: The newest release; the constants have its versions.
NEWEST = (1, 36)


@lru_cache(maxsize=1024)
def at_release(kind: Kind, release: tuple[int, int], device_version: str = "") -> Kind:
    """Return the kind in the version that a release serves.

    resource.k8s.io has v1 from 1.34 on, and v1beta2 with the same fields before; `device_version` overrides that.
    DeviceTaintRules are in v1beta2 from 1.36 on, and in v1alpha3 before.
    """
    if kind == RESOURCE_POOL_STATUS_REQUESTS:
        return kind
    if kind == DEVICE_TAINT_RULES:
        return kind if release >= (1, 36) else replace(kind, version="v1alpha3")
    if kind.group == DEVICES_GROUP and (device_version or release < (1, 34)):
        return replace(kind, version=device_version or "v1beta2")
    return kind


def key_of(obj: Json) -> str:
    """Return the key of informers and queues: `namespace/name`, or `name` for a cluster-scoped object."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def split_key(key: str) -> tuple[str, str]:
    """Return the namespace ("" if cluster-scoped) and name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name
