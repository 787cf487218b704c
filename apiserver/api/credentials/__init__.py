"""Kubeconfigs, certificates and PEM."""
