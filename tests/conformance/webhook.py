"""A scripted HTTPS webhook on loopback, which remembers what it was asked."""

from __future__ import annotations

import base64
import contextlib
import copy
import datetime as dt
import http.server
import ipaddress
import json
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.api.objects import Json
from tests.conformance.commonform import decode

#: What a path without a script answers.
_UNSCRIPTED: Final[Json] = {"allowed": False, "status": {"code": 418, "message": "not scripted"}}
_OF_RESPONSE: Final = ("allowed", "status", "warnings", "auditAnnotations")


class Webhook:
    """A webhook that listens until `close`.

    `address` is HOST:PORT. `authority` is its certificate in base64, valid for the loopback address and for `names`.
    """

    def __init__(self, *names: str) -> None:
        certificate, context = _certificate(names)
        self._server = _Listener(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._lock = threading.Lock()
        self.authority = base64.b64encode(certificate).decode()
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.script({})
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="webhook", daemon=True)
        self._thread.start()

    def script(self, answers: Mapping[str, Sequence[Json]]) -> None:
        """Answer so from now on, by path, the last answer again and again; forget what was asked."""
        with self._lock:
            self._answers = {path: list(script) for path, script in answers.items()}
            self._calls: list[Json] = []

    def calls(self) -> list[Json]:
        with self._lock:
            return copy.deepcopy(self._calls)

    def answer(self, path: str, asked: Any) -> tuple[int, str, bytes]:
        """Return (status, content type, body)."""
        with self._lock:
            self._calls.append({"path": path, "body": asked})
            script = self._answers.get(path.partition("?")[0]) or [_UNSCRIPTED]
            scripted = script.pop(0) if len(script) > 1 else script[0]
        time.sleep(scripted.get("delay", 0))
        if "raw" in scripted or "http" in scripted:
            content_type = scripted.get("content_type", "application/json")
            return scripted.get("http", 200), content_type, scripted.get("raw", "").encode()
        asked = asked if isinstance(asked, dict) else {}
        request = asked.get("request") or {}
        response = (converted if "convert" in scripted else reviewed)(scripted, request)
        review = {key: scripted.get(key, asked.get(key)) for key in ("apiVersion", "kind")} | {"response": response}
        return 200, "application/json", json.dumps({k: v for k, v in review.items() if v is not None}).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()
        self._thread.join()


def reviewed(scripted: Json, request: Json) -> Json:
    """Build the response of an AdmissionReview."""
    response: Json = {"uid": request.get("uid")} | {k: scripted[k] for k in _OF_RESPONSE if k in scripted}
    if "patch" in scripted:
        patch = scripted["patch"] if isinstance(scripted["patch"], str) else json.dumps(scripted["patch"])
        response |= {"patch": base64.b64encode(patch.encode()).decode(), "patchType": "JSONPatch"}
    response |= {key: scripted[key] for key in ("uid", "patchType") if key in scripted}
    return {key: value for key, value in response.items() if value is not None}


def converted(scripted: Json, request: Json) -> Json:
    """Build the response of a ConversionReview."""
    target = request.get("desiredAPIVersion", "")
    operations = scripted["convert"].get(target.rpartition("/")[2], ())
    objects = [_edited(obj, operations) | {"apiVersion": target} for obj in request.get("objects") or ()]
    response = {
        "uid": request.get("uid"),
        "result": scripted.get("result", {"status": "Success"}),
        "convertedObjects": objects[: len(objects) - scripted.get("drop", 0)],
    }
    return {key: value for key, value in response.items() if value is not None}


def _edited(obj: Json, operations: Sequence[Json]) -> Json:
    """Apply JSON patch operations to a copy; skip those with a missing path."""
    obj = copy.deepcopy(obj)
    for operation in operations:
        value = operation.get("value")
        if operation["op"] in ("move", "copy"):
            source, name = _place(obj, operation["from"])
            if source is None or name not in source:
                continue
            value = copy.deepcopy(source[name])
            if operation["op"] == "move":
                del source[name]
        target, name = _place(obj, operation["path"])
        if target is not None and operation["op"] == "remove":
            target.pop(name, None)
        elif target is not None:
            target[name] = value
    return obj


def _place(obj: Json, pointer: str) -> tuple[Json | None, str]:
    """Return the parent object of a JSON pointer, and the last name in it."""
    *way, name = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    inner: Any = obj
    for part in way:
        inner = inner.get(part) if isinstance(inner, dict) else None
    return (inner if isinstance(inner, dict) else None), name


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._connections: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: the server under test may close a connection at any time."""

    def end_connections(self) -> None:
        for connection in self._connections:  # those that a server keeps for its next call
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                connection.close()


def _handler(webhook: Webhook) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = decode(raw, self.headers.get("Content-Type"))
            # `self.path` has one slash where the request has two at its beginning.
            status, content_type, body = webhook.answer(self.requestline.split()[1], asked)
            try:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # the server waited no longer
                self.close_connection = True

    return Handler


def _certificate(names: Sequence[str]) -> tuple[bytes, ssl.SSLContext]:
    """(certificate, context) of a self-signed certificate for 127.0.0.1 and for names."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "webhook")])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
    known = [address, *map(x509.DNSName, names)]
    builder = builder.add_extension(x509.SubjectAlternativeName(known), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + secret)
        file.flush()
        context.load_cert_chain(file.name)
    return certificate, context
