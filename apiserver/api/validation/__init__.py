"""Validation that is compiled from types: forms of texts, limits, and where rules across fields are asked."""
