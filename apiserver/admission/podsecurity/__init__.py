"""PodSecurity: pods keep to the Pod Security Standards in the labels of their namespace.

    policies.py   levels, versions and the policies in a namespace's labels
    subjects.py   names of pods and containers in refusals
    baseline.py   the checks of the level baseline
    restricted.py the checks that the level restricted adds or replaces
    checks.py     the checks of a level in a version
    plugin.py     the admission plugin

Facts: k8s.io/pod-security-admission of 1.36.
"""

from apiserver.admission.podsecurity.plugin import PodSecurity

__all__ = ["PodSecurity"]
