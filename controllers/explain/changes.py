"""What would have to change for a pod to fit: candidates, each tried out in the world with that change.

Nothing is said to help that the allocator and the filters did not accept. Single changes come first; where none helps,
pairs of freed claims, then more devices at once, then as many freed claims as it takes, less those that are not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import combinations
from time import monotonic
from typing import Any, Final

from controllers.allocator.explain import Explanation
from controllers.claims import claim_names
from controllers.explain.findings import Possible, plural
from controllers.explain.nodechanges import Change, node_changes
from controllers.explain.world import Trial, World
from controllers.runtime.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES, Json, key_of

__all__ = ["Changes"]

#: Sets of changes that are shown, of each sort.
_SHOWN: Final = 3
#: Seconds of work after which the search is given up.
_PATIENCE: Final = 5.0
_PAIRS: Final = 100
_MOST_DEVICES: Final = 32
#: What makes another device one like it.
_COPIED: Final = ("attributes", "capacity", "allowMultipleAllocations")


class Changes:
    """The search for one pod. `tried` counts what was tried out."""

    def __init__(self, world: World, trial: Trial, explained: Mapping[str, Explanation]) -> None:
        self._world, self._trial, self._explained = world, trial, explained
        self._end = monotonic() + _PATIENCE
        self.tried = 0
        self._helped: list[Change] = []
        self._devices: dict[tuple[str, str, str], Json] | None = None

    def find(self) -> list[Possible]:
        """Sets of changes that help, the smallest there are."""
        frees = list(self._frees())
        singles: list[Change] = [
            *frees,
            *self._tolerations(),
            *self._more_devices(1),
            *node_changes(self._world, self._trial),
        ]
        found = self._try(((change,) for change in singles), by_sort=True)
        if found:
            # What one device does not do several may: another way out.
            return found if any(change.sort == "device" for change in self._helped) else found + self._first_amount()
        found = self._try((pair for pair, _ in zip(combinations(frees, 2), range(_PAIRS), strict=False)))
        found += self._first_amount()
        return found or self._many(frees)

    def _try(self, sets: Iterable[Sequence[Change]], *, by_sort: bool = False) -> list[Possible]:
        found: list[Possible] = []
        shown: dict[str, int] = {}
        for changes in sets:
            sort = changes[0].sort
            if shown.get(sort, 0) >= _SHOWN or monotonic() > self._end:
                if by_sort:
                    continue
                break
            node = self._fits(changes)
            if node:
                shown[sort] = shown.get(sort, 0) + 1
                self._helped.extend(changes)
                found.append(Possible([change.text for change in changes], node))
        return found

    def _fits(self, changes: Sequence[Change]) -> str:
        """The node on which the pod fits after these changes; "" for none."""
        self.tried += 1
        pod = next((change.pod for change in changes if change.pod is not None), self._trial.pod.pod)
        preempts = any(change.preempts for change in changes)
        with self._world.as_if([edit for change in changes for edit in change.edits]):
            trial = self._world.try_pod(pod, first=True)
            chosen = self._world.preemption(trial).chosen if preempts and not trial.fitting else None
        if chosen is not None:
            return f"{chosen.node} once {', '.join(victim.key for victim in chosen.victims)} has ended for it"
        return trial.fitting[0].name if trial.fitting else ""

    # Claims that hold devices

    def _frees(self) -> Iterator[Change]:
        """Claims that hold devices that the pod could use; those with the most first."""
        held: dict[str, int] = {}
        for explanation in self._explained.values():
            for request in explanation.requests:
                for reason in request.reasons:
                    for claim, count in reason.claims.items():
                        held[claim] = held.get(claim, 0) + count
            if explanation.nearest_miss is not None:
                for reason in explanation.nearest_miss.reasons:
                    for claim in reason.claims:
                        held.setdefault(claim, 0)
        for claim in sorted(held, key=lambda name: (-held[name], name)):
            obj = self._world.of(RESOURCE_CLAIMS).get(claim)
            if obj is not None:
                yield Change("free", self._freed(claim, obj), ((RESOURCE_CLAIMS, claim, without_allocation(obj)),))

    def _freed(self, key: str, claim: Json) -> str:
        users = [user["name"] for user in (claim.get("status") or {}).get("reservedFor") or ()]
        return f"free claim {key}" + (f" (used by {', '.join(users)})" if users else "")

    def _many(self, frees: Sequence[Change]) -> list[Possible]:
        """As many freed claims as it takes, without those that are not needed."""
        needed: list[Change] = []
        node = ""
        for change in frees:
            if monotonic() > self._end:
                return []
            needed.append(change)
            if node := self._fits(needed):
                break
        if not node:
            return []
        for change in list(needed):
            fewer = [other for other in needed if other is not change]
            if fewer and monotonic() < self._end and (found := self._fits(fewer)):
                needed, node = fewer, found
        return [Possible([change.text for change in needed], node)]

    # Taints of devices

    def _tolerations(self) -> Iterator[Change]:
        """Tolerations in the pod's own claims for each taint that keeps it from devices."""
        claims = self._pending_claims()
        for key, value, effect in self._device_taints() if claims else ():
            toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
            edits = tuple((RESOURCE_CLAIMS, key_of(claim), with_toleration(claim, toleration)) for claim in claims)
            names = ", ".join(claim["metadata"]["name"] for claim in claims)
            taint = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
            yield Change("tolerate", f"tolerate the device taint {taint} in claim {names}", edits)

    def _pending_claims(self) -> list[Json]:
        namespace = self._trial.pod.namespace
        found = (
            self._world.of(RESOURCE_CLAIMS).get(f"{namespace}/{name}") for name in claim_names(self._trial.pod.pod)
        )
        return [claim for claim in found if claim is not None and not (claim.get("status") or {}).get("allocation")]

    def _device_taints(self) -> list[tuple[str, str, str]]:
        kept_off = [
            node
            for node, explanation in self._explained.items()
            if any(reason.kind == "taint" for request in explanation.requests for reason in request.reasons)
        ]
        inventory = self._world.scheduler.allocator.inventory
        found = {
            tuple(taint)
            for node in kept_off
            for device in inventory.view(self._world.scheduler.cache.nodes[node].node or {}).devices
            for taint in device.taints
        }
        return sorted(found)

    # More devices

    def _first_amount(self) -> list[Possible]:
        """The fewest devices more that help, where one does not."""
        for count in range(2, _MOST_DEVICES + 1):
            found = self._try((change,) for change in self._more_devices(count))
            if found or monotonic() > self._end:
                return found
        return []

    def _more_devices(self, count: int) -> Iterator[Change]:
        """More devices like one that the selectors accept, on the first node of each kind that has such."""
        seen: set[tuple[str, str]] = set()
        for node, explanation in self._explained.items():
            for driver, pool, name in _accepted(explanation):
                device, kind = self._device(driver, pool, name)
                if device is None or (driver, kind) in seen:
                    continue
                seen.add((driver, kind))
                slices = {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceSlice",
                    "metadata": {"name": f"more-on-{node}", "uid": f"more-on-{node}", "resourceVersion": "0"},
                    "spec": {
                        "driver": driver,
                        "nodeName": node,
                        "pool": {"name": f"more-on-{node}", "generation": 1, "resourceSliceCount": 1},
                        "devices": [{**device, "name": f"more-{number}"} for number in range(count)],
                    },
                }
                more = f"{plural(count, 'device')} more like {name} ({kind})"
                edits = ((RESOURCE_SLICES, f"more-on-{node}", slices),)
                yield Change("device", f"{more} of driver {driver} on node {node}", edits)

    def _device(self, driver: str, pool: str, name: str) -> tuple[Json | None, str]:
        """A copy that depends on nothing else of its pool, and what kind of device it is."""
        if self._devices is None:
            self._devices = {
                (slice_["spec"]["driver"], slice_["spec"]["pool"]["name"], device["name"]): device
                for slice_ in self._world.objects(RESOURCE_SLICES)
                for device in slice_["spec"].get("devices") or ()
            }
        device = self._devices.get((driver, pool, name))
        if device is None or device.get("consumesCounters"):
            return None, ""
        return {field: device[field] for field in _COPIED if field in device}, _kind(device)


def without_allocation(claim: Json) -> Json:
    """The claim with nothing allocated."""
    status = {
        key: value for key, value in (claim.get("status") or {}).items() if key not in ("allocation", "reservedFor")
    }
    return {**claim, "status": status}


def with_toleration(claim: Json, toleration: Json) -> Json:
    """The claim with one toleration more in every request."""
    changed: Json = {**claim, "spec": deepcopy(claim["spec"])}
    for request in changed["spec"].get("devices", {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is not None:
                asked["tolerations"] = [*(asked.get("tolerations") or ()), toleration]
    return changed


def _accepted(explanation: Explanation) -> Iterator[tuple[str, str, str]]:
    """Devices that the selectors of a request accept."""
    for request in explanation.requests:
        names = [name for r in request.reasons if r.kind in ("allocated", "capacity", "taint") for name in r.examples]
        if explanation.nearest_miss is not None:
            names += [placed.partition(" -> ")[2] for placed in explanation.nearest_miss.placed]
            names += [name for reason in explanation.nearest_miss.reasons for name in reason.examples]
        for name in [*request.chosen, *names]:
            driver, _, rest = name.partition("/")
            pool, _, device = rest.rpartition("/")
            yield driver, pool, device


def _kind(device: Json) -> str:
    """What tells a device from others to people: its texts, but for what is its own."""

    def said(name: str, value: Any) -> str:
        return f"{name}={next(iter(value.values()))}"

    attributes = device.get("attributes") or {}
    own = ("uuid", "index", "serial", "minor", "pci", "id")
    telling = [
        said(name, value)
        for name, value in sorted(attributes.items())
        if ("string" in value or "version" in value) and not any(part in name.lower() for part in own)
    ]
    return ", ".join(telling[:3]) or "no attributes"
