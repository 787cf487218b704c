"""Scenario files: a control plane, workloads, faults, time and expectations in YAML (`kubedra scenario run`)."""
