"""Controllers of nodes: health, zones, taints, TTL annotations and taint-based eviction."""
