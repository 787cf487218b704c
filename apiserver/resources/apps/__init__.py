"""Kinds of apps/v1: what keeps pods running. Their rules only: no controller makes pods of them."""
