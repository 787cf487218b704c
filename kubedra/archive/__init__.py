"""Portable files of a cluster's state and history (docs/adr/0039-state-as-a-value.md)."""
