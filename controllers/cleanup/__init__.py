"""Controllers that delete: garbage, pods, finished Jobs, the content of terminating namespaces."""
