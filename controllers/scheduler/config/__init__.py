"""KubeSchedulerConfiguration: profiles, plugin arguments, extenders, the process."""
