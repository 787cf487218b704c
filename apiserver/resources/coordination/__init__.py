"""Kinds of coordination.k8s.io."""
