"""Aggregates the rules of selected cluster roles. Facts: upstream's pkg/controller/clusterroleaggregation."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import from_object
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import CLUSTER_ROLES

NAME = "clusterrole-aggregation-controller"
_INDEX = "aggregated"


def build(client: Client, informers: Informers, options: Options) -> ClusterRoles:
    """Build the component for the manager."""
    return ClusterRoles(client, informers)


class ClusterRoles(ControllerComponent):
    """The aggregation controller. Keys are names of aggregated roles; any role's change enqueues all."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.for_controller(NAME)
        self._roles = informers.of(CLUSTER_ROLES)
        self._aggregated = self._roles.index(_INDEX, lambda role: ("yes",) if role.get("aggregationRule") else ())
        self._all = self._roles.index("every", lambda _: ("",))
        self._controller = Controller(NAME, self.reconcile)
        self._controller.follow(self._roles, lambda _: self._aggregated.keys("yes"))

    async def reconcile(self, name: str) -> None:
        role = self._roles.get(name)
        if role is None or not role.get("aggregationRule"):
            return
        rules = aggregate_rules(role, self._all.get(""))
        if rules != (role.get("rules") or []):
            body = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": rules,
            }
            await self._client.patch(CLUSTER_ROLES, name, body, type="apply", field_manager=NAME, force=True)


def aggregate_rules(role: Json, roles: Iterable[Json]) -> list[Json]:
    """Return the distinct rules of the selected roles, ordered by selector, then by role name."""
    rules: list[Json] = []
    ordered = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        chosen = from_object(selector)
        for each in ordered:
            if each["metadata"]["name"] != role["metadata"]["name"] and chosen.matches(each["metadata"].get("labels")):
                rules += [rule for rule in each.get("rules") or () if rule not in rules]
    return rules
