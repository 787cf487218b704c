"""Containers as processes of this machine: `--run` (docs/adr/0026-containers-as-processes.md)."""
