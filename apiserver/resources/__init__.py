"""List the served resources: one module per kind (types from `api.types`, a Strategy, columns). `CATALOG` has all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.resources.admissionregistration import POLICIES, WEBHOOKS
from apiserver.resources.apiregistration.apiservices import API_SERVICES
from apiserver.resources.apiserverinternal.storageversions import STORAGE_VERSIONS
from apiserver.resources.apps.daemonsets import DAEMON_SETS
from apiserver.resources.apps.deployments import DEPLOYMENTS, REPLICA_SETS
from apiserver.resources.apps.revisions import CONTROLLER_REVISIONS
from apiserver.resources.apps.statefulsets import STATEFUL_SETS
from apiserver.resources.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from apiserver.resources.batch.cronjobs import CRON_JOBS
from apiserver.resources.batch.jobs import JOBS
from apiserver.resources.certificates import CERTIFICATES
from apiserver.resources.coordination.leasecandidates import LEASE_CANDIDATES
from apiserver.resources.coordination.leases import LEASES
from apiserver.resources.core.componentstatuses import COMPONENT_STATUSES
from apiserver.resources.core.configmaps import CONFIG_MAPS
from apiserver.resources.core.endpoints import ENDPOINTS
from apiserver.resources.core.events import CORE_EVENTS, EVENTS
from apiserver.resources.core.limitranges import LIMIT_RANGES
from apiserver.resources.core.namespaces import NAMESPACES
from apiserver.resources.core.nodes import NODES
from apiserver.resources.core.podtemplates import POD_TEMPLATES
from apiserver.resources.core.replicationcontrollers import REPLICATION_CONTROLLERS
from apiserver.resources.core.resourcequotas import RESOURCE_QUOTAS
from apiserver.resources.core.secrets import SECRETS
from apiserver.resources.core.serviceaccounts import SERVICE_ACCOUNTS
from apiserver.resources.customresources.definitions import DEFINITIONS
from apiserver.resources.devices.claims import RESOURCE_CLAIMS
from apiserver.resources.devices.classes import DEVICE_CLASSES
from apiserver.resources.devices.poolstatus import RESOURCE_POOL_STATUS_REQUESTS
from apiserver.resources.devices.slices import RESOURCE_SLICES
from apiserver.resources.devices.taintrules import DEVICE_TAINT_RULES
from apiserver.resources.devices.templates import RESOURCE_CLAIM_TEMPLATES
from apiserver.resources.discovery.endpointslices import ENDPOINT_SLICES
from apiserver.resources.flowcontrol import FLOW_CONTROL
from apiserver.resources.metrics import METRICS
from apiserver.resources.networking import NETWORKING
from apiserver.resources.node.runtimeclasses import RUNTIME_CLASSES
from apiserver.resources.pods import BINDINGS, PODS
from apiserver.resources.policy.budgets import POD_DISRUPTION_BUDGETS
from apiserver.resources.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from apiserver.resources.reviews import AUTHENTICATION_REVIEWS, AUTHORIZATION_REVIEWS
from apiserver.resources.scheduling.podgroups import POD_GROUPS
from apiserver.resources.scheduling.priorityclasses import PRIORITY_CLASSES
from apiserver.resources.scheduling.workloads import WORKLOADS
from apiserver.resources.services import SERVICES
from apiserver.resources.storage import STORAGE
from apiserver.resources.volumes.claims import PERSISTENT_VOLUME_CLAIMS
from apiserver.resources.volumes.persistentvolumes import PERSISTENT_VOLUMES

__all__ = ["CATALOG", "catalog_of"]

#: By group, and in a group by resource.
CATALOG: Final[tuple[Resource, ...]] = (
    BINDINGS,
    COMPONENT_STATUSES,
    CONFIG_MAPS,
    CORE_EVENTS,
    ENDPOINTS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_TEMPLATES,
    PODS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    *POLICIES,
    *WEBHOOKS,
    DEFINITIONS,
    API_SERVICES,
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    *AUTHENTICATION_REVIEWS,
    *AUTHORIZATION_REVIEWS,
    HORIZONTAL_POD_AUTOSCALERS,
    CRON_JOBS,
    JOBS,
    *CERTIFICATES,
    LEASE_CANDIDATES,
    LEASES,
    ENDPOINT_SLICES,
    EVENTS,
    *FLOW_CONTROL,
    STORAGE_VERSIONS,
    *NETWORKING,
    POD_DISRUPTION_BUDGETS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_POOL_STATUS_REQUESTS,
    RESOURCE_SLICES,
    POD_GROUPS,
    PRIORITY_CLASSES,
    WORKLOADS,
    RUNTIME_CLASSES,
    *STORAGE,
)


def catalog_of(runtime_config: Mapping[str, str]) -> tuple[Resource, ...]:
    """Return the catalog, with the groups of add-ons that `--runtime-config` names.

    kube-apiserver does not serve these groups, so `api/all` does not include them.
    """
    named = {key.partition("/")[0] for key in runtime_config}
    return (*CATALOG, *(resource for resource in METRICS if resource.group in named))
