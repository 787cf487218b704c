"""Kinds of policy/v1: limits on concurrent disruptions of pods."""
