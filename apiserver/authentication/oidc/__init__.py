"""Authentication by tokens of OpenID Connect providers."""
