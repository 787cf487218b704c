"""Controller names and their aliases for `--controllers`, as in kube-controller-manager 1.36."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Aliases of component names.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "namespace": "namespace-controller",
        "garbagecollector": "garbage-collector-controller",
        "serviceaccount": "serviceaccount-controller",
        "serviceaccount-token": "serviceaccount-token-controller",
        "legacy-service-account-token-cleaner": "legacy-serviceaccount-token-cleaner-controller",
        "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
        "csrapproving": "certificatesigningrequest-approving-controller",
        "csrsigning": "certificatesigningrequest-signing-controller",
        "csrcleaner": "certificatesigningrequest-cleaner-controller",
        "clusterrole-aggregation": "clusterrole-aggregation-controller",
        "nodelifecycle": "node-lifecycle-controller",
        "cronjob": "cronjob-controller",
        "disruption": "disruption-controller",
        "horizontalpodautoscaling": "horizontal-pod-autoscaler-controller",
        "endpoint": "endpoints-controller",
        "endpointslice": "endpointslice-controller",
        "endpointslicemirroring": "endpointslice-mirroring-controller",
        "job": "job-controller",
        "podgc": "pod-garbage-collector-controller",
        "resource-claim-controller": "resourceclaim-controller",
        "resourceclaim": "resourceclaim-controller",
        "resourcepoolstatusrequest": "resourcepoolstatusrequest-controller",
        "pvc-protection": "persistentvolumeclaim-protection-controller",
        "persistentvolume-binder": "persistentvolume-binder-controller",
        "ephemeral-volume": "ephemeral-volume-controller",
        "pv-protection": "persistentvolume-protection-controller",
        "resourcequota": "resourcequota-controller",
        "ttl": "ttl-controller",
        "ttl-after-finished": "ttl-after-finished-controller",
        "replicationcontroller": "replicationcontroller-controller",
        "replicaset": "replicaset-controller",
        "deployment": "deployment-controller",
        "daemonset": "daemonset-controller",
        "statefulset": "statefulset-controller",
        "kube-scheduler": "scheduler",
    }
)
#: Concurrent reconciles per component: the `--concurrent-NAME-syncs` flag and its default.
CONCURRENT: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "replicationcontroller-controller": ("concurrent-rc-syncs", 5),
        "replicaset-controller": ("concurrent-replicaset-syncs", 5),
        "deployment-controller": ("concurrent-deployment-syncs", 5),
        "daemonset-controller": ("concurrent-daemonset-syncs", 2),
        "statefulset-controller": ("concurrent-statefulset-syncs", 5),
        "endpoints-controller": ("concurrent-endpoint-syncs", 5),
        "endpointslice-controller": ("concurrent-service-endpoint-syncs", 5),
        "endpointslice-mirroring-controller": ("mirroring-concurrent-service-endpoint-syncs", 5),
        "job-controller": ("concurrent-job-syncs", 5),
        "cronjob-controller": ("concurrent-cron-job-syncs", 5),
        "ttl-after-finished-controller": ("concurrent-ttl-after-finished-syncs", 5),
        "horizontal-pod-autoscaler-controller": ("concurrent-horizontal-pod-autoscaler-syncs", 5),
        "garbage-collector-controller": ("concurrent-gc-syncs", 20),
        "namespace-controller": ("concurrent-namespace-syncs", 10),
        "serviceaccount-token-controller": ("concurrent-serviceaccount-token-syncs", 5),
        "resourcequota-controller": ("concurrent-resource-quota-syncs", 5),
        "resourceclaim-controller": ("concurrent-resourceclaim-syncs", 50),
        "device-taint-eviction-controller": ("concurrent-device-taint-eviction-syncs", 8),
        "ephemeral-volume-controller": ("concurrent-ephemeralvolume-syncs", 5),
        "validatingadmissionpolicy-status-controller": ("concurrent-validating-admission-policy-status-syncs", 5),
    }
)
#: Controllers of kube-controller-manager that do not exist here. Disabling one has no effect; enabling one is an error.
UNSUPPORTED = frozenset(
    f"{name}-controller"
    for name in (
        "bootstrap-signer",
        "cloud-node-lifecycle",
        "node-ipam",
        "node-route",
        "persistentvolume-attach-detach",
        "persistentvolume-expander",
        "selinux-warning",
        "service-ca-certificate-publisher",
        "service-lb",
        "storage-version-migrator",
        "storageversion-garbage-collector",
        "token-cleaner",
    )
)
