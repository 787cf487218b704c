"""The state of a cluster as a value (docs/adr/0039-state-as-a-value.md)."""
