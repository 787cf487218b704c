"""Whether the pods of a Job start together, and in which group: one look, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, WORKLOADS, Kind, key_of
from controllers.runtime.transport import NoTransport
from controllers.workloads.common.references import controller_of
from controllers.workloads.jobs.gangs import Gangs, is_gang, new_group, new_workload
from tests.support.recording import FakeRecorder, RecordingClient
from tests.support.virtual import run

pytestmark = pytest.mark.integration


def job(status: Json | None = None, uid: str = "u", **spec: Any) -> Json:
    template = {"metadata": {}, "spec": spec.pop("pod", {})}
    given = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template, **spec}
    return {"metadata": {"name": "j", "namespace": "ns", "uid": uid}, "spec": given, "status": status or {}}


def named(obj: Json, name: str, **metadata: Any) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "name": name, "uid": name, **metadata}}


WORKLOAD = named(new_workload(job()), "w")
GROUP = named(new_group(job(), WORKLOAD), "g")


class Looked:
    def __init__(self, found: Json, *there: tuple[Kind, Json], pods: int = 0, unserved: Kind | None = None) -> None:
        self.client, self.told, self.wrote = RecordingClient({"Workload": self._made}), FakeRecorder(), list[str]()

        async def scenario() -> Json | None:
            informers = Informers(Client(NoTransport()))
            gangs = Gangs(self.client, self.told, informers, self._wrote)  # type: ignore[arg-type]
            for kind in (WORKLOADS, POD_GROUPS):
                informers.of(kind)._answered.set()
                if kind != unserved:
                    informers.of(kind).mark_synced()
            for kind, obj in there:
                informers.of(kind).set_object(key_of(obj), obj)
            return await gangs.group_of(found, [{}] * pods)

        self.group = run(scenario)

    @staticmethod
    def _made(body: Json) -> Json:
        return named(body, body["metadata"]["name"])

    def _wrote(self, _: Json, kind: Kind, obj: Json) -> Json:
        self.wrote.append(kind.kind)
        return obj


def test_a_job_that_begins_gets_a_workload_and_a_group() -> None:
    new = Looked(job())
    [(_, _, workload), (_, _, group)] = new.client.writes
    assert (new.client.verbs, new.wrote, new.group) == (["create", "create"], ["Workload", "PodGroup"], group)
    name = workload["metadata"]["name"]
    assert new.told.events == [("Normal", "WorkloadCreated", f"Created Workload {name} for Job j")]
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
        "podGroupTemplates": [{"name": "j-pgt-0", "schedulingPolicy": {"gang": {"minCount": 3}}}],
    }
    assert group["spec"] == {
        "podGroupTemplateRef": {"workload": {"workloadName": name, "podGroupTemplateName": "j-pgt-0"}},
        "schedulingPolicy": {"gang": {"minCount": 3}},
    }
    assert controller_of(group) == controller_of(workload)
    [_, of_workload] = group["metadata"]["ownerReferences"]
    assert (of_workload["kind"], of_workload["name"], "controller" in of_workload) == ("Workload", name, False)


@pytest.mark.parametrize(
    ("found", "pods", "grouped"),
    [
        (job(), 0, True),
        (job(), 1, False),
        (job({"startTime": "x"}), 0, False),
        (job({"succeeded": 1}), 0, False),
        (job({"failed": 1}), 0, False),
        (job({"conditions": [{"type": "Suspended", "status": "False"}]}), 0, False),
        (job({"conditions": [{"type": "Other", "status": "True"}]}), 0, True),
        (job(parallelism=1, completions=1), 0, False),
        (job(parallelism=2, completions=2), 0, True),
        (job(completions=4), 0, False),
        (job(completionMode="NonIndexed"), 0, False),
        (job(pod={"schedulingGroup": {"podGroupName": "mine"}}), 0, False),
    ],
)
def test_a_job_that_has_begun_or_does_not_run_all_at_once_has_no_group(found: Json, pods: int, grouped: bool) -> None:
    looked = Looked(found, pods=pods)
    assert (looked.group is not None, bool(looked.client.writes)) == (grouped, grouped)
    assert not is_gang({"spec": {"completions": 1, "completionMode": "Indexed", "template": {"spec": {}}}})


def test_what_is_there_is_taken_where_it_is_ours_alone() -> None:
    begun = job({"startTime": "x"})
    both = ((WORKLOADS, WORKLOAD), (POD_GROUPS, GROUP))
    assert (Looked(begun, *both).group, Looked(begun, *both).client.writes) == (GROUP, [])
    assert Looked(begun, both[0]).client.verbs == ["create"], "only the group is missing"
    two = {**WORKLOAD["spec"], "podGroupTemplates": WORKLOAD["spec"]["podGroupTemplates"] * 2}
    others: tuple[tuple[tuple[Kind, Json], ...], ...] = (
        (*both, (WORKLOADS, named(WORKLOAD, "v"))),
        (*both, (POD_GROUPS, named(GROUP, "h"))),
        ((WORKLOADS, named(WORKLOAD, "w", ownerReferences=[])), both[1]),
        (both[0], (POD_GROUPS, named(GROUP, "g", ownerReferences=[]))),
        ((WORKLOADS, {**WORKLOAD, "spec": two}), both[1]),
        ((WORKLOADS, {**WORKLOAD, "spec": {**WORKLOAD["spec"], "podGroupTemplates": []}}), both[1]),
    )
    for there in others:
        looked = Looked(begun, *there)
        assert (looked.group, looked.client.writes) == (None, [])
    for reference in ({"apiGroup": "apps", "kind": "Job", "name": "j"}, {"apiGroup": "batch", "kind": "Job"},
                      {"apiGroup": "batch", "kind": "Job", "name": "k"}, None):  # fmt: skip
        about = {**WORKLOAD, "spec": {**WORKLOAD["spec"], "controllerRef": reference}}
        assert len(Looked(job(), (WORKLOADS, about)).client.writes) == 2, "it is about something else"
    loose = {**GROUP, "spec": {}}
    assert Looked(begun, both[0], (POD_GROUPS, loose)).client.verbs == ["create"]


@pytest.mark.parametrize("kind", [WORKLOADS, POD_GROUPS])
def test_where_a_kind_is_not_served_pods_are_scheduled_one_by_one(kind: Kind) -> None:
    looked = Looked(job(), unserved=kind)
    assert (looked.group, looked.client.writes) == (None, [])
