"""Starts and runs components: flags, the manager, and the process with leader election."""
