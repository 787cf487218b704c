"""Extenders are asked over HTTP which nodes a pod may go to, which are better, and to bind it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.config.configuration import parse
from controllers.scheduler.config.fields import ConfigurationError
from controllers.scheduler.cycle.evaluate import Evaluator
from controllers.scheduler.framework.framework import Cycle
from controllers.scheduler.framework.status import Code, FitError, SchedulingError
from controllers.scheduler.plugins.extenders import ExtenderError, Extenders
from tests.scheduler.cluster import Cluster
from tests.scheduler.extenderserver import extender
from tests.support.objects import info, make_node

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def extenders(*settings: Json) -> Extenders:
    return Extenders(parse({**HEAD, "extenders": list(settings)}).extenders)


def placed(asked: Extenders, nodes: Sequence[Json] = (), **pod: Any) -> str:
    """Where a pod goes, on three nodes that are alike if none are given."""
    cluster = Cluster(*(nodes or (make_node(f"n{number}") for number in range(3))))
    plugins = cluster.evaluator.plugins
    evaluator = Evaluator(cluster.cache, plugins, cluster.reach, random.Random(0), extenders=asked)

    async def place() -> str:
        try:
            return (await evaluator.place(Cycle(info(**pod)))).name
        finally:
            await asked.close()

    return asyncio.run(place())


@pytest.mark.parametrize("by_name", [False, True])
def test_nodes_that_an_extender_refuses_are_out_and_those_it_likes_are_better(by_name: bool) -> None:
    with extender() as played:
        all_verbs = {"urlPrefix": played.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 3,
                     "nodeCacheCapable": by_name}  # fmt: skip
        assert placed(extenders(all_verbs)) == "n2"
        assert placed(extenders(all_verbs), labels={"off": "n2"}) == "n1"
        with pytest.raises(FitError) as caught:
            placed(extenders(all_verbs), labels={"off": "n2.n1", "never": "n0"})
        diagnosis = caught.value.diagnosis
        assert diagnosis.text == "0/3 nodes are available: 1 never there, 2 not there."
        assert diagnosis.plugins == {"Extender"}
        assert (diagnosis.code_of("n1"), diagnosis.code_of("n0")) == (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


def test_an_extender_that_fails_fails_the_attempt_unless_it_may_be_passed_over() -> None:
    with extender() as played:
        one = {"urlPrefix": played.url, "filterVerb": "filter"}
        with pytest.raises(SchedulingError, match=r"^broken$"):
            placed(extenders(one), labels={"broken": "yes"})
        assert placed(extenders({**one, "ignorable": True}), labels={"broken": "yes"})
        with pytest.raises(SchedulingError, match=r"^failed missing with extender at URL http.*/missing, code 404$"):
            placed(extenders({**one, "filterVerb": "missing"}))
        # Without scores from it the pod goes where the plugins say.
        assert placed(extenders({"urlPrefix": played.url, "prioritizeVerb": "missing", "weight": 1}))
        nowhere = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
        with pytest.raises(SchedulingError, match=r'^Post "http://127\.0\.0\.1:1/filter": '):
            placed(extenders(nowhere))


#: What stands behind a verb's name, b"" for nothing for ever, and what is said of it.
STRANGE_ANSWERS = {
    "silent": (b"", r'^Post "http://127\.0\.0\.1:\d+/silent": context deadline exceeded$'),
    "cut": (b"{", r'^Post "http://127\.0\.0\.1:\d+/cut": the answer is not JSON: '),
    "text": (b'"n0"', "^an extender's answer is not an object$"),
    "foreign": (
        b'{"NodeNames": ["n0", "n9"]}',
        r'^extender "http://127\.0\.0\.1:\d+" claims a filtered node "n9" which is not found in the input node list$',
    ),
}


@pytest.mark.real_time
@pytest.mark.parametrize("verb", STRANGE_ANSWERS)
async def test_an_answer_that_an_extender_may_not_give_is_an_error_that_says_so(verb: str) -> None:
    answer, text = STRANGE_ANSWERS[verb]
    over = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)
        else:
            await reader.read()
        writer.close()
        await writer.wait_closed()
        over.set()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        one = {"urlPrefix": url, "filterVerb": verb, "nodeCacheCapable": True}
        asked = extenders({**one, "httpTimeout": "50ms"} if verb == "silent" else one)
        nodes = list(Cluster(make_node("n0")).cache.nodes.values())
        with pytest.raises(ExtenderError, match=text):
            await asked.filter(info(), nodes, {})
        await asked.close()
        await over.wait()


def test_an_extender_of_some_resources_is_asked_about_pods_that_want_them() -> None:
    with extender() as played:
        managed = [{"name": "example.com/foo", "ignoredByScheduler": True}]
        asked = extenders({"urlPrefix": played.url, "filterVerb": "filter", "managedResources": managed})
        placed(asked, labels={"broken": "yes"})
        assert played.asked == []
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"example.com/foo": "1"}}}]
        nodes = [make_node("n0", extra={"example.com/foo": "1"})]
        with pytest.raises(SchedulingError, match="broken"):
            placed(asked, nodes, labels={"broken": "yes"}, containers=containers)


def test_an_extender_may_bind() -> None:
    async def scenario(url: str) -> None:
        asked = extenders({"urlPrefix": url, "filterVerb": "filter"}, {"urlPrefix": url, "bindVerb": "bind"})
        pod = info("p")
        assert await asked.bind(pod, "n1")
        with pytest.raises(ExtenderError, match=r"^taken$"):
            await asked.bind(info("taken"), "n1")
        assert not await extenders({"urlPrefix": url, "filterVerb": "filter"}).bind(pod, "n1")
        await asked.close()

    with extender() as played:
        asyncio.run(scenario(played.url))
        assert played.asked[0][1] | {"PodUID": ""} == {"PodName": "p", "PodNamespace": "ns", "PodUID": "", "Node": "n1"}


ONE = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([{**ONE, "preemptVerb": "p"}], r"extenders\[0\].preemptVerb: is not supported"),
        ([{**ONE, "prioritizeVerb": "p"}], r"extenders\[0\].weight: must have a positive weight applied to it"),
        ([{**ONE, "bindVerb": "b"}] * 2, "extenders: only one extender can implement bind, found 2"),
        ([{"urlPrefix": "host:1"}], r"extenders\[0\].urlPrefix: must be an http:// or https:// address"),
        ([{**ONE, "managedResources": [{"name": "cpu"}]}], "name: is an invalid extended resource name"),
        ([{**ONE, "managedResources": [{"name": "a.b/c"}]}] * 2, "extenders: duplicate managed resource a.b/c"),
        ([{**ONE, "tlsConfig": {"caFile": "/nowhere"}}], r"extenders\[0\].tlsConfig.ca: "),
    ],
)
def test_what_an_extender_may_not_say(given: list[Json], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse({**HEAD, "extenders": given})
