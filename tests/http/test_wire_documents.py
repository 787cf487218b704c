"""Discovery, version, health, metrics and the routes under /-/, over the wire."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.features.gates import RELEASES
from apiserver.controlplane.about import go_platform, version_info
from apiserver.controlplane.dependencies import Dependencies
from apiserver.options.settings import read
from apiserver.storage.sqlite.size import bytes_of
from tests.support.server import serve
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration
FLAGS = ("--runtime-config=api/all=true",)

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"


def legacy(wire: Wire) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return every resource and subresource by (group, version, name), from the documents of each version."""
    roots = [("", version, f"/api/{version}") for version in wire.get("/api").json["versions"]]
    for group in wire.get("/apis").json["groups"]:
        roots += [
            (group["name"], version["version"], f"/apis/{version['groupVersion']}") for version in group["versions"]
        ]
    return {
        (group, version, entry["name"]): entry
        for group, version, path in roots
        for entry in wire.get(path).json["resources"]
    }


def test_both_forms_of_discovery_agree(wire: Wire) -> None:
    """The aggregated document has the same content as the many documents."""
    found = {}
    for root in ("/api", "/apis"):
        answer = wire.get(root, Accept=KUBECTL)
        assert answer.headers["content-type"] == AGGREGATED
        for group in answer.json["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                for entry in version["resources"]:
                    assert entry["responseKind"].items() >= {"group": "", "version": ""}.items(), (
                        "its own group and version, which go without saying"
                    )
                    found[name, version["version"], entry["resource"]] = (
                        entry["verbs"],
                        entry["responseKind"]["kind"],
                        entry["scope"] == "Namespaced",
                    )
                    for sub in entry.get("subresources", ()):
                        key = (name, version["version"], f"{entry['resource']}/{sub['subresource']}")
                        found[key] = (sub["verbs"], sub["responseKind"]["kind"], entry["scope"] == "Namespaced")
    assert found == {key: (entry["verbs"], entry["kind"], entry["namespaced"]) for key, entry in legacy(wire).items()}


def test_discovery_is_true(wire: Wire) -> None:
    """Every listable resource answers a list of its kind."""
    listable = [(key, entry) for key, entry in legacy(wire).items() if "list" in entry["verbs"]]
    assert len(listable) > 10
    for (group, version, plural), entry in listable:
        answer = wire.get(f"/apis/{group}/{version}/{plural}" if group else f"/api/{version}/{plural}")
        assert (answer.status, answer.json["kind"]) == (200, f"{entry['kind']}List"), plural


def test_groups_and_versions_come_in_order_of_preference(wire: Wire) -> None:
    group = wire.get("/apis/resource.k8s.io").json
    versions = [version["version"] for version in group["versions"]]
    assert versions[:3] == ["v1", "v1beta2", "v1beta1"]
    assert group["preferredVersion"] == {"groupVersion": "resource.k8s.io/v1", "version": "v1"}


def test_an_unknown_aggregated_version_is_a_406_unless_json_will_do(wire: Wire) -> None:
    unknown = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList"
    assert wire.get("/apis", Accept=unknown).status == 406
    assert wire.get("/apis", Accept=f"{unknown},application/json").json["kind"] == "APIGroupList"


def test_the_version_is_that_of_the_release_that_is_emulated(wire: Wire) -> None:
    version = wire.get("/version").json
    assert version["major"] == "1"
    assert version["minor"] == "36"
    assert version["emulationMinor"] == "36"
    assert version["minCompatibilityMinor"] == "35"
    facts = [version[key] for key in ("gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler")]
    commit = "24e2b02af5543d7910c2bb074c7264df5a8f0467"
    assert facts == ["v1.36.2", commit, "clean", "2026-06-11T18:12:06Z", "go1.26.4", "gc"]
    posted = wire.post("/version", {})
    assert (posted.status, posted.headers["content-type"]) == (405, "application/json")


def test_every_release_has_the_facts_of_its_build(tmp_path: Path) -> None:
    found = set()
    for major, minor in RELEASES:
        version = version_info(read([f"--emulated-version={major}.{minor}", f"--data-dir={tmp_path}"]))
        assert version["gitVersion"] == f"v{major}.{minor}.2"
        assert re.fullmatch("[0-9a-f]{40}", version["gitCommit"])
        assert version["buildDate"].endswith("Z")
        found.add((version["gitCommit"], version["buildDate"], version["goVersion"]))
    assert len(found) == len(RELEASES)


def test_the_platform_has_gos_name() -> None:
    for system, architecture, name in (
        ("linux", "x86_64", "linux/amd64"),
        ("linux", "aarch64", "linux/arm64"),
        ("darwin", "arm64", "darwin/arm64"),
        ("linux", "ppc64le", "linux/ppc64le"),
    ):
        assert go_platform(system, architecture) == name


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/version", "no-cache, private"),
        ("/openapi/v3/nothing", "no-cache, private"),
        ("/openid/v1/jwks", "public, max-age=3600"),
    ],
)
def test_every_answer_has_one_cache_control(wire: Wire, path: str, field: str) -> None:
    answer = wire.get(path, Accept="application/jwk-set+json" if path.startswith("/openid") else "*/*")
    assert [value for name, value in answer.all_headers if name == "cache-control"] == [field]


@pytest.mark.parametrize("kind", ["livez", "readyz", "healthz"])
def test_health_is_one_word_or_a_line_for_each_check(wire: Wire, kind: str) -> None:
    whole, ping = wire.get(f"/{kind}"), wire.get(f"/{kind}/ping")
    assert (whole.text, ping.text) == ("ok", "ok")
    assert (whole.headers.get("x-content-type-options"), "x-content-type-options" in ping.headers) == ("nosniff", False)
    lines = wire.get(f"/{kind}?verbose").text.splitlines()
    assert "[+]ping ok" in lines
    assert lines[-1] == f"{kind} check passed"
    assert "[+]ping excluded: ok" in wire.get(f"/{kind}?verbose&exclude=ping").text
    assert wire.get(f"/{kind}/nope").status == 404


def test_checks_have_upstreams_names_and_are_counted(wire: Wire) -> None:
    def lines() -> list[str]:
        return wire.get("/metrics/slis").text.splitlines()

    def counted(check: str, kind: str) -> int:
        start = f'kubernetes_healthchecks_total{{name="{check}",status="success",type="{kind}"}} '
        return next((int(line.removeprefix(start)) for line in lines() if line.startswith(start)), 0)

    shown = wire.get("/readyz?verbose").text
    hook = "poststarthook/scheduling/bootstrap-system-priority-classes"
    for check in ("etcd-readiness", "informer-sync", hook, "shutdown"):
        assert f"[+]{check} ok\n" in shown
        assert wire.get(f"/readyz/{check}").text == "ok"
    assert "[+]informer-sync " not in wire.get("/livez?verbose").text
    certificate = "[+]loopback-serving-certificate ok\n"
    assert certificate in wire.get("/livez?verbose").text
    assert certificate not in wire.get("/readyz?verbose").text
    before = counted(hook, "livez")
    wire.get("/livez")
    assert counted(hook, "livez") == before + 1
    assert f'kubernetes_healthcheck{{name="{hook}",type="livez"}} 1' in lines()


def test_a_server_is_ready_once_its_kubeconfig_is_written() -> None:
    announced: list[str] = []
    with serve(dependencies=Dependencies(announced=lambda: bool(announced))) as running:
        answer = running.wire().get("/readyz")
        assert (answer.status, "[-]kubeconfig failed: reason withheld\n" in answer.text) == (500, True)
        assert running.wire().get("/livez").text == "ok"
        announced.append(running.url)
        assert running.wire().get("/readyz").text == "ok"


def test_metrics_count_requests_objects_and_gates(wire: Wire) -> None:
    def value(start: str) -> float:
        return sum(
            float(line.rpartition(" ")[2]) for line in wire.get("/metrics").text.splitlines() if line.startswith(start)
        )

    def requests(verb: str, scope: str, code: int, dry_run: str = "", client: str = "", group: str = "") -> float:
        of = f'verb="{verb}",group="{group}",version="v1",resource="configmaps",subresource="",scope="{scope}"'
        last = f'component="apiserver",dry_run="{dry_run}",code="{code}",system_client="{client}"'
        return value(f"apiserver_request_total{{{of},{last}}}")

    maps = "/api/v1/namespaces/default/configmaps"
    counted = requests("POST", "resource", 201)
    wire.create_config_map("counted")
    assert requests("POST", "resource", 201) == counted + 1
    wire.get(maps)
    wire.get("/api/v1/configmaps", user_agent="kube-scheduler/v1.36.2")
    wire.delete(f"{maps}?dryRun=All&labelSelector=a%3Db")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "counted"}}
    wire.patch(f"{maps}/counted?fieldManager=a", body, "apply")
    assert min(
        requests("LIST", "namespace", 200), requests("LIST", "cluster", 200, client="kube-scheduler"),
        requests("DELETE", "namespace", 200, "All"), requests("APPLY", "resource", 200),
    ) >= 1  # fmt: skip
    wire.get("/api/v1/namespaces/default/endpoints/none")
    deprecated = 'group="",version="v1",resource="endpoints",subresource="",removed_release=""'
    assert value(f"apiserver_requested_deprecated_apis{{{deprecated}}}") == 1
    assert value('apiserver_storage_objects{resource="namespaces"}') == 4
    assert value('apiserver_resource_objects{group="apps",resource="deployments"}') == 0
    assert (
        min(value("process_cpu_seconds_total"), value("process_resident_memory_bytes"), value("process_open_fds")) > 0
    )
    assert 'apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} ' in wire.get("/metrics").text
    assert value('version_info{component="kube"') == value("kubernetes_build_info") == 1
    assert value('kubernetes_feature_enabled{name="DRAPartitionableDevices"') == 1
    assert value('kubernetes_feature_enabled{name="ServiceCIDRStatusFieldWiping",stage="DEPRECATED"}') == 1


def test_metrics_have_one_type_line_for_each_name_and_growing_buckets(wire: Wire) -> None:
    lines = wire.get("/metrics").text.splitlines()
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    names = {line.partition("{")[0].split()[0] for line in lines if not line.startswith("#")}
    families = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in names}
    assert families <= set(types), "every sample belongs to a family that was announced"


def test_the_list_of_paths_can_be_followed(wire: Wire) -> None:
    paths = wire.get("/").json["paths"]
    assert {"/api/v1", "/apis/resource.k8s.io/v1", "/livez", "/metrics", "/version", "/docs", "/-/"} <= set(paths)
    for path in paths:
        assert wire.get(path).status == 200, path


def test_the_list_of_our_own_paths_is_that_of_their_document(wire: Wire) -> None:
    listed, document = wire.get("/-/").json["paths"], wire.get("/openapi.json").json
    assert set(listed) == {"/docs", "/openapi.json", *document["paths"]}


def test_a_reset_keeps_the_built_in_objects(wire: Wire) -> None:
    wire.create_config_map("gone")
    before = {
        item["metadata"]["name"]: item["metadata"]["uid"] for item in wire.get("/api/v1/namespaces").json["items"]
    }
    answer = wire.post("/-/reset", None)
    assert (answer.status, answer.json["deleted"] >= 1) == (200, True)
    assert wire.get("/api/v1/namespaces/default/configmaps").json["items"] == []
    assert {
        item["metadata"]["name"]: item["metadata"]["uid"] for item in wire.get("/api/v1/namespaces").json["items"]
    } == before


def test_a_reset_deletes_objects_whose_names_begin_like_built_in_ones(wire: Wire) -> None:
    namespaces, services = "/api/v1/namespaces", "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {"group": "down.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    outside = {"service": {"namespace": "default", "name": "none"}, "insecureSkipTLSVerify": True}
    wire.create(namespaces, {"metadata": {"name": "default-2"}})
    own = {"metadata": {"name": "v1.down.example.com"}, "spec": spec | outside}
    wire.create(services, own)
    assert wire.post("/-/reset", None).status == 200
    assert wire.get(f"{namespaces}/default-2").status == 404
    assert wire.get(f"{services}/v1.down.example.com").status == 404


def test_our_own_paths_are_described_by_their_own_document(wire: Wire) -> None:
    assert wire.get("/docs").headers["content-type"].startswith("text/html")
    document = wire.get("/openapi.json").json
    assert all(path.startswith("/-/") for path in document["paths"])
    assert document["paths"]["/-/reset"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert wire.get("/-/nope").status == 404


def test_the_info_of_this_server(wire: Wire) -> None:
    info = wire.get("/-/info").json
    assert (info["emulates"], info["objects"]["namespaces"]) == ("1.36", 4)


@pytest.mark.parametrize(("release", "served"), [("1.33", False), ("1.34", True)])
def test_an_older_release_serves_what_it_had(
    tmp_path_factory: pytest.TempPathFactory, release: str, served: bool
) -> None:
    with Child(tmp_path_factory.mktemp("older"), f"--emulated-version={release}") as child:
        wire = child.wire()
        assert wire.get("/version").json["minor"] == release.removeprefix("1.")
        answer = wire.get("/apis/resource.k8s.io/v1")
        assert (answer.status == 200) == served
        if not served:
            assert answer.text == "404 page not found\n"


def test_invented_paths_and_methods_are_counted_without_new_labels(wire: Wire) -> None:
    def samples() -> int:
        return wire.get("/metrics").text.count("apiserver_request_")

    def unknown(number: int) -> None:
        for path in (f"/apis/made{number}.up/v1/things", f"/api/v{number}/pods", f"/api/v1/pods/p/sub{number}", "/api"):
            wire.get(path)
            wire.request(f"VERB{number}", path)

    unknown(10)
    samples()  # /metrics is counted as well, once it has been answered
    before = samples()
    for number in range(11, 15):  # there is a v1
        unknown(number)
    assert samples() == before


def test_statusz_and_flagz_are_texts_by_default_and_objects_on_request(wire: Wire) -> None:
    text = wire.get("/statusz").text
    assert "\napiserver statusz\nWarning: This endpoint is not meant to be machine parseable" in text
    assert "Emulation version: 1.36" in text
    assert " /metrics /" in text
    assert " /apis" not in text
    assert "\nport=0\n" in wire.get("/flagz", Accept="application/json, */*").text

    found = wire.get("/statusz", Accept="application/json;g=config.k8s.io;v=v1beta1;as=Statusz")
    assert (found.json["kind"], found.json["apiVersion"]) == ("Statusz", "config.k8s.io/v1beta1")
    assert found.json["uptimeSeconds"] >= 0
    # (kubedra's own pages are not upstream's)
    assert found.json["paths"] == ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"]
    assert "warning" not in found.headers
    old = wire.get("/flagz", Accept="application/json;g=config.k8s.io;v=v1alpha1;as=Flagz")
    assert old.json["flags"]["port"] == "0"
    assert old.headers["warning"].startswith('299 - "This version of the flagz endpoint is deprecated.')
    for accept in ("application/json", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz", "text/html"):
        assert wire.get("/statusz", Accept=accept).status == 406


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        ("postgresql://kubedra:secret@db:5432/kubedra?sslmode=require", "postgresql://db:5432/kubedra?sslmode=require"),
        ("postgresql://db/kubedra?user=u&password=secret&sslmode=require", "postgresql://db/kubedra?user=u&sslmode=require"),
        ("sqlite", "sqlite"),
    ],
)  # fmt: skip
def test_flagz_does_not_tell_the_password_of_the_database(storage: str, shown: str) -> None:
    assert read([f"--storage={storage}"]).flags["storage"] == shown


def test_statusz_and_flagz_are_not_there_where_their_gates_are_off() -> None:
    with serve("--feature-gates=ComponentStatusz=false,ComponentFlagz=false") as running:
        wire = running.wire()
        assert [wire.get(path).status for path in ("/statusz", "/flagz")] == [404, 404]
        assert "/statusz" not in wire.get("/").json["paths"]


def test_a_database_has_a_size(tmp_path: Path) -> None:
    assert (bytes_of("memory", tmp_path), bytes_of("postgresql://a", tmp_path)) == (0, None)
    for name, size in (("kubedra.db", 100), ("kubedra.db-wal", 20), ("kubedra.db.schema-0001", 3)):
        (tmp_path / name).write_bytes(bytes(size))
    assert bytes_of("sqlite", tmp_path) == 120
