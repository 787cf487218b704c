"""Facts about single kinds for server and controllers: requests of pods, tolerations, quotas, default classes."""
