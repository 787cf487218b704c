"""Label, field, node and shard selectors."""
