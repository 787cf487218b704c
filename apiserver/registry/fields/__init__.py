"""Field management: sets of fields, who owns which, and server-side apply."""
