"""TLS: the listener, client certificates over pyOpenSSL, and the self-signed certificate."""
