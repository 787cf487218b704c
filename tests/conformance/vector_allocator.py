"""Allocator vectors: which devices claims get on one node.

Only lines whose `implementations` hold `incubating` or `experimental` count: there is one allocator, with their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from controllers.allocator import AllocationError, Allocator, Features
from controllers.allocator.allocated import DeviceUse
from controllers.allocator.amounts import nanos
from tests.conformance.vectors import Case, Skipped

_OURS = {"incubating", "experimental"}
_SHARE = "<shareID>"


def handle(case: Case) -> Skipped | str | None:
    """One recorded allocation."""
    if not _OURS & set(case["implementations"]):
        return Skipped("what the stable allocator alone does")
    allocations, error = _run(case)
    outcomes = [case["expected"], *case["alternatives"]]
    differences = [_difference(allocations, error, outcome, case["resultOrder"]) for outcome in outcomes]
    return None if None in differences else differences[0]


def make_allocator(case: Case) -> Allocator:
    """Make an allocator with the state of a case."""
    gates = case["features"]
    gates = {**gates, "DRAResourceClaimDeviceStatus": gates["DRADeviceBindingConditions"]}
    allocator = Allocator(Features.from_gates(lambda name: gates[name]), new_share_id=lambda: _SHARE)
    for item in _unique_names(case["slices"] or ()):
        allocator.inventory.upsert_slice(item)
    for item in case["classes"] or ():
        allocator.inventory.upsert_class(item)
    uses = [DeviceUse(_id(item)) for item in case["allocatedDevices"] or ()]
    uses += [DeviceUse(_id(item), item["shareID"]) for item in case["allocatedSharedDevices"] or ()]
    for item in case["allocatedCapacity"] or ():
        consumed = item.get("consumedCapacity") or {}
        uses.append(DeviceUse(_id(item), "capacity", tuple((name, nanos(str(q))) for name, q in consumed.items())))
    allocator.allocated.put("recorded", uses)
    return allocator


def _unique_names(slices: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give each slice a name of its own and keep the order of the names; some recordings use one name for several."""
    seen: Counter[str] = Counter()
    for item in slices:
        name = item["metadata"]["name"]
        repeated = f"{name}\0{seen[name]}" if seen[name] else name
        seen[name] += 1
        yield {**item, "metadata": {**item["metadata"], "name": repeated}}


def _id(item: dict[str, Any]) -> tuple[str, str, str]:
    return (item["driver"], item["pool"], item["device"])


def _run(case: Case) -> tuple[list[dict[str, Any]] | None, AllocationError | None]:
    try:
        return make_allocator(case).for_pod(case["claims"] or []).allocate(case["node"]), None
    except AllocationError as error:
        return None, error


def _difference(
    allocations: list[dict[str, Any]] | None, error: AllocationError | None, want: dict[str, Any], order: str | None
) -> str | None:
    if want.get("error") is not None:
        if error is None:
            return f"got {allocations!r}, want the error {want['error']!r}"
        part = want.get("errorContains") or want["error"]
        if part not in error.text:
            return f"got the error {error.text!r}, want {want['error']!r}"
        if error.scope != want["errorScope"]:
            return f"got an error of scope {error.scope}, want {want['errorScope']}"
        return None
    if error is not None:
        return f"got the error {error.text!r}, want {want['allocations']!r}"
    got, expected = _plain(allocations), _plain(want["allocations"])
    if order != "exact":
        got, expected = _unordered(got), _unordered(expected)
    return None if got == expected else f"got {got!r}, want {expected!r}"


def _plain(value: Any) -> Any:
    """Without null members; share IDs are random."""
    if isinstance(value, dict):
        return {k: _SHARE if k == "shareID" else _plain(v) for k, v in value.items() if v is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _unordered(allocations: list[dict[str, Any]] | None) -> Any:
    if allocations is None:
        return None
    ordered = []
    for allocation in allocations:
        devices = allocation.get("devices") or {}
        results = sorted(devices.get("results") or [], key=repr)
        ordered.append({**allocation, "devices": {**devices, "results": results}})
    return ordered
