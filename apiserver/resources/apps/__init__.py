"""Kinds of apps/v1: workloads that keep pods running. Only their API rules; the controllers are elsewhere."""
