"""Check that a server is intact after a run."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

from apiserver.command import data as data_command
from apiserver.resources import CATALOG
from tests.support.wire import Child, Wire
from tools.fuzz.runner import FLAGS


def check_whole(child: Child) -> list[str]:
    """Return the violations: every kind must be listed in every version, writes work, and a restart keeps the store."""
    wrong: list[str] = []
    wire = child.wire()
    path = "/api/v1/namespaces/kube-public/configmaps"
    for method, where, body, status in (
        ("POST", path, {"metadata": {"name": "last"}}, 201),
        ("PUT", f"{path}/last", {"metadata": {"name": "last"}, "data": {"k": "v"}}, 200),
        ("DELETE", f"{path}/last", None, 200),
    ):
        answer = wire.request(method, where, body)
        if answer.status != status:
            wrong.append(f"{method} {where} answers {answer.status}: {answer.text[:300]}")
    before = dict(_lists(wire))
    wrong += [f"{where} cannot be listed: {shown}" for where, shown in before.items() if isinstance(shown, str)]
    code, _ = child.stop()
    if code:
        wrong.append(f"the server ended with {code}: {child.log()[-500:]}")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        if data_command.main(["check", str(child.directory)]):
            wrong.append(f"the store is damaged: {said.getvalue()}")
    with Child(child.directory, *FLAGS) as again:
        after = dict(_lists(again.wire()))
    # A start recreates deleted standard objects, points the service `kubernetes` to its port, and updates the status of
    # FlowSchemas. Everything else stays as it was.
    wrong += [
        f"{where} lost {item['metadata']} over a start"
        for where, items in before.items()
        for item in items
        if not isinstance(items, str)
        and not _leads_to_server(item)
        and _kept(where, item) not in [_kept(where, found) for found in after[where]]
    ]
    return wrong


def _kept(where: str, item: dict[str, Any]) -> Any:
    """Return the part of an object that a restart keeps."""
    return (item["metadata"]["uid"], item["spec"]) if where.endswith("/flowschemas") else item


def _leads_to_server(item: dict[str, Any]) -> bool:
    return (item["metadata"].get("namespace"), item["metadata"]["name"]) == ("default", "kubernetes")


def _lists(wire: Wire) -> Iterator[tuple[str, Any]]:
    """Yield (path, items or the answer instead) of everything that can be listed."""
    for resource in CATALOG:
        for version in resource.versions:
            if "list" not in resource.verbs:
                continue
            root = f"/apis/{resource.group}" if resource.group else "/api"
            served = wire.get(f"{root}/{version.name}")
            if served.status != 200 or resource.plural not in {each["name"] for each in served.json["resources"]}:
                continue
            where = f"{root}/{version.name}/{resource.plural}"
            answer = wire.get(where)
            yield where, answer.json["items"] if answer.status == 200 else f"{answer.status} {answer.text[:300]}"
