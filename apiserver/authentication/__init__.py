"""Who sends a request: by certificate, token or OIDC."""
