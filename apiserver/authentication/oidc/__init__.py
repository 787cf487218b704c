"""Users from tokens of OpenID Connect providers."""
