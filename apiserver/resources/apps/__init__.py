"""Kinds of apps/v1: workloads that keep pods running. `controllers.workloads` runs them."""
