"""Parse source text to the expression tree, and report invalid sources."""
