"""The group core (v1), by theme."""
