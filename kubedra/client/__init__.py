"""The Python client: resources by kind, apply, wait, emulated nodes, the clock."""
