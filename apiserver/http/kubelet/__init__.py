"""Connections to kubelets: over the network, and over the unix sockets of emulated nodes."""
