"""HorizontalPodAutoscalers: scale workloads so that metrics reach their targets.

    component    horizontal-pod-autoscaler-controller: queue, scale subresource, status
    reconcile    one pass over one autoscaler
    usage        metrics from annotations or the metrics API
    calculator   replicas for a metric. Pure
    limits       rate and range of scaling. Pure
    texts        messages about failed metrics
    metrics      the controller's own metrics

Amounts are in thousandths. Facts: upstream's pkg/controller/podautoscaler.
"""
