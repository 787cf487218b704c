"""From source text to the expression tree, and the messages about invalid sources."""
