"""Field management: sets of fields, their managers, and server-side apply."""
