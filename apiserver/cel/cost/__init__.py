"""Estimated cost and actual cost of an evaluation."""
