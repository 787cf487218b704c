"""Generated lives of what workloads stand on: budgets, autoscalers, services, schedules, quotas."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.runtime.kinds import (
    AUTOSCALERS,
    CONFIG_MAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    ENDPOINTS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
)
from tests.controllers.lifewriter import LABELS, Writer, container, template


def budget(write: Writer) -> None:
    choice = write.choice
    replicas = choice.randint(0, 4)
    owner = choice.choice((REPLICA_SETS, DEPLOYMENTS, None))
    never = {"kubedra.dev/ready-after": "10000s"} if write.maybe(0.3) else None
    selector = {"matchLabels": LABELS}
    if owner is None:
        for number in range(replicas):
            write.create(PODS, f"p{number}", {"spec": {"containers": [container()]}}, labels=LABELS, annotations=never)
    else:
        write.create(owner, "x", {"spec": {"replicas": replicas, "selector": selector, "template": template(never)}})
    write.step()
    least = choice.choice(({"minAvailable": choice.choice((0, 1, 2, "50%", "100%"))},
                           {"maxUnavailable": choice.choice((0, 1, "30%"))}))  # fmt: skip
    policy = choice.choice((None, "AlwaysAllow", "IfHealthyBudget"))
    write.create(
        DISRUPTION_BUDGETS, "x", {"spec": {"selector": selector, **least, "unhealthyPodEvictionPolicy": policy}}
    )
    for _ in range(2):
        write.step()
        match choice.randint(0, 3):
            case 0 if owner is not None:
                write.act("patch", owner, "x", {"spec": {"replicas": choice.randint(0, 5)}})
            case 1:
                other = {"matchLabels": choice.choice(({"app": "y"}, LABELS, {}))}
                write.act("patch", DISRUPTION_BUDGETS, "x", {"spec": {"selector": other}})
            case 2:
                write.create(DISRUPTION_BUDGETS, f"y{len(write.steps)}", {"spec": {"selector": {}, "minAvailable": 1}})
            case _:
                write.act("patch", DISRUPTION_BUDGETS, "x", {"metadata": {"annotations": {"note": "1"}}})


def autoscaler(write: Writer) -> None:
    choice = write.choice
    replicas = choice.randint(0, 4)
    requests = {"resources": {"requests": {"cpu": "100m", "memory": "10Mi"}}} if write.maybe(0.8) else {}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(**requests)}
    write.create(DEPLOYMENTS, "x", {"spec": spec})
    write.step()
    target: Json = {"type": "Utilization", "averageUtilization": choice.choice((50, 80))}
    if write.maybe(0.3):
        target = {"type": "AverageValue", "averageValue": "40m"}
    metrics: list[Json] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if write.maybe(0.3):
        more = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "8Mi"}}
        metrics.append({"type": "Resource", "resource": more})
    if write.maybe(0.2):
        of = {"name": "cpu", "container": choice.choice(("c", "d")),
              "target": {"type": "Utilization", "averageUtilization": 60}}  # fmt: skip
        metrics.append({"type": "ContainerResource", "containerResource": of})
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": choice.choice(("x", "x", "x", "missing"))}
    if write.maybe(0.1):
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
    least = choice.randint(1, 3)
    own = {"scaleTargetRef": ref, "minReplicas": least, "maxReplicas": least + choice.randint(0, 4), "metrics": metrics}
    if write.maybe(0.3):
        rules = [{"type": choice.choice(("Pods", "Percent")), "value": choice.choice((1, 50)), "periodSeconds": 15}]
        own["behavior"] = {"scaleUp": {"policies": rules}, "scaleDown": {"stabilizationWindowSeconds": 0}}
    write.create(AUTOSCALERS, "x", {"spec": own})
    for _ in range(2):
        write.step()
        match choice.randint(0, 3):
            case 0:
                write.act("patch", DEPLOYMENTS, "x", {"spec": {"replicas": choice.randint(0, 6)}})
            case 1:
                write.act("patch", AUTOSCALERS, "x", {"spec": {"maxReplicas": least + choice.randint(0, 6)}})
            case 2:
                write.create(AUTOSCALERS, "y", {"spec": {**own, "minReplicas": 1, "maxReplicas": 9}})
                return
            case _:
                write.act("patch", DEPLOYMENTS, "x", {"spec": {"template": {"metadata": {"labels": {"more": "1"}}}}})


def service(write: Writer) -> None:
    choice = write.choice
    ports = [{"name": "a", "port": 80, "targetPort": choice.choice((8080, "web", "none"))}]
    if write.maybe(0.4):
        ports.append({"name": "b", "port": 81, "protocol": choice.choice(("UDP", "TCP"))})
    spec: Json = {"selector": LABELS, "ports": ports}
    if write.maybe(0.3):
        spec["clusterIP"] = "None"
    if write.maybe(0.3):
        spec["publishNotReadyAddresses"] = True
    if write.maybe(0.2):
        del spec["selector"]
    if write.maybe(0.2):
        spec["trafficDistribution"] = choice.choice(("PreferClose", "PreferSameNode"))
    write.create(SERVICES, "x", {"spec": spec}, labels=choice.choice((None, {"team": "a"})))
    never = {"kubedra.dev/ready-after": "10000s"} if write.maybe(0.3) else {}
    pods = template(never, ports=[{"name": "web", "containerPort": 8080}])
    body = {"replicas": choice.randint(0, 3), "selector": {"matchLabels": LABELS}, "template": pods}
    if write.maybe(0.3):
        pods["spec"] |= {"hostname": "h", "subdomain": "x"}
    write.create(REPLICA_SETS, "x", {"spec": body})
    if "selector" not in spec:
        subset = {"addresses": [{"ip": "10.1.2.3"}, {"ip": "10.1.2.4", "hostname": "h"}],
                  "notReadyAddresses": [{"ip": "10.1.2.5"}], "ports": [{"name": "a", "port": 9}]}  # fmt: skip
        write.create(ENDPOINTS, "x", {"subsets": [subset]}, labels=choice.choice((None, {"a": "b"})))
    for _ in range(3):
        write.step()
        match choice.randint(0, 6):
            case 0:
                write.act("patch", SERVICES, "x", {"spec": {"selector": choice.choice((None, {"app": "y"}, LABELS))}})
            case 1:
                write.act("patch", SERVICES, "x", {"metadata": {"labels": {"team": "b"}, "annotations": {"n": "1"}}})
            case 2:
                write.act("patch", SERVICES, "x", {"spec": {"ports": [{"name": "a", "port": 82, "targetPort": 82}]}})
            case 3:
                write.act("patch", REPLICA_SETS, "x", {"spec": {"replicas": choice.randint(0, 4)}})
            case 4:
                write.act("delete", SERVICES, "x")
            case 5:
                write.act("patch", ENDPOINTS, "x", {"metadata": {"labels": {"mine": "1"}}})
            case _:
                write.act("patch", SERVICES, "x", {"spec": {"publishNotReadyAddresses": write.maybe(0.5)}})


def cron(write: Writer) -> None:
    choice = write.choice
    annotations = {"kubedra.dev/exit-after": choice.choice(("0.2", "0.2", "1000")), "kubedra.dev/exit-code": "0"}
    if write.maybe(0.3):
        annotations["kubedra.dev/exit-code"] = "1"
    pods = {**template(annotations)}
    pods["spec"]["restartPolicy"] = "Never"
    job = {"backoffLimit": 0, "template": pods}
    spec: Json = {
        "schedule": choice.choice(("* * * * *", "* * * * *", "*/1 * * * *", "0 0 1 1 *", "@yearly")),
        "concurrencyPolicy": choice.choice(("Allow", "Forbid", "Replace")),
        "jobTemplate": {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}}, "spec": job},
    }
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        if write.maybe(0.5):
            spec[name] = choice.randint(0, 1)
    if write.maybe(0.3):
        spec["startingDeadlineSeconds"] = choice.choice((5, 30, 200))
    if write.maybe(0.3):
        spec["timeZone"] = choice.choice(("Etc/UTC", "Europe/Berlin"))
    if write.maybe(0.2):
        spec["suspend"] = True
    write.create(CRON_JOBS, "x", {"spec": spec})
    write.step()
    match choice.randint(0, 4):
        case 0:
            write.act("patch", CRON_JOBS, "x", {"spec": {"suspend": write.maybe(0.5)}})
        case 1:
            write.act("patch", CRON_JOBS, "x", {"spec": {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}})
        case 2:
            write.act("patch", CRON_JOBS, "x", {"spec": {"schedule": choice.choice(("* * * * *", "@monthly"))}})
        case 3:
            write.act("delete", CRON_JOBS, "x", {"propagationPolicy": choice.choice(("Orphan", "Background"))})
        case _:
            write.act("patch", CRON_JOBS, "x", {"spec": {"concurrencyPolicy": "Replace"}})
    write.step()


def quota(write: Writer) -> None:
    choice = write.choice
    hard = {"pods": "3", "requests.cpu": "500m", "configmaps": "4", "count/secrets": "2", "services": "1",
            "persistentvolumeclaims": "2", "requests.storage": "3Gi", "count/replicasets.apps": "2"}  # fmt: skip
    kept = {key: hard[key] for key in choice.sample(sorted(hard), choice.randint(1, 5))}
    scopes = choice.choice((None, ["BestEffort"], ["NotTerminating"])) if set(kept) <= {"pods"} else None
    write.create(RESOURCE_QUOTAS, "q", {"spec": {"hard": kept, **({"scopes": scopes} if scopes else {})}})
    for number in range(3):
        write.step()
        match choice.randint(0, 3):
            case 0:
                cpu = {"resources": {"requests": {"cpu": "200m"}}} if write.maybe(0.6) else {}
                write.create(PODS, f"p{number}", {"spec": {"containers": [container(**cpu)]}})
            case 1:
                write.create(choice.choice((CONFIG_MAPS, SECRETS)), f"c{number}")
            case 2:
                body = {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": template()}
                write.create(REPLICA_SETS, f"r{number}", {"spec": body})
            case _:
                write.act("patch", RESOURCE_QUOTAS, "q", {"spec": {"hard": {**kept, "secrets": str(number)}}})
