"""Finished pods and restartable containers. Facts: upstream's ContainerShouldRestart (pkg/api/v1/pod)."""

from __future__ import annotations

from apiserver.api.objects import Json


def may_restart(spec: Json, container: Json, exit_code: int) -> bool:
    """Return whether a container may restart, by its own rules, its own policy and the pod's policy."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = exit_code in (codes.get("values") or ())
        if rule.get("action") in ("Restart", "RestartAllContainers") and listed == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code != 0))


def is_finished(pod: Json) -> bool:
    """Return whether the pod is finished: it uses no resources any more and is not scheduled."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
