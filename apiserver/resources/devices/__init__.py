"""Kinds of resource.k8s.io: claims, templates, slices, classes."""
