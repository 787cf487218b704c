"""Kinds of batch/v1: what runs to its end."""
