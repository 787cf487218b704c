"""The roles of kube-controller-manager's controllers, in the form of `policy_tables`."""

from __future__ import annotations

from typing import Final

__all__ = ["CONTROLLER_ROLES"]

#: Each role is bound to the service account kube-system/NAME.
CONTROLLER_ROLES: Final = """
# system:controller:attachdetach-controller
list,watch core persistentvolumeclaims,persistentvolumes
READ core nodes
patch,update core nodes/status
list,watch core pods
EVENTS
create,delete,get,list,watch storage.k8s.io volumeattachments
READ storage.k8s.io csidrivers
READ storage.k8s.io csinodes
# system:controller:certificate-controller
delete,get,list,watch certificates.k8s.io certificatesigningrequests
update certificates.k8s.io certificatesigningrequests/approval,certificatesigningrequests/status
approve certificates.k8s.io signers names=kubernetes.io/kube-apiserver-client-kubelet
sign certificates.k8s.io signers names=kubernetes.io/kube-apiserver-client,kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving,
    kubernetes.io/legacy-unknown
create authorization.k8s.io subjectaccessreviews
EVENTS
# system:controller:clusterrole-aggregation-controller
escalate,get,list,patch,update,watch rbac.authorization.k8s.io clusterroles
# system:controller:cronjob-controller
get,list,update,watch batch cronjobs
create,delete,get,list,patch,update,watch batch jobs
update batch cronjobs/status
update batch cronjobs/finalizers
delete,list,watch core pods
EVENTS
# system:controller:daemon-set-controller
READ apps,extensions daemonsets
update apps,extensions daemonsets/status
update apps,extensions daemonsets/finalizers
list,watch core nodes
create,delete,list,patch,watch core pods
create core pods/binding
create,delete,get,list,patch,update,watch apps controllerrevisions
EVENTS
# system:controller:deployment-controller
get,list,update,watch apps,extensions deployments
update apps,extensions deployments/status
update apps,extensions deployments/finalizers
create,delete,get,list,patch,update,watch apps,extensions replicasets
get,list,update,watch core pods
EVENTS
# system:controller:device-taint-eviction-controller if=DRADeviceTaints
delete,get,list,watch core pods
patch,update core pods/status
READ resource.k8s.io resourceclaims
READ resource.k8s.io resourceslices
READ resource.k8s.io deviceclasses
EVENTS
patch,update resource.k8s.io devicetaintrules/status if=DRADeviceTaintRules
READ resource.k8s.io devicetaintrules if=DRADeviceTaintRules
# system:controller:resourcepoolstatusrequest-controller if=DRAResourcePoolStatus
delete,get,list,watch resource.k8s.io resourcepoolstatusrequests
patch,update resource.k8s.io resourcepoolstatusrequests/status
READ resource.k8s.io resourceslices
READ resource.k8s.io resourceclaims
EVENTS
# system:controller:disruption-controller
READ apps,extensions deployments
READ apps,extensions replicasets
READ core replicationcontrollers
READ policy poddisruptionbudgets
READ apps statefulsets
update policy poddisruptionbudgets/status
patch,update core pods/status
get * */scale
EVENTS
# system:controller:endpoint-controller
READ core pods,services
create,delete,get,list,update,watch core endpoints
create core endpoints/restricted
EVENTS
# system:controller:endpointslice-controller
READ core nodes,pods,services
update core services/finalizers
create,delete,get,list,update,watch discovery.k8s.io endpointslices
create discovery.k8s.io endpointslices/restricted
EVENTS
# system:controller:endpointslicemirroring-controller
READ core endpoints,services
update core services/finalizers
update core endpoints/finalizers
create,delete,get,list,update,watch discovery.k8s.io endpointslices
create discovery.k8s.io endpointslices/restricted
EVENTS
# system:controller:ephemeral-volume-controller
READ core pods
update core pods/finalizers
create,get,list,watch core persistentvolumeclaims
EVENTS
# system:controller:expand-controller
READ-UPDATE core persistentvolumes
patch,update core persistentvolumeclaims/status
READ core persistentvolumeclaims
EVENTS
# system:controller:generic-garbage-collector
delete,get,list,patch,update,watch * *
EVENTS
# system:controller:horizontal-pod-autoscaler
READ autoscaling horizontalpodautoscalers
update autoscaling horizontalpodautoscalers/status
get,update * */scale
list,watch core pods
list,watch metrics.k8s.io pods
READ custom.metrics.k8s.io *
READ external.metrics.k8s.io *
EVENTS
# system:controller:job-controller
READ-UPDATE batch jobs
update batch jobs/status
update batch jobs/finalizers
create,delete,list,patch,watch core pods
EVENTS
create,get,list,watch scheduling.k8s.io podgroups,workloads if=WorkloadWithJob
# system:controller:legacy-service-account-token-cleaner
get core configmaps names=kube-apiserver-legacy-service-account-token-tracking
delete,patch core secrets
# system:controller:kube-apiserver-serving-clustertrustbundle-publisher if=ClusterTrustBundle
attest certificates.k8s.io signers names=kubernetes.io/kube-apiserver-serving
create,delete,list,update,watch certificates.k8s.io clustertrustbundles
EVENTS
# system:controller:namespace-controller
delete,get,list,watch core namespaces
update core namespaces/finalize,namespaces/status
delete,deletecollection,get,list,watch * *
# system:controller:node-controller
delete,get,list,patch,update,watch core nodes
patch,update core nodes/status
patch,update core pods/status
delete,get,list,watch core pods
EVENTS
# system:controller:persistent-volume-binder
create,delete,get,list,update,watch core persistentvolumes
update core persistentvolumes/status
get,list,update,watch core persistentvolumeclaims
update core persistentvolumeclaims/status
create,delete,get,list,watch core pods
READ storage.k8s.io storageclasses
list,watch core nodes
EVENTS
watch core events
# system:controller:pod-garbage-collector
delete,list,watch core pods
READ core nodes
patch core pods/status
# system:controller:podgroup-protection-controller if=GenericWorkload
get,list,update,watch scheduling.k8s.io podgroups
READ core pods
# system:controller:pv-protection-controller
get,list,update,watch core persistentvolumes
EVENTS
# system:controller:podcertificaterequestcleaner if=PodCertificateRequest
delete,get,list,watch certificates.k8s.io podcertificaterequests
# system:controller:pvc-protection-controller
get,list,update,watch core persistentvolumeclaims
update core persistentvolumeclaims/status
READ core pods
EVENTS
# system:controller:replicaset-controller
get,list,update,watch apps,extensions replicasets
update apps,extensions replicasets/status
update apps,extensions replicasets/finalizers
create,delete,list,patch,watch core pods
EVENTS
# system:controller:replication-controller
get,list,update,watch core replicationcontrollers
update core replicationcontrollers/status
update core replicationcontrollers/finalizers
create,delete,list,patch,watch core pods
EVENTS
# system:controller:resource-claim-controller if=DynamicResourceAllocation
READ core pods
update core pods/finalizers
create,delete,get,list,watch resource.k8s.io resourceclaims
patch,update resource.k8s.io resourceclaims,resourceclaims/status
patch,update core pods/status
EVENTS
READ scheduling.k8s.io podgroups if=DRAWorkloadResourceClaims
patch,update scheduling.k8s.io podgroups/status if=DRAWorkloadResourceClaims
patch,update resource.k8s.io resourceclaims/binding if=DRAResourceClaimGranularStatusAuthorization
# system:controller:resourcequota-controller
list,watch * *
update core resourcequotas/status
EVENTS
# system:controller:root-ca-cert-publisher
create,update core configmaps
EVENTS
# system:controller:route-controller
list,watch core nodes
patch core nodes/status
EVENTS
# system:controller:selinux-warning-controller
EVENTS
READ core persistentvolumes
READ core persistentvolumeclaims
READ core pods
READ storage.k8s.io csidrivers
# system:controller:service-account-controller
create core serviceaccounts
EVENTS
# system:controller:service-ca-cert-publisher
create,update core configmaps
EVENTS
# system:controller:service-cidrs-controller
READ-UPDATE networking.k8s.io servicecidrs
patch,update networking.k8s.io servicecidrs/finalizers
patch,update networking.k8s.io servicecidrs/status
READ networking.k8s.io ipaddresses
EVENTS
# system:controller:service-controller
READ core services
patch,update core services/status
list,watch core nodes
EVENTS
# system:controller:statefulset-controller
list,watch core pods
READ apps statefulsets
update apps statefulsets/status
update apps statefulsets/finalizers
create,delete,get,patch,update core pods
create,delete,get,list,patch,update,watch apps controllerrevisions
create,get,list,watch core persistentvolumeclaims
delete,update core persistentvolumeclaims
update core pods/finalizers
EVENTS
# system:controller:ttl-after-finished-controller
delete,get,list,watch batch jobs
EVENTS
# system:controller:ttl-controller
list,patch,update,watch core nodes
EVENTS
# system:controller:validatingadmissionpolicy-status-controller
READ admissionregistration.k8s.io validatingadmissionpolicies
get,patch,update admissionregistration.k8s.io validatingadmissionpolicies/status
EVENTS
# system:controller:volumeattributesclass-protection-controller if=1.34
READ core persistentvolumeclaims
READ core persistentvolumes
get,list,update,watch storage.k8s.io volumeattributesclasses
EVENTS
"""
