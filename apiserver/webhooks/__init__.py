"""Call webhooks: addresses, trust, credentials, reviews, and upstream's error texts."""
