"""Control planes and nodes as child processes and in the background."""
