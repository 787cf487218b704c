"""Proxy to other API servers, named by APIServices with a service (docs/adr/0030-aggregation.md)."""
