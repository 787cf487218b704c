"""Kubeconfigs: servers, credentials and exec plugins."""
