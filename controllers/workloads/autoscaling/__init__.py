"""HorizontalPodAutoscalers: as many replicas as bring metrics to their targets.

    component    horizontal-pod-autoscaler-controller: reads, scales and tells
    usage        metrics: what annotations say, or the metrics API where there is one
    calculator   how many replicas a metric asks for. Pure
    limits       how fast and how far that is followed. Pure

Amounts are in thousandths. Facts: upstream's pkg/controller/podautoscaler.
"""
