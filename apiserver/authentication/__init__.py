"""Authentication of requests by client certificate, token or OIDC."""
