"""Facts about single kinds that server and controllers share: requests of pods, tolerations, quotas, default classes."""
