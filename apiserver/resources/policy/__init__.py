"""Kinds of policy/v1: how many pods may be disrupted at a time."""
