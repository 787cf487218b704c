"""HTTP extenders that filter, prioritize and bind."""

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
from tests.scheduler.test_configuration import document
from tests.support.objects import info, make_node

pytestmark = pytest.mark.real_time


def extenders(*settings: Json) -> Extenders:
    return Extenders(parse(document(extenders=list(settings))).extenders)


async def place(extenders: Extenders, nodes: Sequence[Json] = (), **pod: Any) -> str:
    """Return the node that a pod gets, by default one of three equal nodes."""
    cluster = Cluster(*(nodes or (make_node(f"n{number}") for number in range(3))))
    plugins = cluster.evaluator.plugins
    evaluator = Evaluator(cluster.cache, plugins, cluster.reach, random.Random(0), extenders=extenders)
    try:
        return (await evaluator.place(Cycle(info(**pod)))).name
    finally:
        await extenders.close()


@pytest.mark.parametrize("by_name", [False, True])
async def test_an_extender_filters_and_prioritizes_nodes(by_name: bool) -> None:
    with extender() as served:
        all_verbs = {"urlPrefix": served.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 3,
                     "nodeCacheCapable": by_name}  # fmt: skip
        assert await place(extenders(all_verbs)) == "n2"
        assert await place(extenders(all_verbs), labels={"off": "n2"}) == "n1"
        with pytest.raises(FitError) as caught:
            await place(extenders(all_verbs), labels={"off": "n2.n1", "never": "n0"})
        diagnosis = caught.value.diagnosis
        assert diagnosis.text == "0/3 nodes are available: 1 never there, 2 not there."
        assert diagnosis.plugins == {"Extender"}
        assert (diagnosis.code_of("n1"), diagnosis.code_of("n0")) == (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


async def test_a_failing_extender_fails_the_attempt_unless_it_is_ignorable() -> None:
    with extender() as served:
        one = {"urlPrefix": served.url, "filterVerb": "filter"}
        with pytest.raises(SchedulingError, match=r"^broken$"):
            await place(extenders(one), labels={"broken": "yes"})
        assert await place(extenders({**one, "ignorable": True}), labels={"broken": "yes"})
        with pytest.raises(SchedulingError, match=r"^failed missing with extender at URL http.*/missing, code 404$"):
            await place(extenders({**one, "filterVerb": "missing"}))
        # Without its scores the plugins decide.
        assert await place(extenders({"urlPrefix": served.url, "prioritizeVerb": "missing", "weight": 1}))
        nowhere = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
        with pytest.raises(SchedulingError, match=r'^Post "http://127\.0\.0\.1:1/filter": '):
            await place(extenders(nowhere))


#: Response bodies by verb, b"" for none at all, and the errors that they cause.
INVALID_RESPONSES = {
    "silent": (b"", r'^Post "http://127\.0\.0\.1:\d+/silent": context deadline exceeded$'),
    "cut": (b"{", r'^Post "http://127\.0\.0\.1:\d+/cut": the answer is not JSON: '),
    "text": (b'"n0"', "^an extender's answer is not an object$"),
    "foreign": (
        b'{"NodeNames": ["n0", "n9"]}',
        r'^extender "http://127\.0\.0\.1:\d+" claims a filtered node "n9" which is not found in the input node list$',
    ),
}


@pytest.mark.parametrize("verb", INVALID_RESPONSES)
async def test_an_invalid_response_of_an_extender_is_an_error(verb: str) -> None:
    answer, text = INVALID_RESPONSES[verb]
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


async def test_an_extender_with_managed_resources_is_called_only_for_pods_that_request_them() -> None:
    with extender() as served:
        managed = [{"name": "example.com/foo", "ignoredByScheduler": True}]
        asked = extenders({"urlPrefix": served.url, "filterVerb": "filter", "managedResources": managed})
        await place(asked, labels={"broken": "yes"})
        assert served.calls == []
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"example.com/foo": "1"}}}]
        nodes = [make_node("n0", extra={"example.com/foo": "1"})]
        with pytest.raises(SchedulingError, match="broken"):
            await place(asked, nodes, labels={"broken": "yes"}, containers=containers)


async def test_an_extender_may_bind() -> None:
    with extender() as served:
        filtering, binding = {"urlPrefix": served.url, "filterVerb": "f"}, {"urlPrefix": served.url, "bindVerb": "bind"}
        binder = extenders(filtering, binding)
        assert await binder.bind(info("p"), "n1")
        with pytest.raises(ExtenderError, match=r"^taken$"):
            await binder.bind(info("taken"), "n1")
        assert not await extenders(filtering).bind(info("p"), "n1")
        await binder.close()
        assert served.calls[0][1] | {"PodUID": ""} == {"PodName": "p", "PodNamespace": "ns", "PodUID": "", "Node": "n1"}


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
def test_an_invalid_extender_is_rejected(given: list[Json], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse(document(extenders=given))
