"""Validation compiled from types: forms of texts, limits, and rules across fields."""
