"""The schema language and its compilers: defaults, limits, equality, readers of leaf types."""
