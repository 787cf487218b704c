"""The policies of Jobs: pod failure policies and success policies. Pure.

Facts: upstream's pkg/controller/job (pod_failure_policy.go, success_policy.go).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from apiserver.api.objects import Json
from controllers.workloads.jobs.indexes import parse_indexes


class Match(NamedTuple):
    """The first rule that matches a failed pod."""

    action: str = ""
    """The rule's action; "" without a match."""
    message: str = ""
    """The reason of the Job's failure, for the action FailJob."""

    @property
    def counts(self) -> bool:
        """Return whether the failure counts towards the limits."""
        return self.action != "Ignore"


NO_MATCH: Final = Match()


def match(policy: Json | None, pod: Json) -> Match:
    """Match a failed pod against a Job's `podFailurePolicy`."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule.get("action", "")
        why = _describe_match(rule, pod)
        if why and action in ("Ignore", "FailIndex", "Count"):
            return Match(action)
        if why and action == "FailJob":
            return Match(action, f"{why} matching {action} rule at index {number}")
    return NO_MATCH


def _describe_match(rule: Json, pod: Json) -> str:
    """Return a description of the pod's matching part, or ""."""
    status, where = pod.get("status") or {}, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if rule.get("onExitCodes") is not None:
        for field in ("containerStatuses", "initContainerStatuses"):
            for container in status.get(field) or ():
                code = (container.get("state") or {}).get("terminated", {}).get("exitCode", 0)
                if code and _has_code(rule["onExitCodes"], container["name"], code):
                    return f"Container {container['name']} for pod {where} failed with exit code {code}"
        return ""
    for condition in status.get("conditions") or ():
        for pattern in rule.get("onPodConditions") or ():
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return f"Pod {where} has condition {condition['type']}"
    return ""


def _has_code(requirement: Json, container: str, code: int) -> bool:
    if requirement.get("containerName") not in (None, container):
        return False
    values = requirement.get("values") or ()
    return {"In": code in values, "NotIn": code not in values}.get(requirement["operator"], False)


def fail_message(policy: Json | None, failed: Iterable[Json]) -> str:
    """Return the reason why the policy fails the Job, or ""."""
    if policy is None:
        return ""
    return next((found.message for pod in failed if (found := match(policy, pod)).message), "")


def match_success(policy: Json | None, completions: int, succeeded: Collection[int]) -> str:
    """Return the message of the met rule of a `successPolicy`, or ""."""
    for number, rule in enumerate((policy or {}).get("rules") or () if succeeded else ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            needed = parse_indexes(rule["succeededIndexes"], completions)
            has = len(needed.intersection(succeeded))
            fulfilled = bool(needed) and (has == len(needed) or (count is not None and has >= count))
        else:
            fulfilled = count is not None and len(succeeded) >= count
        if fulfilled:
            return f"Matched rules at index {number}"
    return ""
