"""Service account tokens that an external signer signs, over gRPC on a unix socket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.authentication.tokens.external_signer import ExternalKeys
from apiserver.authentication.tokens.service_account_keys import KeyFileError, encode
from apiserver.authentication.tokens.signer_channel import SignerChannel
from apiserver.authentication.tokens.signer_messages import (
    SERVICE,
    Empty,
    PublicKey,
    PublicKeys,
    Signature,
    SignerMetadata,
    SignRequest,
)
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.runtime.offload import LONG
from kubedra.driver.sockets import SocketServer
from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
FLAG = "--service-account-signing-endpoint"


class OfNoKnownKind:
    """A public key of an unknown algorithm."""

    def public_key(self) -> OfNoKnownKind:
        return self

    def public_bytes(self, *_: object) -> bytes:
        return bytes.fromhex("300b300506032a030403020001")


@dataclass
class Signer:
    """A signer with keys by id: it signs by the key `name`, with `header` as further header fields."""

    keys: dict[str, Any] = field(default_factory=lambda: {"a": ec.generate_private_key(ec.SECP256R1())})
    name: str = "a"
    header: Json = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    shown: dict[str, Any] | None = None
    refresh: int = 3600
    at: float | None = 1_700_000_000.25
    longest: int = 7200
    refused: str = ""
    silent: bool = False
    fetches: int = 0

    async def sign(self, stream: Any) -> None:
        request = await stream.recv_message()
        if self.refused:
            raise GRPCError(Status.UNAUTHENTICATED, self.refused)
        said = {"alg": "ES256", "kid": self.name, "typ": "JWT", **self.header}
        header = encode(json.dumps(said).encode())
        r, s = decode_dss_signature(
            self.keys[self.name].sign(f"{header}.{request.claims}".encode(), ec.ECDSA(hashes.SHA256()))
        )
        await stream.send_message(Signature(header, encode(r.to_bytes(32, "big") + s.to_bytes(32, "big"))))

    async def fetch(self, stream: Any) -> None:
        await stream.recv_message()
        self.fetches += 1
        if self.silent:
            return
        form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        keys = self.keys if self.shown is None else self.shown
        found = [
            PublicKey(name, key.public_key().public_bytes(*form), name in self.hidden) for name, key in keys.items()
        ]
        await stream.send_message(PublicKeys(tuple(found), self.at, self.refresh))

    async def metadata(self, stream: Any) -> None:
        await stream.recv_message()
        await stream.send_message(SignerMetadata(self.longest))

    @contextmanager
    def listening(self, path: Path) -> Iterator[None]:
        """Listen on a new loop in a thread."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        one = Cardinality.UNARY_UNARY
        methods = {
            f"/{SERVICE}/Sign": Handler(self.sign, one, SignRequest, Signature),
            f"/{SERVICE}/FetchKeys": Handler(self.fetch, Cardinality.UNARY_STREAM, Empty, PublicKeys),
            f"/{SERVICE}/Metadata": Handler(self.metadata, one, Empty, SignerMetadata),
        }

        async def listen() -> SocketServer:
            made = SocketServer(path, methods)
            await made.listen()
            return made

        server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def flags(directory: Path, *more: str) -> tuple[str, ...]:
    return (token_flag(directory), "--authorization-mode=RBAC", f"{FLAG}={directory / 's'}", *more)


@dataclass
class Setting:
    signer: Signer
    running: Running

    @property
    def root(self) -> Wire:
        return self.running.wire("root")

    def token(self, **spec: Any) -> str:
        answer = self.root.create(f"{ACCOUNTS}/a/token", {"spec": spec})
        return str(answer["status"]["token"])

    def refusal(self) -> str:
        answer = self.root.post(f"{ACCOUNTS}/a/token", {"spec": {}})
        assert (answer.status, answer.json.get("reason", "")) == (500, ""), answer.text
        return str(answer.message).removeprefix("failed to generate token: ")

    def status(self, token: str) -> int:
        return self.running.wire(token).get("/api/v1/namespaces").status

    def metric(self, name: str) -> float:
        lines = self.root.get("/metrics").text.splitlines()
        (found,) = (line.rpartition(" ")[2] for line in lines if line.startswith(f"apiserver_externaljwt_{name}"))
        return float(found)


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    signer = Signer()
    with signer.listening(tmp_path / "s"), serve(*flags(tmp_path)) as running:
        running.wire("root").post(ACCOUNTS, {"metadata": {"name": "a"}})
        yield Setting(signer, running)


def test_the_signer_signs_tokens_and_its_keys_are_published(setting: Setting) -> None:
    token = setting.token()
    assert json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "==")) == {
        "alg": "ES256",
        "kid": "a",
        "typ": "JWT",
    }
    assert setting.status(token) == 403, "it is known, and may do nothing"
    assert setting.status(token[:-8] + "AAAAAAAA") == 401
    setting.signer.keys["old"], setting.signer.hidden = ec.generate_private_key(ec.SECP256R1()), {"old"}
    setting.signer.name = "old"
    assert setting.refusal() == (
        "while validating header: key used for signing JWT (kid: old) is excluded from OIDC discovery docs"
    ), "an unknown id makes the server ask for the keys again"
    published = setting.root.get("/openid/v1/jwks", Accept="application/jwk-set+json")
    assert [key["kid"] for key in published.json["keys"]] == ["a"]
    kept = int(published.headers["cache-control"].removeprefix("public, max-age="))
    assert 3000 < kept <= 3600, "until the signer wants to be asked again"
    assert setting.metric("fetch_keys_data_timestamp") == 1_700_000_000.25
    assert setting.metric('sign_request_total{code="OK"}') == 1
    assert setting.metric('sign_request_total{code="unknown-non-grpc"}') == 1
    assert setting.metric('fetch_keys_request_total{code="OK"}') == setting.signer.fetches == 2


def test_tokens_are_verified_by_the_current_keys_of_the_signer(setting: Setting) -> None:
    before, signer = setting.token(), setting.signer
    assert setting.status(before) == 403
    new = ec.generate_private_key(ec.SECP256R1())
    signer.shown, signer.keys = {"a": signer.keys["a"]}, {"a": new, "b": new}
    assert setting.status(setting.token()) == 401, "another key by the same id"
    signer.name = "b"
    strange = setting.token()
    assert setting.status(strange) == 401, "an id that the signer does not tell of"
    signer.shown = {"b": new}
    assert setting.status(strange) == 403, "it does now"
    assert setting.status(before) == 401, "and has withdrawn the other one"


def test_tokens_are_good_for_no_longer_than_the_signer_wants(setting: Setting) -> None:
    claims = json.loads(base64.urlsafe_b64decode(setting.token(expirationSeconds=86400).split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] == 7200


def test_a_long_request_uses_the_connection_on_the_loop_that_owns_it(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops, call = [], SignerChannel.call

    async def recorded(channel: SignerChannel, *args: Any) -> Any:
        loops.append(asyncio.get_running_loop())
        return await call(channel, *args)

    monkeypatch.setattr(SignerChannel, "call", recorded)
    for audiences in (["short"], ["long" * 8] * (LONG // 32)):
        claims = json.loads(base64.urlsafe_b64decode(setting.token(audiences=audiences).split(".")[1] + "=="))
        assert claims["aud"] == audiences
    assert loops[0] is loops[1]


WRONG: list[tuple[Json, str]] = [
    ({"typ": "ABC"}, "bad type"),
    ({"alg": "ABC"}, 'bad signing algorithm "ABC"'),
    ({"kid": ""}, "key id missing"),
    ({"kid": "a" * 1025}, "key id longer than 1 kb"),
    ({"more": 1}, 'while parsing header JSON: json: unknown field "more"'),
]


def test_errors_of_a_signature_are_named(setting: Setting) -> None:
    for header, text in WRONG:
        setting.signer.header = header
        assert setting.refusal() == f"while validating header: {text}"
    setting.signer.refused = "not you"
    assert setting.refusal() == "while signing jwt: rpc error: code = Unauthenticated desc = not you"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"keys": {}}, "while fetching token verification keys: found no keys"),
        ({"keys": {"a": OfNoKnownKind()}}, "while parsing external public keys: "),
        ({"silent": True}, "code = Internal desc = the signer ended the call without an answer"),
        ({"refresh": 0}, r"found invalid refresh hint \(0s\)"),
        ({"at": None}, "invalid data timestamp"),
        (
            {"longest": 599},
            r"max token life supported by external-jwt-signer \(599s\) is less than acceptable \(min 600s\)",
        ),
    ],
)
def test_a_start_names_what_is_wrong_with_the_signer(tmp_path: Path, change: Json, text: str) -> None:
    signer = Signer(**change)
    settings = read([*flags(tmp_path), "--storage=memory", f"--data-dir={tmp_path}"])
    with signer.listening(tmp_path / "s"), pytest.raises(KeyFileError, match=text):
        asyncio.run(Server.open(settings))


def test_a_start_that_fails_lets_go_of_its_store(tmp_path: Path) -> None:
    async def start(*more: str) -> None:
        await (await Server.open(read([f"--data-dir={tmp_path / 'data'}", *more]))).close()

    for longest, given in ((599, ()), (3600, ("--service-account-max-token-expiration=2h",))):
        with Signer(longest=longest).listening(tmp_path / "s"), pytest.raises(KeyFileError):
            asyncio.run(start(*flags(tmp_path), *given))
        asyncio.run(start())


def test_a_start_waits_for_the_signer(tmp_path: Path) -> None:
    signer, tried, ended = Signer(), threading.Event(), threading.Event()

    def late() -> None:
        tried.wait()
        with signer.listening(tmp_path / "s"):
            ended.wait()

    thread = threading.Thread(target=late)
    thread.start()
    threading.Timer(0.05, tried.set).start()
    try:
        with serve(*flags(tmp_path)):
            assert signer.fetches == 1
    finally:
        ended.set()
        thread.join()


def test_keys_are_fetched_again_at_the_refresh_hint(tmp_path: Path) -> None:
    signer = Signer(refresh=60)
    with signer.listening(tmp_path / "s"), serve(*flags(tmp_path), standing=True) as running:
        running.time.advance(59)
        assert signer.fetches == 1
        signer.keys = {}
        running.time.advance(2)
        assert signer.fetches == 2
        signer.keys = {"b": ec.generate_private_key(ec.SECP256R1())}
        running.time.advance(11)
        assert signer.fetches == 3, "sooner after a failure"
        published = running.wire("root").get("/openid/v1/jwks", Accept="application/jwk-set+json")
        assert [key["kid"] for key in published.json["keys"]] == ["b"]


def test_only_other_keys_make_what_was_checked_be_checked_again(tmp_path: Path) -> None:
    """A token with an unknown id causes a fetch."""
    signer, changes, fetched = Signer(), list[int](), list[int]()

    async def scenario() -> None:
        keys = ExternalKeys(str(tmp_path / "s"))
        keys.subscribe(lambda: changes.append(signer.fetches))
        await keys.start()
        for also in ({}, {}, {"b": ec.generate_private_key(ec.SECP256R1())}, {}):
            signer.keys = {**signer.keys, **also}
            await keys._refetch()
            fetched.append(signer.fetches)
        await keys.close()

    with signer.listening(tmp_path / "s"):
        asyncio.run(scenario())
    assert (fetched, changes) == ([2, 3, 4, 5], [1, 4])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            (f"{FLAG}=@a/b",),
            'invalid value "@a/b" passed for `--service-account-signing-endpoint`, when prefixed with @',
        ),
        ((f"{FLAG}=/s", "--emulated-version=1.33"), "requires enabling ExternalServiceAccountTokenSigner feature gate"),
        ((f"{FLAG}=/s", f"--service-account-signing-key-file={__file__}"), "They are mutually exclusive"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(given: tuple[str, ...], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        read(given)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_socket_may_be_an_abstract_one(run: Callable[[Any], None]) -> None:
    async def connect() -> None:
        channel = SignerChannel(f"@kubedra-{os.getpid()}")
        await channel.__connect__()
        (await asyncio.to_thread(listener.accept))[0].close()
        channel.end()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(30)
        listener.bind(f"\0kubedra-{os.getpid()}")
        listener.listen()
        run(connect())
