"""Control planes and nodes as processes, in the foreground and in the background."""
