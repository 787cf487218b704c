"""Objects and tasks that a server maintains by itself: system objects, leases, CRDs, flow schemas, event TTL,
compaction.
"""
