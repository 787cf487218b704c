"""The generic store, its results, and the admission chain."""
