"""Workloads and PodGroups (scheduling.k8s.io/v1alpha2), served with the gate GenericWorkload."""
