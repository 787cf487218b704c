"""Cost of unrelated extensions for a request: 50 custom kinds, 20 admission policies and 5 webhooks.

    python -m benchmarks.extensions [--requests 400] [--rounds 40] [--selected]

Each verb's request is sent to a server with the extensions and to one without, both in this process. The benchmark
counts the interpreter instructions of one request. With --requests it also measures the processor time of that many, in
small alternating batches, and prints the median of the ratios. Policies and webhooks match other resources. With
--selected they match this resource, in namespaces with a label that this one lacks.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from functools import partial
from time import process_time_ns

from apiserver.api.objects import Json
from apiserver.app import Server
from benchmarks.request_path import VERBS, build_request, path_of, prepare_server, send

KINDS, POLICIES, WEBHOOKS = 50, 20, 5
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_CHUNK = 20
#: Seconds until a custom kind is served.
_PATIENCE = 30


def kind(number: int) -> Json:
    """Build the definition of a custom kind."""
    plural, group = f"things{number}", f"group{number % 10}.example.com"
    text = {"type": "string", "maxLength": 100}
    spec = {"type": "object", "properties": {f"field{index}": text for index in range(20)}}
    rule = {"rule": "self.field0 != self.field1", "message": "two fields are the same"}
    schema = {"type": "object", "properties": {"spec": {**spec, "x-kubernetes-validations": [rule]}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": f"thing{number}", "kind": plural.capitalize(), "listKind": f"{plural}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def matching(*, selected: bool) -> tuple[Json, Json]:
    """Return a rule that matches no request of the benchmark, and its namespace selector."""
    group, resource = ("resource.k8s.io", "*") if selected else ("apps", "deployments")
    rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["*"]}
    return rule, {"matchLabels": {"policed": "yes"}} if selected else {}


def policy(number: int, *, selected: bool) -> tuple[str, Json, Json]:
    """Return the type of a policy, the policy and its binding. Every second one is mutating."""
    rule, selector = matching(selected=selected)
    name = {"name": f"policy-{number}"}
    sort = "Mutating" if number % 2 else "Validating"
    spec: Json = {"matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector}}
    if number % 2:
        patch = 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'
        mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": patch}}
        spec |= {"mutations": [mutation], "reinvocationPolicy": "Never"}
    else:
        spec["validations"] = [{"expression": "object.metadata.name.size() < 100"}]
    actions = {} if number % 2 else {"validationActions": ["Deny"]}
    return sort, {"metadata": name, "spec": spec}, {"metadata": name, "spec": {"policyName": name["name"], **actions}}


def webhook(number: int, *, selected: bool) -> tuple[str, Json]:
    """Return the type of a webhook configuration, and a configuration whose webhook does not exist."""
    rule, selector = matching(selected=selected)
    hook = {
        "name": f"hook{number}.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": selector,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    sort = "mutating" if number % 2 else "validating"
    return sort, {"metadata": {"name": f"hook-{number}"}, "webhooks": [hook]}


async def install(server: Server, *, selected: bool) -> None:
    """Install all extensions. Return when the custom kinds are served."""
    for number in range(KINDS):
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await send(server, build_request("POST", definition, kind(number)))
    for number in range(POLICIES):
        sort, made, binding = policy(number, selected=selected)
        plural = f"{sort.lower()}admissionpolicies"
        await send(server, build_request("POST", f"{_ADMISSION}/{plural}", made))
        await send(
            server, build_request("POST", f"{_ADMISSION}/{plural.replace('policies', 'policybindings')}", binding)
        )
    for number in range(WEBHOOKS):
        sort, configuration = webhook(number, selected=selected)
        await send(server, build_request("POST", f"{_ADMISSION}/{sort}webhookconfigurations", configuration))
    for number in range(KINDS):
        spec = kind(number)["spec"]
        path = f"/apis/{spec['group']}/v1/{spec['names']['plural']}"
        async with asyncio.timeout(_PATIENCE):
            while (await server.chain.handle(build_request("GET", path))).status != 200:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)


async def ratio_of(verb: str, requests: int, rounds: int, *, selected: bool) -> float:
    """Return the median ratio of processor times, with extensions to without."""
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        servers = [await prepare_server(directory, verb, requests * rounds) for directory in (here, there)]
        await install(servers[0], selected=selected)
        ratios = []
        for number in range(rounds):
            spent = [0, 0]
            for start in range(number * requests, (number + 1) * requests, _CHUNK):
                sent = [VERBS[verb](each) for each in range(start, min(start + _CHUNK, (number + 1) * requests))]
                for index in (0, 1) if start // _CHUNK % 2 else (1, 0):
                    begin = process_time_ns()
                    for request in sent:
                        await send(servers[index], request)
                    spent[index] += process_time_ns() - begin
            ratios.append(spent[0] / spent[1])
        for server in servers:
            await server.close()
        return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extensions", description="Cost of unrelated extensions for a request."
    )
    parser.add_argument("--requests", type=int, default=0, help="measure the CPU time of this many requests per round")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--selected", action="store_true", help="extensions select the resource, in other namespaces")
    args = parser.parse_args()
    for verb in VERBS:
        installed = asyncio.run(path_of(verb, partial(install, selected=args.selected))).instructions.total()
        bare = asyncio.run(path_of(verb)).instructions.total()
        line = f"{verb:10} {bare:7} instructions, {installed:7} with extensions: {installed / bare:.3f}"
        if args.requests:
            time = asyncio.run(ratio_of(verb, args.requests, args.rounds, selected=args.selected))
            line += f"; processor time {time:.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
