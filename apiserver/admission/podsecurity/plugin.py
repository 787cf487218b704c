"""The PodSecurity admission plugin: the modes enforce, warn and audit.

Pods that violate the enforced level are refused. A write of a pod or a pod template that violates the other levels gets
a warning and an audit annotation. A tighter level on a namespace gets warnings about its existing pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from apiserver.admission.podsecurity.checks import NEWEST, findings
from apiserver.admission.podsecurity.configuration import PodSecurityConfiguration
from apiserver.admission.podsecurity.counting import Evaluations
from apiserver.admission.podsecurity.policies import PREFIX, PRIVILEGED, Policy, Standard, policy_of
from apiserver.admission.podsecurity.subjects import Finding, PodToCheck
from apiserver.api.errors.field_errors import aggregate
from apiserver.api.errors.status import forbidden, invalid
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry
    from apiserver.runtime.metrics import Family

__all__ = ["PodSecurity"]


_NAMESPACES: Final = ("", "namespaces")
_PODS: Final = ("", "pods")
_TEMPLATE: Final = ("spec", "template")
#: Path of the pod template by kind.
_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): _TEMPLATE,
    ("apps", "daemonsets"): _TEMPLATE,
    ("apps", "deployments"): _TEMPLATE,
    ("apps", "replicasets"): _TEMPLATE,
    ("apps", "statefulsets"): _TEMPLATE,
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): _TEMPLATE,
}
#: Subresources of pods that do not change the pod's specification.
_OTHERS: Final = frozenset({"attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"})
#: Maximum number of a namespace's pods that a label change checks.
_MOST_PODS: Final = 3000


class PodSecurity(Plugin):
    name = "PodSecurity"
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(
        self,
        registry: Registry,
        configuration: PodSecurityConfiguration = PodSecurityConfiguration(),  # noqa: B008
    ) -> None:
        self._configuration = configuration
        self._newest = min(NEWEST, registry.features.release[1])
        self._metrics = Evaluations(self._newest)

    def families(self) -> Sequence[Family]:
        return self._metrics.families

    def handles(self, resource: Resource) -> bool:
        kind = (resource.group, resource.plural)
        return kind in (_NAMESPACES, _PODS) or kind in _TEMPLATES

    def validate(self, attributes: Attributes) -> None:
        kind = (attributes.resource.group, attributes.resource.plural)
        if attributes.obj is None:
            return
        if kind == _PODS:
            if attributes.subresource not in _OTHERS and _is_relevant_change(attributes.obj, attributes.old):
                self._check(attributes, attributes.obj, enforced=True)
        elif attributes.subresource:
            return
        elif kind == _NAMESPACES:
            self._check_namespace(attributes, attributes.obj)
        else:
            template: Json = attributes.obj
            for step in _TEMPLATES[kind]:
                template = template.get(step) or {}
            if template:
                self._check(attributes, template, enforced=False)

    def _check(self, attributes: Attributes, pod: Json, *, enforced: bool) -> None:
        """Check a pod. Raise 403 for a violation of the enforced level; warn about others."""
        if reason := self._exempt(attributes, pod):
            attributes.ctx.annotations[f"{PREFIX}exempt"] = reason
            self._metrics.record_exemption(attributes)
            return
        namespace = attributes.ctx.lookup("", "namespaces", "", attributes.namespace)
        policy, errors = policy_of(
            namespace["metadata"].get("labels") if namespace is not None else None, self._configuration.defaults
        )
        notes, checked = attributes.ctx.annotations, _get_pod_to_check(pod)
        if enforced:
            notes[f"{PREFIX}enforce-policy"] = str(policy.enforce)
        if policy.privileged and not errors:
            if enforced:
                self._metrics.record_evaluation(attributes, "enforce", policy.enforce, allowed=True)
            return
        if errors:
            self._metrics.record_error(attributes)
            notes[f"{PREFIX}error"] = f"Failed to parse policy: {aggregate(errors)}"
        if found := findings(policy.audit, checked, self._newest):
            self._metrics.record_evaluation(attributes, "audit", policy.audit, allowed=False)
            notes[f"{PREFIX}audit-violations"] = _text("would violate", policy.audit, found)
        found = findings(policy.enforce, checked, self._newest) if enforced else []
        if enforced:
            self._metrics.record_evaluation(attributes, "enforce", policy.enforce, allowed=not found)
        if found:
            cause = _text("violates", policy.enforce, found)
            raise forbidden(attributes.resource.plural, attributes.resource.group, attributes.name, cause)
        if found := findings(policy.warn, checked, self._newest):
            self._metrics.record_evaluation(attributes, "warn", policy.warn, allowed=False)
            attributes.ctx.warnings.append(_text("would violate", policy.warn, found))

    def _check_namespace(self, attributes: Attributes, namespace: Json) -> None:
        """Check the labels of a namespace.

        Raises 422 for new invalid labels. Warns of pods that violate the new enforced level.
        """
        defaults, labels = self._configuration.defaults, namespace["metadata"].get("labels") or {}
        policy, errors = policy_of(labels, defaults)
        before, known = policy_of((attributes.old or {"metadata": {}})["metadata"].get("labels"), defaults)
        if errors and (attributes.old is None or errors != known):
            raise invalid("Namespace", "", attributes.name, errors)
        enforce, exempt = policy.enforce, attributes.name in self._configuration.namespaces
        if exempt and attributes.old is None:
            attributes.ctx.warnings += _warn_exempt(attributes.name, policy, defaults, labels)
        if attributes.old is None or enforce == before.enforce or enforce.level == PRIVILEGED:
            return
        if enforce.version != before.enforce.version or enforce.strictness > before.enforce.strictness:
            attributes.ctx.warnings += (
                _warn_exempt(attributes.name, policy, defaults, labels)
                if exempt
                else self._find_violations(attributes, enforce)
            )

    def _exempt(self, attributes: Attributes, pod: Json) -> str:
        """Return the reason for an exemption; "" if there is none."""
        configuration = self._configuration
        if attributes.namespace in configuration.namespaces:
            return "namespace"
        if attributes.ctx.user.name in configuration.users:
            return "user"
        runtime = (pod.get("spec") or {}).get("runtimeClassName")
        return "runtimeClass" if runtime in configuration.runtime_classes else ""

    def _find_violations(self, attributes: Attributes, enforce: Standard) -> Iterator[str]:
        """Yield a warning per set of reasons for which pods of a namespace violate the new enforced level."""
        pods = [pod for pod in attributes.ctx.all_of("", "pods") if pod["metadata"].get("namespace") == attributes.name]
        looked_at = _put_controllers_first(pods)[:_MOST_PODS]
        names: dict[str, list[str]] = {}
        for pod in looked_at:
            if (pod["spec"].get("runtimeClassName") or "") in self._configuration.runtime_classes:
                continue
            reasons = ", ".join(found.reason for found in findings(enforce, _get_pod_to_check(pod), self._newest))
            if reasons:
                names.setdefault(reasons, []).append(pod["metadata"]["name"])
        if len(looked_at) < len(pods):
            yield (
                f"new PodSecurity enforce level only checked against the first {len(looked_at)} of {len(pods)} existing"
                " pods"
            )
        if names:
            violate = f'violate the new PodSecurity enforce level "{enforce}"'
            yield f'existing pods in namespace "{attributes.name}" {violate}'
        yield from sorted(f"{_first_of(found)}: {reasons}" for reasons, found in names.items())


def _warn_exempt(name: str, policy: Policy, defaults: Policy, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning that the labels of an exempt namespace have no effect."""
    if policy.privileged or policy == defaults:
        return
    asked = ", ".join(
        f"{mode}={standard}"
        for mode, standard in zip(("enforce", "audit", "warn"), policy, strict=True)
        if standard.level != PRIVILEGED and {f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"} & set(labels)
    )
    yield f'namespace "{name}" is exempt from Pod Security, and the policy ({asked}) will be ignored'


def _text(verb: str, standard: Standard, found: list[Finding]) -> str:
    return f'{verb} PodSecurity "{standard}": {", ".join(map(str, found))}'


def _get_pod_to_check(pod: Mapping[str, Any]) -> PodToCheck:
    """Return the part of a pod or a pod template to check."""
    return PodToCheck((pod.get("metadata") or {}).get("annotations") or {}, pod.get("spec") or {})


def _is_relevant_change(pod: Json, old: Json | None) -> bool:
    """Return whether a pod is new, or has new containers or images."""
    if old is None:
        return True
    fields = ("containers", "initContainers", "ephemeralContainers")
    return any(_images(pod, field) != _images(old, field) for field in fields)


def _images(pod: Json, field: str) -> list[tuple[str, str]]:
    return [(container["name"], container.get("image", "")) for container in pod["spec"].get(field) or ()]


def _put_controllers_first(pods: list[Any]) -> list[Any]:
    """Put one pod of each controller before the controller's other pods."""
    first: list[Any] = []
    others: list[Any] = []
    seen = set()
    for pod in pods:
        owner = next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        repeated = owner is not None and owner["uid"] in seen
        (others if repeated else first).append(pod)
        if owner is not None:
            seen.add(owner["uid"])
    return first + others


def _first_of(names: list[str]) -> str:
    more = len(names) - 1
    if not more:
        return names[0]
    return f"{min(names)} (and {more} other {'pod' if more == 1 else 'pods'})"
