"""Definition of a resource: its data, its strategy, and the context of its rules."""
