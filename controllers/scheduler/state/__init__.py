"""The cluster as the scheduler knows it: nodes, pods, budgets, kept by watch events."""
