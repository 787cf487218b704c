"""Finalizers that keep objects while they are in use."""
