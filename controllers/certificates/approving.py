"""Approves requests for client certificates of nodes if the requester is authorized.

A node that requests its own certificate needs create on `certificatesigningrequests/selfnodeclient`; others need
`…/nodeclient`. Facts: upstream's pkg/controller/certificates/approver.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from controllers.certificates.requests import RETRY_DELAYS, condition, parse, with_condition
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent, NotYetError
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from controllers.signing.purposes import KUBELET_CLIENT, common_name, kubelet_client_problem

NAME: Final = "certificatesigningrequest-approving-controller"
_WORKERS: Final = 5
_APPROVED: Final = "Auto approving {}kubelet client certificate after SubjectAccessReview."


def build(client: Client, informers: Informers, options: Options) -> Approver:
    """Build the component for the manager."""
    return Approver(client, informers)


class Approver(ControllerComponent):
    """The approving controller. Keys are names of requests."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.for_controller("certificate-controller")
        self._requests = informers.of(SIGNING_REQUESTS, field_selector=f"spec.signerName={KUBELET_CLIENT}")
        self._controller = Controller(
            NAME, self.reconcile, workers=_WORKERS, queue="certificate", retry_delays=RETRY_DELAYS
        )
        self._controller.follow(self._requests)

    async def reconcile(self, name: str) -> None:
        request = self._requests.get(name)
        if request is None or (request.get("status") or {}).get("certificate"):
            return
        if condition(request, "Approved") or condition(request, "Denied"):
            return
        csr, spec = parse(request), request["spec"]
        if kubelet_client_problem(csr, spec.get("usages") or ()):
            return
        own = spec.get("username", "") == common_name(csr)
        tried = (("selfnodeclient", "self "), ("nodeclient", "")) if own else (("nodeclient", ""),)
        for subresource, word in tried:
            if await self._is_authorized(spec, subresource):
                approved = with_condition(request, "Approved", "AutoApproved", _APPROVED.format(word))
                try:
                    await self._client.update(SIGNING_REQUESTS, approved, "approval")
                except Exception as error:
                    if not is_reason(error, "NotFound"):
                        raise
                return
        names = " ".join(subresource for subresource, _ in tried)
        raise NotYetError(f"recognized csr as [{names}] but subject access review was not approved")

    async def _is_authorized(self, spec: Json, subresource: str) -> bool:
        attributes = {
            "group": "certificates.k8s.io",
            "version": "*",
            "resource": "certificatesigningrequests",
            "subresource": subresource,
            "verb": "create",
        }
        asks = {"user": spec.get("username", ""), "uid": spec.get("uid", ""), "groups": spec.get("groups") or []}
        review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "metadata": {},
            "spec": {**asks, "extra": spec.get("extra") or {}, "resourceAttributes": attributes},
        }
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, review)
        return bool(answer["status"].get("allowed"))
