"""The pods of a node: admission, containers, probes, status, certificates."""
