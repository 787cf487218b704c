"""Paths that name no resource: discovery, OpenAPI, health, version."""
