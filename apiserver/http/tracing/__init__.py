"""Traces of requests: a span of each sampled one (`handler`), sent in batches by OTLP (`export`).

Facts: apiserver/pkg/endpoints/filters/traces.go, W3C Trace Context, opentelemetry.proto.collector.trace.v1.
"""
