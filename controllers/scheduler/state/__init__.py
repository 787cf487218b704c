"""The scheduler's cached state of the cluster, updated by watch events: nodes, pods, budgets."""
