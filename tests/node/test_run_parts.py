"""Variables and files of containers that run as processes."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.pods.containers import ContainerError
from controllers.kubelet.pods.environment import environment, field_of, references, resource_of
from controllers.kubelet.run.volumes import build_directory
from tests.support.objects import make_pod

pytestmark = pytest.mark.integration


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


OBJECTS: dict[tuple[str, str], Json] = {
    ("configmap", "cm"): {"data": {"a": "1", "b": "two"}, "binaryData": {"bin": encoded("raw")}},
    ("secret", "s"): {"data": {"key": encoded("hidden")}},
    ("configmap", "empty"): {},
    ("secret", "empty"): {},
}


def lookup(kind: str, name: str) -> Json | None:
    return OBJECTS.get((kind, name))


def pod(*volumes: Json, **spec: Any) -> Json:
    status = {"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.1"}], "podIP": "2.2.2.2",
              "podIPs": [{"ip": "2.2.2.2"}, {"ip": "::2"}]}  # fmt: skip
    spec |= {"serviceAccountName": "sa", "volumes": list(volumes), "labels": {"b": "2", "a": "1"}, "status": status}
    return make_pod("p", uid="u", node="n", **spec)


def of(kind: str, name: str, key: str = "", **more: Any) -> Json:
    """Build a variable from a ConfigMap or Secret."""
    return {"name": "V", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": key, **more}}}


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (of("configMap", "cm", "a"), "1"),
        (of("configMap", "cm", "bin"), "raw"),
        (of("secret", "s", "key"), "hidden"),
        (of("configMap", "none", "a", optional=True), None),
        (of("secret", "s", "none", optional=True), None),
        (of("configMap", "none", "a"), 'configmap "none" not found'),
        (of("configMap", "cm", "none"), "couldn't find key none in ConfigMap ns/cm"),
        (of("secret", "s", "none"), "couldn't find key none in Secret ns/s"),
        ({"name": "V", "valueFrom": {"fileKeyRef": {}}}, "unsupported valueFrom: fileKeyRef"),
        ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}, "u"),
        ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "no"}}}, "unsupported fieldPath: no"),
        ({"name": "V"}, ""),
        ({"name": "V", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}, "2"),
        ({"name": "V", "value": "$$(V)$(V)$"}, "$(V)$(V)$"),
    ],
)
def test_a_variable_comes_from_its_source(entry: Json, value: str | None) -> None:
    container = {"name": "c", "env": [entry], "resources": {"limits": {"cpu": "1500m"}}}
    if value is not None and " " in value:
        with pytest.raises(ContainerError) as caught:
            environment(pod(), container, lookup)
        assert (caught.value.reason, str(caught.value)) == ("CreateContainerConfigError", value)
    else:
        assert environment(pod(), container, lookup) == ({} if value is None else {"V": value})


def test_all_keys_of_a_config_map_or_secret_may_be_variables_and_later_ones_win() -> None:
    everything = [{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s"}, "prefix": "P_"},
                  {"configMapRef": {"name": "none", "optional": True}}, {"configMapRef": {"name": "empty"}}, {}]  # fmt: skip
    env = [{"name": "b", "value": "$(a)+$(P_key)"}, {"name": "c", "value": "$(b)"}]
    assert environment(pod(), {"name": "c", "envFrom": everything, "env": env}, lookup) == {
        "a": "1", "b": "1+hidden", "bin": "raw", "P_key": "hidden", "c": "1+hidden",
    }  # fmt: skip
    with pytest.raises(ContainerError, match='secret "none" not found'):
        environment(pod(), {"name": "c", "envFrom": [{"secretRef": {"name": "none"}}]}, lookup)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"), ("metadata.namespace", "ns"), ("metadata.uid", "u"), ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "sa"), ("status.hostIP", "1.1.1.1"), ("status.hostIPs", "1.1.1.1"),
        ("status.podIP", "2.2.2.2"), ("status.podIPs", "2.2.2.2,::2"), ("metadata.labels['a']", "1"),
        ("metadata.labels['none']", ""), ("metadata.annotations['a']", ""), ("metadata.labels", 'a="1"\nb="2"\n'),
        ("metadata.annotations", ""),
    ],
)  # fmt: skip
def test_a_field_of_a_pod_is_a_text(path: str, value: str) -> None:
    assert field_of(pod(), path) == value


@pytest.mark.parametrize(
    ("resource", "divisor", "container", "value"),
    [
        ("limits.cpu", None, "", "2"), ("requests.cpu", None, "", "1"), ("requests.cpu", "1m", "", "500"),
        ("limits.memory", "1Mi", "", "1"), ("limits.memory", "0", "", "1000"), ("requests.none", None, "", "0"),
        ("limits.cpu", None, "init", "7"), ("limits.cpu", None, "unknown", "2"),
    ],
)  # fmt: skip
def test_a_resource_is_counted_in_units_of_the_divisor_and_rounded_up(
    resource: str, divisor: str | None, container: str, value: str
) -> None:
    own = {"name": "c", "resources": {"limits": {"cpu": "1500m"}, "requests": {"cpu": "500m", "memory": "1000"}}}
    init = {"name": "init", "resources": {"limits": {"cpu": "7"}}}
    reference = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    reference |= {"containerName": container} if container else {}
    assert resource_of(pod(containers=[own], initContainers=[init]), reference, own) == value


def test_the_references_of_a_pod_are_known_before_it_starts() -> None:
    container = {"name": "c", "env": [of("configMap", "e1", "k"), of("secret", "e2", "k"), {"name": "PLAIN"}],
                 "envFrom": [{"configMapRef": {"name": "f1"}}, {"secretRef": {"name": "f2"}}]}  # fmt: skip
    init = {"name": "i", "envFrom": [{"configMapRef": {"name": "i1"}}]}
    projected = {"sources": [{"configMap": {"name": "p1"}}, {"secret": {"name": "p2"}}, {"downwardAPI": {}}]}
    volumes: list[Json] = [{"configMap": {"name": "v1"}}, {"secret": {"secretName": "v2"}}, {"projected": projected},
               {"emptyDir": {}}]  # fmt: skip
    read = references(pod(*volumes, containers=[container], initContainers=[init]))
    assert read == {("configmap", name) for name in ("e1", "f1", "i1", "p1", "v1")} | {
        ("secret", name) for name in ("e2", "f2", "p2", "v2")
    }


def furnish_volume(place: Path, volume: Json, links: dict[str, str] | None = None, **mount: Any) -> Path:
    """Return the directory of a container with this volume at /data."""
    volume = {"name": "v", **volume}
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data", **mount}]}
    root = place / "root"
    build_directory(pod(volume), container, root, place / "volumes", lookup, links or {}, {"WHO": "me"})
    return root


def files(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


FIELD = {"path": "deep/name", "fieldRef": {"fieldPath": "metadata.name"}}


@pytest.mark.parametrize(
    ("volume", "content"),
    [
        ({"configMap": {"name": "cm"}}, {"a": "1", "b": "two", "bin": "raw"}),
        ({"configMap": {"name": "cm", "items": [{"key": "a", "path": "x/y/z"}]}}, {"x/y/z": "1"}),
        ({"secret": {"secretName": "s"}}, {"key": "hidden"}),
        ({"configMap": {"name": "none", "optional": True}}, {}),
        ({"configMap": {"name": "kube-root-ca.crt"}}, {}),
        ({"downwardAPI": {"items": [FIELD]}}, {"deep/name": "p"}),
        ({"projected": {"sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {}},
                                    {"clusterTrustBundle": {}}, {"downwardAPI": {"items": [FIELD]}}]}},
         {"key": "hidden", "deep/name": "p"}),
        ({"emptyDir": {}}, {}),
        ({"ephemeral": {}}, {}),
    ],
)  # fmt: skip
def test_a_volume_is_a_directory_with_what_it_names(tmp_path: Path, volume: Json, content: Json) -> None:
    data = furnish_volume(tmp_path, volume) / "data"
    assert (data.is_symlink(), data.is_dir(), files(data)) == (True, True, content)


@pytest.mark.parametrize(
    ("volume", "reason", "text"),
    [
        ({"configMap": {"name": "none"}}, "CreateContainerConfigError", 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, "CreateContainerConfigError", 'secret "none" not found'),
        ({"configMap": {"name": "cm", "items": [{"key": "no", "path": "x"}]}}, "CreateContainerConfigError",
         "references non-existent configmap key: no"),
        ({"nfs": {}}, "CreateContainerError", 'volume "v": nfs is not supported with --run'),
    ],
)  # fmt: skip
def test_an_invalid_volume_is_an_error(tmp_path: Path, volume: Json, reason: str, text: str) -> None:
    with pytest.raises(ContainerError) as caught:
        furnish_volume(tmp_path, volume)
    assert (caught.value.reason, str(caught.value)) == (reason, text)


def test_a_directory_of_the_host_is_linked(tmp_path: Path) -> None:
    host = tmp_path / "some" / "host"
    root = furnish_volume(tmp_path, {"hostPath": {"path": str(host)}}, links={"/data": "/elsewhere"}, mountPath="/data")
    assert ((root / "data").readlink(), host.exists()) == (host, False)
    for _ in range(2):
        root = furnish_volume(
            tmp_path, {"hostPath": {"path": str(host), "type": "DirectoryOrCreate"}}, mountPath="/a/b/c"
        )
        assert (root / "a/b/c").readlink() == host
        assert host.is_dir()


def test_a_container_starts_with_an_empty_directory_and_keeps_its_volumes(tmp_path: Path) -> None:
    root = furnish_volume(tmp_path, {"emptyDir": {}})
    (root / "data" / "kept").write_text("x")
    (root / "left").touch()
    again = furnish_volume(tmp_path, {"emptyDir": {}})
    assert files(again / "data") == {"kept": "x"}
    assert not (again / "left").exists()


def test_a_subpath_of_a_volume_is_mounted(tmp_path: Path) -> None:
    (furnish_volume(tmp_path, {"emptyDir": {}}, subPathExpr="$(WHO)/sub") / "data" / "f").write_text("x")
    assert files(tmp_path / "volumes" / "v") == {"me/sub/f": "x"}
    root = furnish_volume(tmp_path, {"emptyDir": {}}, subPath="me")
    assert files(root / "data") == {"sub/f": "x"}


def test_mounts_win_over_links_of_devices_and_stay_in_the_directory(tmp_path: Path) -> None:
    (tmp_path / "device").touch()
    links = {"/dev/d0": str(tmp_path / "device"), "/data": "/elsewhere"}
    root = furnish_volume(tmp_path, {"emptyDir": {}}, links=links)
    assert (root / "dev/d0").readlink() == tmp_path / "device"
    assert (root / "data").readlink() == tmp_path / "volumes" / "v"
    with pytest.raises(ContainerError, match=r"mount path /a/\.\./b: must not contain '\.\.'"):
        furnish_volume(tmp_path, {"emptyDir": {}}, mountPath="/a/../b")
