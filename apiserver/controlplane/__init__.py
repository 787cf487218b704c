"""Objects and tasks that a server maintains by itself.

They are system objects, leases, CRDs, flow schemas, event TTL and compaction.
"""
