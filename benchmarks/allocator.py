"""Cost of the allocator.

    python -m benchmarks.allocator [--only NAMES] [--profile NAME]

Times cover the allocator only: no API, no scheduler. `filter` is one query whether a node can serve the pod, `cold` the
first query after the slices arrived, `allocate` a whole pod with its result.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from controllers.allocator import Allocator, Features, PodAllocator

Object = dict[str, Any]
DRIVER: Final = "gpu.example.com"


def make_slice(name: str, devices: list[Object], pool: str | None = None, count: int = 1, **spec: Any) -> Object:
    """Build a ResourceSlice, by default in a pool of its own."""
    place = {"name": pool or name, "generation": 1, "resourceSliceCount": count}
    content: Object = {"driver": DRIVER, "pool": place, **spec}
    if devices:
        content["devices"] = devices
    return {"metadata": {"name": name}, "spec": content}


def make_device(number: int, node: str = "") -> Object:
    """Build a GPU as drivers describe it, with a serial number of its own."""
    attributes = {
        "model": {"string": "A100"},
        "driverVersion": {"version": "1.2.3"},
        "numa": {"int": number % 2},
        "uuid": {"string": f"gpu-{node}-{number}"},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "40Gi"}}}


def make_class(expression: str = f'device.driver == "{DRIVER}"') -> Object:
    """Build a DeviceClass."""
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def request(name: str, count: int = 1, expression: str | None = None) -> Object:
    """Build a request for `count` devices."""
    exactly: Object = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if expression is not None:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": exactly}


def make_claim(number: int, requests: list[Object], constraints: list[Object] | None = None) -> Object:
    """Build a claim with these requests."""
    metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests, "constraints": constraints or []}}}


def make_node(name: str) -> Object:
    """Build a node with the usual labels."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "a"}
    return {"metadata": {"name": name, "labels": labels}}


def time_action(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def best(action: Callable[[], Any], repeat: int = 200) -> float:
    """Return the microseconds of the fastest of several runs."""
    return min(time_action(action)[0] for _ in range(repeat)) * 1e6


def invalidate_later(allocator: Allocator, node: str) -> Callable[[], None]:
    """Return a function that changes the state of a device of the node, so that no cached answer is used."""
    device = next(iter(reversed(allocator.inventory.view(make_node(node)).devices)))
    claim = make_claim(10**6, [])
    driver, pool, name = device.id
    used = {"devices": {"results": [{"request": "x", "driver": driver, "pool": pool, "device": name}]}}

    def change() -> None:
        allocator.allocated.assume(claim, used)
        allocator.allocated.forget(claim)

    return change


def report_node(label: str, allocator: Allocator, claims: list[Object], node: str = "node") -> Iterator[str]:
    """Measure the cold, steady and repeated filter and a whole pod on one node."""
    target = make_node(node)
    cold, found = time_action(lambda: allocator.for_pod(claims).allocate(target))
    change = invalidate_later(allocator, node)
    pod = allocator.for_pod(claims)

    def steady() -> Any:
        change()
        return pod.solve(target)

    def whole() -> Any:
        change()
        return allocator.for_pod(claims).allocate(target)

    repeat = 200 if cold < 0.05 else 5
    steady_cost = best(steady, repeat) - best(change, repeat)
    yield (
        f"{label:42} {'found' if found else 'none':6} cold {cold * 1e3:8.2f} ms   filter {steady_cost:9.1f} us   "
        f"unchanged {best(lambda: pod.solve(target)):6.2f} us   allocate {best(whole, repeat) / 1e3:8.3f} ms   "
        f"evaluations {allocator.selectors.evaluations}"
    )


def one_big_node() -> Iterator[str]:
    """Measure 1 node with 1000 devices, 32 requests of one device each; with and without a constraint over all."""
    for label, constraints in (("", []), (", one NUMA node", [{"matchAttribute": f"{DRIVER}/numa"}])):
        for selective in (False, True):
            allocator = Allocator()
            allocator.inventory.upsert_class(make_class())
            for i in range(8):
                devices = [make_device(i * 125 + j, "node") for j in range(125)]
                allocator.inventory.upsert_slice(make_slice(f"slice-{i}", devices, "node", 8, nodeName="node"))
            own = f'device.attributes["{DRIVER}"].model == "A100"' if selective else None
            claim = make_claim(0, [request(f"r{i}", 1, own) for i in range(32)], constraints)
            yield from report_node(f"1000 devices, 32 requests{' + selector' * selective}{label}", allocator, [claim])


def cluster(nodes: int = 500, devices: int = 8, pods: int = 4000) -> Iterator[str]:
    """Measure 500 nodes of 8 devices, one request per pod, 4000 pods in sequence; every pod is tried on every node."""
    allocator = Allocator()
    allocator.inventory.upsert_class(make_class())
    names = [f"node-{i:03}" for i in range(nodes)]

    def publish() -> None:
        for name in names:
            content = [make_device(j, name) for j in range(devices)]
            allocator.inventory.upsert_slice(make_slice(name, content, nodeName=name))

    publishing, _ = time_action(publish)
    targets = [make_node(name) for name in names]
    first, _ = time_action(lambda: [_allocate(allocator, 10**7, targets[:1])])
    allocator.allocated.remove_claim(make_claim(10**7, []))
    costs = [time_action(lambda i=i: _allocate(allocator, i, targets))[0] for i in range(pods)]  # type: ignore[misc]
    costs.sort()
    total = sum(costs)
    yield (
        f"{nodes} nodes x {devices}, {pods} pods, all nodes for each  {pods / total:7.0f} pods/s   "
        f"{total / pods * 1e3:.3f} ms a pod   {total / pods / nodes * 1e6:.2f} us a filter   "
        f"99 % {costs[int(pods * 0.99)] * 1e3:.2f} ms   first pod {costs[-1] * 1e3:.0f} ms   "
        f"(first node ever {first * 1e3:.0f} ms, {nodes} slices {publishing * 1e3:.0f} ms)"
    )


def _allocate(allocator: Allocator, number: int, targets: list[Object]) -> None:
    claim = make_claim(number, [request("r")])
    pod: PodAllocator = allocator.for_pod([claim])
    pod.prefilter()
    found = [(node, solution) for node in targets if (solution := pod.solve(node)) is not None]
    node, solution = found[0]
    [result] = pod.results(solution, node)
    allocator.allocated.assume(claim, result)
    written = {**claim, "status": {"allocation": result}}
    allocator.allocated.upsert_claim(written)
    allocator.allocated.forget(written)


def backtracking() -> Iterator[str]:
    """Measure the backtracking cases of upstream's tests, and worse ones."""
    for count, of in ((5, 4), (21, 20), (32, 31)):
        allocator = Allocator()
        allocator.inventory.upsert_class(make_class())
        devices = [make_device(i, "node") for i in range(of)]
        allocator.inventory.upsert_slice(make_slice("node", devices, nodeName="node"))
        yield from report_node(
            f"{count} of {of} devices, one request", allocator, [make_claim(0, [request("r", count)])]
        )
        single = [request(f"r{i}") for i in range(count)]
        yield from report_node(f"{count} of {of} devices, single requests", allocator, [make_claim(0, single)])
        numa = [{"matchAttribute": f"{DRIVER}/uuid"}]
        yield from report_node(
            f"2 of {of} devices with equal serials", allocator, [make_claim(0, [request("r", 2)], numa)]
        )
        last = [
            *[request(f"r{i}") for i in range(of - 1)],
            request("last", 1, f'device.attributes["{DRIVER}"].numa == 7'),
        ]
        yield from report_node(f"{of - 1} of {of} devices, then one there is not", allocator, [make_claim(0, last)])
        split = [request(f"r{i}", 1, f'device.attributes["{DRIVER}"].numa == 0') for i in range(of // 2)]
        yield from report_node(
            f"{of // 2} of any, then {of // 2} of one kind", allocator,
            [make_claim(0, [request(f"a{i}") for i in range(of // 2)]), make_claim(1, split)],
        )  # fmt: skip
    yield from prioritized()


def prioritized() -> Iterator[str]:
    """Measure eight alternatives for each of four requests, of which only the last ones fit together."""
    allocator = Allocator()
    allocator.inventory.upsert_class(make_class())
    allocator.inventory.upsert_slice(make_slice("node", [make_device(i, "node") for i in range(8)], nodeName="node"))
    requests = []
    for i in range(4):
        choices = [
            {"name": f"s{n}", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": n}
            for n in range(9, 1, -1)
        ]
        requests.append({"name": f"r{i}", "firstAvailable": choices})
    yield from report_node("4 requests with 8 alternatives, 8 devices", allocator, [make_claim(0, requests)])
    requests += [request("one more")]
    yield from report_node("the same and one device too many", allocator, [make_claim(0, requests)])


SHAPES: Final = {"1g": (1, 1, 7), "2g": (2, 2, 3), "3g": (3, 4, 2), "4g": (4, 4, 1), "7g": (7, 8, 1)}


def partitions(gpus: int = 8) -> list[Object]:
    """Build the slices of one node with MIG-like GPUs: memory slices as counters, 25 partitions each."""
    sets, devices = [], []
    for gpu in range(gpus):
        memory = {f"memory-slice-{i}": {"value": "1"} for i in range(8)}
        sets.append({"name": f"gpu-{gpu}", "counters": {"multiprocessors": {"value": "7"}, **memory}})
        devices += _partitions_of(gpu)
    counters = [
        make_slice(f"counters-{i}", [], "node", 2 + gpus // 2, nodeName="node", sharedCounters=sets[i * 4 : i * 4 + 4])
        for i in range(gpus // 4)
    ]
    slices = [
        make_slice(f"devices-{i}", devices[i * 50 : i * 50 + 50], "node", 2 + gpus // 2, nodeName="node")
        for i in range(gpus // 2)
    ]
    return counters + slices


def _partitions_of(gpu: int) -> list[Object]:
    placements = [("7g", 0), ("4g", 0), ("3g", 0), ("3g", 4), ("2g", 0), ("2g", 2), ("2g", 4)]
    placements += [("1g", i) for i in range(7)] + [("1g.me", i) for i in range(7)] + [("2g.me", 0), ("2g.me", 2)]
    placements += [("2g.me", 4), ("4g.me", 0)]
    devices = []
    for profile, start in placements:
        compute, memory, _ = SHAPES[profile.removesuffix(".me")]
        counters = {f"memory-slice-{start + i}": {"value": "1"} for i in range(memory)}
        counters["multiprocessors"] = {"value": str(compute)}
        attributes = {"profile": {"string": profile}, "parent": {"string": f"gpu-{gpu}"}, "type": {"string": "mig"}}
        name = f"gpu-{gpu}-mig-{profile.replace('.', '-')}-{start}"
        devices.append(
            {
                "name": name,
                "attributes": attributes,
                "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": counters}],
            }
        )
    return devices


def partitionable() -> Iterator[str]:
    """Measure one node with 8 GPUs of 25 partitions each."""
    parent = [{"matchAttribute": f"{DRIVER}/parent"}]

    def profile(name: str) -> str:
        return f'device.attributes["{DRIVER}"].profile == "{name}"'

    cases: list[tuple[str, list[Object], list[Object]]] = [
        ("one 3g", [request("r", 1, profile("3g"))], []),
        ("two 3g on one GPU", [request("a", 1, profile("3g")), request("b", 1, profile("3g"))], parent),
        ("seven 1g on one GPU", [request("r", 7, profile("1g"))], parent),
        ("eight 1g on one GPU (too many)", [request("r", 8, profile("1g"))], parent),
        ("eight 3g, then eight 4g", [request("a", 8, profile("3g")), request("b", 8, profile("4g"))], []),
        ("nine 4g (too many)", [request("a", 9, f'{profile("4g")} || {profile("4g.me")}')], []),
        ("eight 3g, eight 4g, one 1g (too many)",
         [request("a", 8, profile("3g")), request("b", 8, profile("4g")), request("c", 1, profile("1g"))], []),
        ("seven 4g, three 3g on two GPUs left",
         [request("a", 7, profile("4g")), request("b", 9, profile("3g")), request("c", 1, profile("7g"))], []),
    ]  # fmt: skip
    for label, requests, constraints in cases:
        allocator = Allocator()
        allocator.inventory.upsert_class(make_class())
        for item in partitions():
            allocator.inventory.upsert_slice(item)
        yield from report_node(f"8 GPUs x 25: {label}", allocator, [make_claim(0, requests, constraints)])


def partitionable_backtracking() -> Iterator[str]:
    """Measure upstream's performance case: the first of eight devices is not permitted."""
    allocator = Allocator(Features())
    allocator.inventory.upsert_class(make_class())
    memory = {"memory": {"value": "70Gi"}, **{f"cpu-{i}": {"value": "1"} for i in range(8)}}
    counters = make_slice(
        "counters", [], "node", 2, nodeName="node", sharedCounters=[{"name": "s", "counters": memory}]
    )
    devices = []
    for i in range(8):
        use = {"memory": {"value": "20Gi" if i == 0 else "10Gi"}, f"cpu-{i}": {"value": "1"}}
        devices.append({**make_device(i), "consumesCounters": [{"counterSet": "s", "counters": use}]})
    allocator.inventory.upsert_slice(counters)
    allocator.inventory.upsert_slice(make_slice("devices", devices, "node", 2, nodeName="node"))
    yield from report_node("7 of 8 devices, only the last 7 fit", allocator, [make_claim(0, [request("r", 7)])])


def shared_pools(pools: int = 2000, pods: int = 500) -> Iterator[str]:
    """Measure 2000 pools for every node, one shareable device each; two requests of half a device per pod."""
    allocator = Allocator()
    allocator.inventory.upsert_class(make_class(f'device.driver == "{DRIVER}" && device.allowMultipleAllocations'))
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    for i in range(pools):
        device = {**make_device(i), "allowMultipleAllocations": True}
        device["capacity"] = {"memory": {"value": "80Gi", "requestPolicy": policy}}
        allocator.inventory.upsert_slice(make_slice(f"pool-{i:04}", [device], nodeSelector=selector))
    targets = [make_node(f"node-{i:03}") for i in range(100)]
    costs = []
    for i in range(pods):
        requests = [request("a"), request("b")]
        for item in requests:
            item["exactly"]["capacity"] = {"requests": {"memory": "40Gi"}}
        claim = make_claim(i, requests)
        pod = allocator.for_pod([claim])
        cost, found = time_action(lambda pod=pod: [pod.solve(node) for node in targets])  # type: ignore[misc]
        costs.append(cost)
        [result] = pod.results(found[0], targets[0])
        allocator.allocated.upsert_claim({**claim, "status": {"allocation": result}})
    costs.sort()
    yield (
        f"{pools} shared pools, 100 nodes, {pods} pods  {sum(costs) / pods * 1e3:.3f} ms a pod   "
        f"{sum(costs) / pods / 100 * 1e6:.2f} us a filter   first {costs[-1] * 1e3:.0f} ms"
    )


SUITES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "big-node": one_big_node,
    "cluster": cluster,
    "backtracking": backtracking,
    "partitionable": partitionable,
    "partitionable-backtracking": partitionable_backtracking,
    "shared-pools": shared_pools,
}


def main() -> None:
    """Run the selected suites."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"comma separated: {', '.join(SUITES)}")
    parser.add_argument("--profile", action="store_true", help="also print a profile")
    options = parser.parse_args()
    for name in options.only.split(",") if options.only else SUITES:
        print(f"# {SUITES[name].__doc__}")
        profiler = cProfile.Profile()
        if options.profile:
            profiler.enable()
        for line in SUITES[name]():
            print(line)
        if options.profile:
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
