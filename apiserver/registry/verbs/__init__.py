"""The verbs: a file each, read from top to bottom in upstream's order of steps."""
