"""Client certificates and front proxies."""
