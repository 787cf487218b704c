"""PodSecurity: pods keep to the Pod Security Standards that the labels of their namespace name.

    policies.py   levels, versions and what the labels of a namespace ask for
    subjects.py   who sets what in a pod, as texts name it
    baseline.py   the checks of the level baseline
    restricted.py those that the level restricted adds, or puts in the place of some
    checks.py     the checks of a level in a version
    plugin.py     the admission plugin

Facts: k8s.io/pod-security-admission of 1.36.
"""

from apiserver.admission.podsecurity.plugin import PodSecurity

__all__ = ["PodSecurity"]
