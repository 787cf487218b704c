"""Controllers that delete: garbage collector, pods, finished Jobs, terminating namespaces."""
