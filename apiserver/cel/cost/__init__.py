"""Estimate and charge the cost of evaluations."""
