"""The bootstrap cluster roles of RBAC, by emulated release and feature gates.

A role begins with a line `# NAME`. On that line `to=` names the aggregated role that receives its rules, `of=` lists
the roles that it aggregates, and `if=` is the gate that it needs. A release is a gate, too: `1.36` from that release
on, `<1.36` before it.

The rules follow, one per line: VERBS GROUPS RESOURCES [names=NAMES] [if=...], or VERBS url PATHS. A line that ends with
a comma continues on the next line.
Facts: plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLUSTER_ROLES"]

CLUSTER_ROLES: Final = """
# admin of=admin
# cluster-admin
* * *
* url *
# edit to=admin of=edit
# system:aggregate-to-admin to=admin
create authorization.k8s.io localsubjectaccessreviews
ALL rbac.authorization.k8s.io rolebindings,roles
# system:aggregate-to-edit to=edit
READ core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
impersonate core serviceaccounts
WRITE core pods,pods/attach,pods/exec,pods/portforward,pods/proxy
create core pods/eviction
WRITE core configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy
create core serviceaccounts/token
WRITE core,events.k8s.io events
WRITE apps daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale
WRITE autoscaling horizontalpodautoscalers
WRITE batch cronjobs,jobs
WRITE extensions daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies,replicasets,replicasets/scale,
    replicationcontrollers/scale
WRITE policy poddisruptionbudgets
WRITE networking.k8s.io ingresses,networkpolicies
ALL coordination.k8s.io leases
WRITE resource.k8s.io resourceclaims,resourceclaimtemplates if=DynamicResourceAllocation
WRITE scheduling.k8s.io podgroups,workloads if=GenericWorkload
# system:aggregate-to-view to=view
READ core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,replicationcontrollers,replicationcontrollers/scale,
    serviceaccounts,services,services/status
READ core bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status
READ core namespaces
READ core,events.k8s.io events
READ discovery.k8s.io endpointslices
READ apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,replicasets,replicasets/scale,
    replicasets/status,statefulsets,statefulsets/scale,statefulsets/status
READ autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status
READ batch cronjobs,cronjobs/status,jobs,jobs/status
READ extensions daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses,ingresses/status,networkpolicies,replicasets,
    replicasets/scale,replicasets/status,replicationcontrollers/scale
READ policy poddisruptionbudgets,poddisruptionbudgets/status
READ networking.k8s.io ingresses,ingresses/status,networkpolicies
READ resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates if=DynamicResourceAllocation
READ scheduling.k8s.io podgroups,podgroups/status,workloads if=GenericWorkload
# system:auth-delegator
create authentication.k8s.io tokenreviews
create authorization.k8s.io subjectaccessreviews
# system:basic-user
create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
create authentication.k8s.io selfsubjectreviews
# system:certificates.k8s.io:certificatesigningrequests:nodeclient
create certificates.k8s.io certificatesigningrequests/nodeclient
# system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
create certificates.k8s.io certificatesigningrequests/selfnodeclient
# system:certificates.k8s.io:kube-apiserver-client-approver
approve certificates.k8s.io signers names=kubernetes.io/kube-apiserver-client
# system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
approve certificates.k8s.io signers names=kubernetes.io/kube-apiserver-client-kubelet
# system:certificates.k8s.io:kubelet-serving-approver
approve certificates.k8s.io signers names=kubernetes.io/kubelet-serving
# system:certificates.k8s.io:legacy-unknown-approver
approve certificates.k8s.io signers names=kubernetes.io/legacy-unknown
# system:discovery
get url /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/
# system:heapster
READ core events,namespaces,nodes,pods
READ extensions deployments
# system:kube-aggregator
READ core endpoints,services
# system:kube-controller-manager
EVENTS
create coordination.k8s.io leases
get,update coordination.k8s.io leases names=kube-controller-manager
create core secrets,serviceaccounts
delete core secrets
get core configmaps,namespaces,secrets,serviceaccounts
update core secrets,serviceaccounts
create authentication.k8s.io tokenreviews
create authorization.k8s.io subjectaccessreviews
list,watch * *
create core serviceaccounts/token
# system:kube-dns
list,watch core endpoints,services
# system:kube-scheduler
EVENTS
create coordination.k8s.io leases
get,list,update,watch coordination.k8s.io leases names=kube-scheduler
ALL coordination.k8s.io leasecandidates
READ core nodes
delete,get,list,watch core pods
create core bindings,pods/binding
patch,update core pods/status
READ core replicationcontrollers,services
READ apps,extensions replicasets
READ apps statefulsets
READ policy poddisruptionbudgets
READ core persistentvolumeclaims,persistentvolumes
create authentication.k8s.io tokenreviews
create authorization.k8s.io subjectaccessreviews
READ storage.k8s.io csinodes
READ storage.k8s.io volumeattachments
READ core namespaces
READ storage.k8s.io csidrivers
READ storage.k8s.io csistoragecapacities
READ resource.k8s.io deviceclasses if=DynamicResourceAllocation
READ-UPDATE resource.k8s.io resourceclaims if=DynamicResourceAllocation
READ-UPDATE resource.k8s.io resourceclaims/status if=DynamicResourceAllocation
update core pods/finalizers if=DynamicResourceAllocation
READ resource.k8s.io resourceslices if=DynamicResourceAllocation
create,delete resource.k8s.io resourceclaims if=DRAExtendedResource
READ resource.k8s.io devicetaintrules if=DRADeviceTaintRules
patch,update resource.k8s.io resourceclaims/binding if=DRAResourceClaimGranularStatusAuthorization
READ scheduling.k8s.io podgroups if=GenericWorkload
patch,update scheduling.k8s.io podgroups/status if=GenericWorkload
# system:kubelet-api-admin
READ core nodes
proxy core nodes
* core nodes/log,nodes/metrics,nodes/proxy,nodes/stats
* core nodes/configz,nodes/healthz,nodes/pods
# system:monitoring
get url /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,/statusz if=1.36
get url /healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/* if=<1.36
get core nodes/metrics
# system:node
create authentication.k8s.io tokenreviews
create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews
READ core services
create,get,list,watch core nodes
patch,update core nodes/status
patch,update core nodes
EVENTS
READ core pods
create,delete core pods
patch,update core pods/status
create core pods/eviction
READ core configmaps,secrets
get core persistentvolumeclaims,persistentvolumes
get core endpoints
create,get,list,watch certificates.k8s.io certificatesigningrequests
create,delete,get,patch,update coordination.k8s.io leases
get storage.k8s.io volumeattachments
create core serviceaccounts/token
get,patch,update core persistentvolumeclaims/status
READ storage.k8s.io csidrivers
create,delete,get,patch,update storage.k8s.io csinodes
READ node.k8s.io runtimeclasses
get resource.k8s.io resourceclaims if=DynamicResourceAllocation
deletecollection resource.k8s.io resourceslices if=DynamicResourceAllocation
READ certificates.k8s.io clustertrustbundles if=ClusterTrustBundle
get core serviceaccounts if=KubeletServiceAccountTokenForCredentialProviders
create,get,list,watch certificates.k8s.io podcertificaterequests if=PodCertificateRequest
# system:node-bootstrapper
create,get,list,watch certificates.k8s.io certificatesigningrequests
# system:node-problem-detector
get core nodes
patch core nodes/status
EVENTS
# system:node-proxier
list,watch core endpoints,services
READ core nodes
EVENTS
list,watch networking.k8s.io servicecidrs
list,watch discovery.k8s.io endpointslices
# system:persistent-volume-provisioner
create,delete,get,list,watch core persistentvolumes
get,list,update,watch core persistentvolumeclaims
READ storage.k8s.io storageclasses
watch core events
EVENTS
# system:public-info-viewer
get url /healthz,/livez,/readyz,/version,/version/
# system:cluster-trust-bundle-discovery if=ClusterTrustBundle
READ certificates.k8s.io clustertrustbundles
# system:service-account-issuer-discovery
get url /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/
# system:volume-scheduler
READ-UPDATE core persistentvolumes
READ storage.k8s.io storageclasses
READ-UPDATE core persistentvolumeclaims
# view to=edit of=view
"""
