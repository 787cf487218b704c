"""The metrics of PodSecurity. Facts: k8s.io/pod-security-admission, metrics."""

from __future__ import annotations

from typing import Final

from apiserver.admission.podsecurity.policies import LATEST, PRIVILEGED, Standard
from apiserver.registry.store.admission import Attributes
from apiserver.runtime.metrics import Counter, Family

__all__ = ["Evaluations"]

_REQUEST: Final = ("request_operation", "resource", "subresource")
_ALONE: Final = {"pods": "pod", "namespaces": "namespace"}


class Evaluations:
    """The metrics of one server; `newest` is the minor version of its newest checks."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._evaluated = Counter(
            "pod_security_evaluations_total",
            "Pod Security policy evaluations.",
            ("decision", "policy_level", "policy_version", "mode", *_REQUEST),
        )
        self._exempt = Counter("pod_security_exemptions_total", "Exempt requests.", _REQUEST)
        self._errors = Counter(
            "pod_security_errors_total", "Errors that prevented a Pod Security evaluation.", ("fatal", *_REQUEST)
        )
        for operation in ("create", "update"):
            self._evaluated.sample("allow", PRIVILEGED, "latest", "enforce", operation, "pod", "")
            for resource in ("pod", "controller"):
                self._exempt.sample(operation, resource, "")
        self.families: list[Family] = [self._evaluated, self._exempt, self._errors]

    def record_evaluation(self, attributes: Attributes, mode: str, standard: Standard, *, allowed: bool) -> None:
        version = "latest"
        if standard.version != LATEST and standard.level != PRIVILEGED:
            version = f"v1.{standard.version}" if standard.version <= self._newest else "future"
        decision = "allow" if allowed else "deny"
        self._evaluated.sample(decision, standard.level, version, mode, *_labels(attributes)).value += 1

    def record_exemption(self, attributes: Attributes) -> None:
        self._exempt.sample(*_labels(attributes)).value += 1

    def record_error(self, attributes: Attributes) -> None:
        self._errors.sample("false", *_labels(attributes)).value += 1


def _labels(attributes: Attributes) -> tuple[str, str, str]:
    resource = "controller" if attributes.resource.group else _ALONE.get(attributes.resource.plural, "controller")
    return attributes.operation.lower(), resource, attributes.subresource
