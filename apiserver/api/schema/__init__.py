"""The schema language, and what is compiled from it: defaults, limits, equality, readers of leaf types."""
