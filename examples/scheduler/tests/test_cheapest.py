"""The scheduler in a thread, against a control plane whose own scheduler has the other pods."""

import threading

import cheapest
import pytest

from kubedra import Client


@pytest.fixture
def scheduler(kube):
    for name, price in (("expensive", "3"), ("cheap", "1")):
        kube.add_node(name, labels={cheapest.PRICE: price}, capacity={"cpu": "4"})
    stopping = threading.Event()
    with Client.from_kubeconfig(kube.kubeconfig) as client:
        thread = threading.Thread(target=cheapest.run, args=(client, stopping, 0.1))
        thread.start()
        yield
        stopping.set()
        thread.join()


def pod(name, cpu="1", scheduler=cheapest.NAME):
    container = {"name": "main", "image": "registry.example.com/main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def node_of(kube, name):
    return kube.wait(f"pod/{name}", "phase=Running")["spec"]["nodeName"]


def test_pods_fill_the_cheapest_node_first(kube, scheduler):
    for name in ("a", "b"):
        kube.create(pod(name, cpu="2"))
        assert node_of(kube, name) == "cheap"
    kube.create(pod("c", cpu="500m"))
    assert node_of(kube, "c") == "expensive"


def test_a_pod_without_room_has_a_reason_and_is_bound_when_a_pod_ends(kube, scheduler):
    kube.create(pod("a", cpu="4"))
    kube.create(pod("b", cpu="4"))
    assert {node_of(kube, "a"), node_of(kube, "b")} == {"cheap", "expensive"}
    kube.create(pod("c", cpu="3"))
    waiting = kube.wait("pod/c", "condition=PodScheduled=False")
    assert waiting["status"]["conditions"][0]["message"] == "no node has enough free CPU"
    kube.delete("pod/b")
    assert node_of(kube, "c") == "expensive"


def test_a_binding_that_fails_is_tried_again(kube, scheduler):
    with kube.fault(verb="create", resource="pods/binding", status=409, count=2) as fault:
        kube.create(pod("a"))
        assert node_of(kube, "a") == "cheap"
    assert fault.fired() == 2


def test_a_cordoned_node_is_left_out_and_other_pods_stay_with_the_cluster(kube, scheduler):
    kube.patch("node/cheap", {"spec": {"unschedulable": True}})
    kube.create(pod("a"))
    assert node_of(kube, "a") == "expensive"
    kube.create(pod("other", scheduler="default-scheduler"))
    kube.wait("pod/other", "phase=Running")
    binders = {request["userAgent"].split("/")[0] for request in kube.requests(verb="create", resource="pods/binding")}
    assert len(binders) == 2, "each scheduler has bound its own pod"
