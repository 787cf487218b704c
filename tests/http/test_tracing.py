"""Spans of requests, sent by OTLP to a collector made only with grpcio and protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from tests.support.server import serve
from tests.support.tokens import token_flag

pytestmark = pytest.mark.integration

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MAPS = "/api/v1/namespaces/default/configmaps"
T = descriptor_pb2.FieldDescriptorProto
_KINDS = {"b": T.TYPE_BYTES, "s": T.TYPE_STRING, "i": T.TYPE_INT64, "e": T.TYPE_INT32, "f": T.TYPE_FIXED64}
#: opentelemetry-proto 1.x: name:number:type, * where repeated.
_MESSAGES = {
    "Value": "string_value:1:s int_value:3:i",
    "Pair": "key:1:s value:2:Value",
    "Link": "trace_id:1:b span_id:2:b",
    "Status": "message:2:s code:3:e",
    "Span": "trace_id:1:b span_id:2:b parent_span_id:4:b name:5:s kind:6:e start:7:f end:8:f *attributes:9:Pair"
    " *links:13:Link status:15:Status",
    "Scope": "name:1:s",
    "ScopeSpans": "scope:1:Scope *spans:2:Span",
    "Resource": "*attributes:1:Pair",
    "ResourceSpans": "resource:1:Resource *scope_spans:2:ScopeSpans",
    "Request": "*resource_spans:1:ResourceSpans",
}


def _request() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="otlp-in-tests.proto", package="otlp_in_tests", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for each in fields.split():
            field, number, kind = each.removeprefix("*").split(":")
            label = T.LABEL_REPEATED if each.startswith("*") else T.LABEL_OPTIONAL
            made = message.field.add(name=field, number=int(number), label=label)
            if kind in _KINDS:
                made.type = _KINDS[kind]
            else:
                made.type, made.type_name = T.TYPE_MESSAGE, f".otlp_in_tests.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("otlp_in_tests.Request"))


class Collector(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A collector that stores the received spans."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.port = 0

    def service(self, call: Any) -> Any:
        assert call.method == EXPORT
        return grpc.unary_unary_rpc_method_handler(self.store)

    def store(self, body: bytes, _: Any) -> bytes:
        self.bodies.append(body)
        return b""

    @property
    def spans(self) -> list[Any]:
        read_ = _request()
        return [
            span
            for body in self.bodies
            for of_resource in read_.FromString(body).resource_spans
            for scope in of_resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def collector() -> Iterator[Collector]:
    made = Collector()
    server = grpc.server(ThreadPoolExecutor(1), handlers=[made])
    made.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield made
    finally:
        server.stop(None).wait()


def configuration(folder: Path, text: str, version: str = "v1") -> str:
    file = folder / "tracing.yaml"
    file.write_text(f"apiVersion: apiserver.config.k8s.io/{version}\nkind: TracingConfiguration\n{text}\n")
    return f"--tracing-config-file={file}"


def attributes_of(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def parent(trace: str, flags: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{trace * 16}-{'0b' * 8}-{flags}"}


def test_sampled_requests_of_administrators_are_spans_of_their_traces(tmp_path: Path) -> None:
    tokens = token_flag(tmp_path, "admin,admin,1,system:masters\nann,ann,2,\n")
    with collector() as found:
        flag = configuration(tmp_path, f"endpoint: 127.0.0.1:{found.port}")
        with serve(flag, tokens) as running:
            wire, ann = running.wire("admin"), running.wire("ann")
            body = {"metadata": {"name": "a"}}
            made = wire.request("POST", MAPS, body, {**parent("01"), "User-Agent": "test/1"})
            wire.request("GET", f"{MAPS}/gone?x=1", None, parent("02"))
            wire.request("GET", "/healthz", None, parent("03"))
            with wire.watch(f"{MAPS}?watch=true&timeoutSeconds=1", **parent("04")) as watch:
                watch.rest()
            wire.request("GET", MAPS, None, parent("05", "00"))  # its sender does not sample it
            wire.get(MAPS)
            wire.request("GET", MAPS, None, {"traceparent": "00-nonsense"})
            ann.request("GET", MAPS, None, parent("06"))  # not believed
            assert made.status == 201
        spans = {span.trace_id.hex()[:2]: span for span in found.spans}
    assert sorted(spans) == ["01", "02", "03", "04"]
    assert all(span.parent_span_id.hex() == "0b" * 8 and span.kind == 2 for span in spans.values())
    assert all(0 < span.start <= span.end for span in spans.values())
    assert [span.name for _, span in sorted(spans.items())] == [
        "POST /api/v1/namespaces/{:namespace}/configmaps",
        "GET /api/v1/namespaces/{:namespace}/configmaps/{:name}",
        "GET",
        "GET /api/v1/namespaces/{:namespace}/configmaps",
    ]
    first, second = attributes_of(spans["01"]), attributes_of(spans["02"])
    assert first["audit-id"] == made.headers["audit-id"]
    assert (first["http.request.method"], first["url.path"], first["http.response.status_code"]) == ("POST", MAPS, 201)
    assert (first["user_agent.original"], first["server.address"]) == ("test/1", "127.0.0.1")
    assert (second["http.response.status_code"], second["http.target"]) == (404, f"{MAPS}/gone?x=1")


def test_other_requests_are_sampled_at_the_configured_rate_in_their_own_traces(tmp_path: Path) -> None:
    tokens = token_flag(tmp_path, "ann,ann,2,\n")
    with collector() as found:
        text = f"endpoint: 127.0.0.1:{found.port}\nsamplingRatePerMillion: 1000000"
        with serve(configuration(tmp_path, text, "v1beta1"), tokens) as running:
            running.wire("ann").request("GET", MAPS, None, parent("06"))
            running.wire("ann").get("/apis/apps/v1/deployments")
        theirs, own = found.spans
    assert (theirs.trace_id.hex() == "06" * 16, theirs.parent_span_id) == (False, b"")
    assert [(each.trace_id.hex(), each.span_id.hex()) for each in theirs.links] == [("06" * 16, "0b" * 8)]
    assert own.name == "GET /apis/apps/v1/deployments"
    assert len(own.links) == 0
    assert len(own.trace_id) == 16
    assert len(own.span_id) == 8


def test_without_a_collector_requests_are_answered_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flag = configuration(tmp_path, "endpoint: 127.0.0.1:1\nsamplingRatePerMillion: 1000000")
    with serve(flag) as running:
        assert running.wire().get(MAPS).status == 200
    assert "traces cannot be sent to 127.0.0.1:1: " in caplog.text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("samplingRatePerMillion: -1", "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive"),
        ("samplingRatePerMillion: 1000001", "sampling rate per million must be less than or equal to one million"),
        ("endpoint: https://a:1", "unsupported scheme: https"),
        ("endpoint: a:b", "Port could not be cast"),
        ("colour: red", 'unknown field "colour"'),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match="--tracing-config-file") as found:
        read([configuration(tmp_path, text)])
    assert problem in str(found.value)


@pytest.mark.parametrize(
    ("selection", "problem"),
    [
        ("name: cluster\n  connection: {proxyProtocol: Direct}", ""),
        ("name: cluster\n  connection: {proxyProtocol: HTTPConnect}", "HTTPConnect is not supported: use Direct"),
        ("name: cluster\n  connection: {proxyProtocol: Pigeon}", "'Pigeon' is none of Direct, HTTPConnect, GRPC"),
        ("name: cluster\n  connection: {proxyProtocol: Direct, transport: {}}", "direct connections have no transport"),
        ("name: moon\n  connection: {proxyProtocol: Direct}", "a network is one of controlplane, etcd, cluster"),
    ],
)
def test_other_networks_are_reached_directly(tmp_path: Path, selection: str, problem: str) -> None:
    file = tmp_path / "egress.yaml"
    start = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- "
    file.write_text(start + selection + "\n")
    if not problem:
        assert read([f"--egress-selector-config-file={file}"]).tracing is None
        return
    with pytest.raises(SettingsError) as found:
        read([f"--egress-selector-config-file={file}"])
    assert problem in str(found.value)
