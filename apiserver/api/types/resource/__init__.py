"""The group resource.k8s.io, one module per version."""
