"""The verbs: one file each, read from top to bottom in upstream's order of steps."""
