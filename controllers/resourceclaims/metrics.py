"""Metrics of the claim controller, with upstream's names."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Counter, Family, Gauge, Labels
from controllers.resourceclaims.pods import POD_CLAIM_NAME
from controllers.runtime.informer import Informer

_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


class ClaimMetrics:
    """Counts created and existing claims. `claims` is the informer of all claims."""

    def __init__(self, claims: Informer) -> None:
        self._claims = claims
        self._creates = Counter(
            "resourceclaim_controller_creates_total",
            "ResourceClaim create requests.",
            ("status", "admin_access"),
        )
        self.families: tuple[Family, ...] = (
            self._creates,
            Gauge(
                "resourceclaim_controller_resource_claims",
                "Existing ResourceClaims.",
                ("allocated", "admin_access", "source"),
                self._count_existing,
            ),
        )

    def count_create(self, claim: Json, *, success: bool) -> None:
        """Count a create request for `claim`."""
        self._creates.inc("success" if success else "failure", _admin_access(claim))

    def _count_existing(self) -> Mapping[Labels, float]:
        return Tally(
            (_bool_label("allocation" in (claim.get("status") or {})), _admin_access(claim), _source(claim))
            for claim in self._claims.objects.values()
        )


def _source(claim: Json) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    if annotations.get(_EXTENDED) == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.get(POD_CLAIM_NAME) else ""


def _admin_access(claim: Json) -> str:
    requests = claim["spec"].get("devices", {}).get("requests") or ()
    return _bool_label(any((request.get("exactly") or {}).get("adminAccess") for request in requests))


def _bool_label(value: bool) -> str:
    return "true" if value else "false"
