"""Kinds of batch/v1: workloads that run to completion."""
