"""Generated lives of Jobs, with a service and a budget for their pods. The same seed gives the same life."""

from __future__ import annotations

import random
from dataclasses import dataclass

from apiserver.api.objects import Json

LABELS = {"app": "x"}


@dataclass(frozen=True, slots=True)
class JobLife:
    """`steps` are patches of the Job; None deletes one of its pods."""

    job: Json
    service: Json
    budget: Json
    steps: tuple[Json | None, ...]


def job_life(seed: int) -> JobLife:
    choice = random.Random(seed)
    spec: Json = {"parallelism": choice.randint(1, 4), "backoffLimit": 0}
    indexed = choice.random() < 0.5
    if indexed or choice.random() < 0.7:
        spec["completions"] = choice.randint(1, 5)
    if indexed:
        spec["completionMode"] = "Indexed"
    code = choice.choice((0, 0, 0, 1, 42))
    if code:
        # Of several that fail at the same time it is chance which ones the controller deletes before.
        spec["parallelism"] = 1
    if choice.random() < 0.4:
        rule = {
            "action": choice.choice(("FailJob", "Ignore", "Count")),
            "onExitCodes": {"operator": "In", "values": [42]},
        }
        spec["podFailurePolicy"] = {"rules": [rule]}
    elif choice.random() < 0.5:
        spec["podReplacementPolicy"] = choice.choice(("Failed", "TerminatingOrFailed"))
    if indexed and choice.random() < 0.4:
        spec |= {"backoffLimitPerIndex": 0, "maxFailedIndexes": choice.randint(0, spec["completions"])}
        del spec["backoffLimit"]
    if indexed and choice.random() < 0.3:
        spec["successPolicy"] = {"rules": [{"succeededCount": 1}]}
    if choice.random() < 0.3:
        spec["suspend"] = True
    if choice.random() < 0.2:
        spec["managedBy"] = "example.com/other"
    # Some end by themselves, some run on until a step ends them.
    ends = choice.random() < 0.7
    annotations = {"kubedra.dev/exit-after": "0.2", "kubedra.dev/exit-code": str(code)} if ends else {}
    container = {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}
    spec["template"] = {
        "metadata": {"labels": LABELS, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    if code == 42 and ends and "Ignore" in str(spec.get("podFailurePolicy")):
        # Otherwise it would never end.
        spec["activeDeadlineSeconds"] = 2
    least = choice.choice(({"minAvailable": 1}, {"maxUnavailable": 1}, {"minAvailable": "50%"}))
    return JobLife(
        {"metadata": {"name": "x", "labels": {"seed": str(seed)}}, "spec": spec},
        {"metadata": {"name": "x"}, "spec": {"selector": LABELS, "ports": [{"port": 80, "targetPort": "web"}]}},
        {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": LABELS}, **least}},
        tuple(_step(choice, spec) for _ in range(3)),
    )


def _step(choice: random.Random, spec: Json) -> Json | None:
    # Which of several pods goes is chance, which names with an index show.
    fewest = spec["parallelism"] if spec.get("completionMode") == "Indexed" else 0
    steps: list[Json | None] = [
        None,
        {"spec": {"parallelism": choice.randint(fewest, 5) if spec["parallelism"] > 1 else 1}},
        {"spec": {"suspend": choice.random() < 0.5}},
        # With a shorter deadline it would be random whether pods end by themselves first.
        {"spec": {"activeDeadlineSeconds": 600 if spec["template"]["metadata"]["annotations"] else 1}},
    ]
    if spec.get("completionMode") == "Indexed":
        number = choice.randint(spec["parallelism"], 5)
        steps.append({"spec": {"completions": number, "parallelism": number if spec["parallelism"] > 1 else 1}})
    return choice.choice(steps)
