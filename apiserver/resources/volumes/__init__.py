"""Persistent volumes and claims on them, and the rules of volume sources that they share with pods."""
