"""The group of a Job whose pods start together: one pass, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import POD_GROUPS, WORKLOADS, Kind
from controllers.workloads.common.references import controller_of
from controllers.workloads.jobs.gangs import Gangs, is_gang, new_group, new_workload
from tests.support.objects import make_metadata
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration


def job(status: Json | None = None, uid: str = "u", **spec: Any) -> Json:
    template = {"metadata": {}, "spec": spec.pop("pod", {})}
    given = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template, **spec}
    return {"kind": "Job", "metadata": make_metadata("j", "ns", uid), "spec": given, "status": status or {}}


def named(obj: Json, name: str, **metadata: Any) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "name": name, "uid": name, **metadata}}


WORKLOAD = named({"kind": "Workload", **new_workload(job())}, "w")
GROUP = named({"kind": "PodGroup", **new_group(job(), WORKLOAD)}, "g")


class GangClient(RecordingClient):
    """Records how a Job gets its group. `written`: the kinds that informers must show first."""

    group: Json | None = None

    async def find(self, found: Json, *objects: Json, pods: int = 0, unserved: Kind | None = None) -> GangClient:
        """Find or create the group of a Job with so many pods."""
        self.written: list[str] = []
        gangs = Gangs(self, self.recorder, self.informers, self._record_write)  # type: ignore[arg-type]
        for kind in (WORKLOADS, POD_GROUPS):
            self.informers.of(kind)._answered.set()
            if kind != unserved:
                self.informers.of(kind).mark_synced()
        self.set_objects(*objects)
        self.group = await gangs.group_of(found, [{}] * pods)
        return self

    def _record_write(self, _: Json, kind: Kind, obj: Json) -> Json:
        self.written.append(kind.kind)
        return obj


async def find(found: Json, *objects: Json, **more: Any) -> GangClient:
    return await GangClient().find(found, *objects, **more)


async def test_a_job_that_begins_gets_a_workload_and_a_group() -> None:
    new = await find(job())
    [(_, _, workload), (_, _, group)] = new.writes
    assert (new.verbs, new.written) == (["create", "create"], ["Workload", "PodGroup"])
    assert (new.group or {})["spec"] == group["spec"]
    name = workload["metadata"]["name"]
    assert new.events == [("Normal", "WorkloadCreated", f"Created Workload {name} for Job j")]
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
async def test_a_job_that_has_begun_or_does_not_run_all_at_once_has_no_group(
    found: Json, pods: int, grouped: bool
) -> None:
    client = await find(found, pods=pods)
    assert (client.group is not None, bool(client.writes)) == (grouped, grouped)
    assert not is_gang({"spec": {"completions": 1, "completionMode": "Indexed", "template": {"spec": {}}}})


async def test_an_existing_workload_and_group_are_used_only_if_each_is_the_jobs_only_one() -> None:
    begun = job({"startTime": "x"})
    client = await find(begun, WORKLOAD, GROUP)
    assert (client.group, client.writes) == (GROUP, [])
    assert (await find(begun, WORKLOAD)).verbs == ["create"], "only the group is missing"
    two = {**WORKLOAD["spec"], "podGroupTemplates": WORKLOAD["spec"]["podGroupTemplates"] * 2}
    others: tuple[tuple[Json, ...], ...] = (
        (WORKLOAD, GROUP, named(WORKLOAD, "v")),
        (WORKLOAD, GROUP, named(GROUP, "h")),
        (named(WORKLOAD, "w", ownerReferences=[]), GROUP),
        (WORKLOAD, named(GROUP, "g", ownerReferences=[])),
        ({**WORKLOAD, "spec": two}, GROUP),
        ({**WORKLOAD, "spec": {**WORKLOAD["spec"], "podGroupTemplates": []}}, GROUP),
    )
    for there in others:
        client = await find(begun, *there)
        assert (client.group, client.writes) == (None, [])
    for reference in ({"apiGroup": "apps", "kind": "Job", "name": "j"}, {"apiGroup": "batch", "kind": "Job"},
                      {"apiGroup": "batch", "kind": "Job", "name": "k"}, None):  # fmt: skip
        about = {**WORKLOAD, "spec": {**WORKLOAD["spec"], "controllerRef": reference}}
        assert len((await find(job(), about)).writes) == 2, "it is about something else"
    loose = {**GROUP, "spec": {}}
    assert (await find(begun, WORKLOAD, loose)).verbs == ["create"]


@pytest.mark.parametrize("kind", [WORKLOADS, POD_GROUPS])
async def test_where_a_kind_is_not_served_pods_are_scheduled_one_by_one(kind: Kind) -> None:
    client = await find(job(), unserved=kind)
    assert (client.group, client.writes) == (None, [])
