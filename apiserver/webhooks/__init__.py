"""Calls of webhooks: who they are, how they are reached and believed, and what is said when that fails."""
