"""HTTP: the dispatcher and what stands around it (authentication, negotiation, watch streams, discovery)."""
