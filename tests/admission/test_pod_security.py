"""Checks of pod security: the versions in which they begin, and the annotations of AppArmor."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.admission.podsecurity.checks import findings
from apiserver.admission.podsecurity.policies import Standard
from apiserver.admission.podsecurity.subjects import PodToCheck

#: A container that the restricted level of every version allows.
ALLOWED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"


def reasons(level: str, version: int, security: dict[str, Any], profile: str | None = None) -> list[str]:
    container = {"name": "c", "image": "i", "securityContext": security}
    pod = PodToCheck({} if profile is None else {APP_ARMOR: profile}, {"containers": [container]})
    return [finding.reason for finding in findings(Standard(level, version), pod)]


@pytest.mark.parametrize(
    ("changed", "since", "reason"),
    [
        ({"allowPrivilegeEscalation": True}, 8, "allowPrivilegeEscalation != false"),
        ({"runAsUser": 0}, 23, "runAsUser=0"),
        ({"capabilities": {}}, 22, "unrestricted capabilities"),
        ({"seccompProfile": {}}, 19, "seccompProfile"),
    ],
)
def test_a_restricted_check_begins_in_the_version_that_added_it(
    changed: dict[str, Any], since: int, reason: str
) -> None:
    assert reasons("restricted", 36, ALLOWED) == []
    assert reasons("restricted", since - 1, ALLOWED | changed) == []
    assert reasons("restricted", since, ALLOWED | changed) == [reason]


@pytest.mark.parametrize("profile", ["", "runtime/default", "localhost/mine"])
def test_the_baseline_allows_these_profiles_of_app_armor(profile: str) -> None:
    assert reasons("baseline", 36, {}, profile=profile) == []


def test_the_baseline_forbids_other_profiles_of_app_armor() -> None:
    assert reasons("baseline", 36, {}, profile="unconfined") == ["forbidden AppArmor profile"]
