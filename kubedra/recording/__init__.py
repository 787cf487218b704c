"""Recordings of a cluster's changes, and their replay against kubedra's own control plane."""
