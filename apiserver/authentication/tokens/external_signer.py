"""Service account tokens signed by an external program (`--service-account-signing-endpoint`).

The program serves gRPC on a Unix socket. It signs tokens and lists the trusted public keys.

Facts: pkg/serviceaccount/externaljwt (plugin: validation of answers; keycache: when keys are fetched; metrics).
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import orjson

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import server_error
from apiserver.api.objects import Json
from apiserver.authentication.tokens.service_account_keys import (
    KeyFileError,
    Keys,
    can_sign_tokens,
    encode,
    is_valid_signature,
    to_jwk,
)
from apiserver.authentication.tokens.signer_messages import (
    SERVICE,
    Empty,
    PublicKey,
    PublicKeys,
    Signature,
    SignerMetadata,
    SignRequest,
)
from apiserver.runtime.clock import Timer, now, outside, timers
from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram
from apiserver.runtime.offload import on_loop

if TYPE_CHECKING:
    from apiserver.authentication.tokens.service_account_keys import Public
    from apiserver.authentication.tokens.signer_channel import SignerChannel

__all__ = ["ExternalKeys", "SignerError"]

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)

_FLAG: Final = "--service-account-signing-endpoint"
#: Timeouts in seconds: of a call, and of the metadata call at the start.
_PATIENCE, _OF_ITSELF = 60.0, 10.0
#: Seconds between attempts to fetch keys after a failure.
_AFTER_FAILURE: Final = 10.0
#: Minimum lifetime of tokens in seconds, and maximum length of a key's id in characters.
_SHORTEST: Final = 600
_LONGEST_ID: Final = 1024
_ALGORITHMS: Final = ("RS256", "ES256", "ES384", "ES512")
_FIELDS: Final = {"alg", "kid", "typ"}
_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: The code in metrics for failures outside of gRPC.
_OTHER: Final = "unknown-non-grpc"


class SignerError(Exception):
    """Error of the signer. `code` is gRPC's, as Go names it."""

    def __init__(self, text: str, code: str = _OTHER) -> None:
        super().__init__(text)
        self.code = code


class _KeySet(NamedTuple):
    """Keys in order, with their time (seconds since 1970) and their expiry."""

    keys: tuple[tuple[str, Public, bool], ...] = ()
    at: float = 0.0
    until: float = 0.0


class ExternalKeys(Keys):
    """The keys of the signer that listens at `path`, available once `start` has returned."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listeners: list[Callable[[], None]] = []
        self._known = _KeySet()
        self._channel: SignerChannel | None = None
        self._fetch_task: asyncio.Task[None] | None = None
        self._fetched: dict[tuple[str, ...], float] = {}
        start = "apiserver_externaljwt"
        self._fetches = Counter(f"{start}_fetch_keys_request_total", "Requests for the signer's keys.", ("code",))
        self._signed = Counter(f"{start}_sign_request_total", "Requests to sign a token.", ("code",))
        self._took = Histogram(
            f"{start}_request_duration_seconds", "Latency of signer requests.", ("method", "code"), _BOUNDS
        )
        self._families: list[Family] = [
            self._fetches, self._signed, self._took,
            Gauge(
                f"{start}_fetch_keys_success_timestamp", "Time of the last successful key fetch.", (),
                lambda: self._fetched,
            ),
            Gauge(
                f"{start}_fetch_keys_data_timestamp", "Timestamp of the fetched keys, as reported by the signer.", (),
                lambda: {(): self._known.at} if self._fetched else {},
            ),
        ]  # fmt: skip

    def subscribe(self, notify: Callable[[], None]) -> None:
        self._listeners.append(notify)

    def families(self) -> list[Family]:
        return self._families

    @property
    def max_age(self) -> int:
        return max(int(self._known.until - now().timestamp()), 0)

    async def start(self) -> None:
        """Wait for the signer, and read its keys and `longest`. Raise KeyFileError."""
        try:
            await self._fetch()
            found = await self._call("Metadata", Empty(), SignerMetadata, _OF_ITSELF)
        except SignerError as error:
            await self.close()
            raise KeyFileError(f"{_FLAG} {self._path}: while setting up external-jwt-signer: {error}") from error
        if found.longest < _SHORTEST:
            await self.close()
            raise KeyFileError(
                f"{_FLAG} {self._path}: max token life supported by external-jwt-signer ({found.longest}s) is less than"
                f" acceptable (min {_SHORTEST}s)"
            )
        self.longest = found.longest

    async def follow(self) -> None:
        pause = self._known.until - now().timestamp()
        while True:
            with timers(Timer.MACHINE):
                await asyncio.sleep(max(pause, 0))
            try:
                await self._fetch()
                pause = self._known.until - now().timestamp()
            except SignerError as error:
                log.error("the keys of %s could not be fetched, using the previous ones: %s", self._path, error)
                pause = _AFTER_FAILURE

    async def close(self) -> None:
        if self._channel is not None:
            self._channel.end()
            self._channel = None

    async def token(self, claims: bytes) -> str:
        payload = encode(claims)
        try:
            answer = await self._call("Sign", SignRequest(payload), Signature, _PATIENCE, "while signing jwt: ")
            await self._check_header(answer.header)
            if not answer.signature:
                raise SignerError("empty signature returned")
        except SignerError as error:
            self._signed.inc(error.code)
            raise server_error(f"failed to generate token: {error}") from error
        self._signed.inc("OK")
        return f"{answer.header}.{payload}.{answer.signature}"

    async def knows(self, header: Json, text: bytes, signature: bytes) -> bool:
        name = header.get("kid") or ""
        found = self._find_keys(name)
        if not found:
            await self._refetch()
            found = self._find_keys(name)
        return any(is_valid_signature(key, header, text, signature) for key, _ in found)

    async def public(self) -> list[Json]:
        return [to_jwk(name, key) for name, key, hidden in self._known.keys if not hidden]

    def _find_keys(self, name: object) -> list[tuple[Public, bool]]:
        return [(key, hidden) for known, key, hidden in self._known.keys if not name or name == known]

    @on_loop
    async def _refetch(self) -> None:
        """Fetch the keys again for an unknown key's id; log a failure."""
        try:
            await self._fetch()
        except SignerError as error:
            log.error("the keys of %s could not be fetched, using the previous ones: %s", self._path, error)

    async def _check_header(self, text: str) -> None:
        """Validate the header of a signed token. Raise SignerError."""
        start = "while validating header: "
        try:
            header = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except ValueError as error:
            raise SignerError(f"{start}while parsing header JSON: {error}") from error
        if not isinstance(header, dict):
            raise SignerError(f"{start}while parsing header JSON: no object")
        unknown = sorted(set(header) - _FIELDS)
        if unknown:
            raise SignerError(f"{start}while parsing header JSON: json: unknown field {go_quote(unknown[0])}")
        name, algorithm = header.get("kid"), header.get("alg")
        if header.get("typ") != "JWT":
            raise SignerError(f"{start}bad type")
        if not isinstance(name, str) or not name:
            raise SignerError(f"{start}key id missing")
        if len(name.encode()) > _LONGEST_ID:
            raise SignerError(f"{start}key id longer than 1 kb")
        if algorithm not in _ALGORITHMS:
            raise SignerError(f"{start}bad signing algorithm {go_quote(str(algorithm or ''))}")
        if not self._find_keys(name):
            await self._refetch()
        if any(hidden for _, hidden in self._find_keys(name)):
            raise SignerError(f"{start}key used for signing JWT (kid: {name}) is excluded from OIDC discovery docs")

    async def _fetch(self) -> None:
        """Fetch the keys. Concurrent callers share one fetch. Raise SignerError."""
        if self._fetch_task is None:
            self._fetch_task = asyncio.create_task(self._fetch_keys(), name="keys of service accounts")
            self._fetch_task.add_done_callback(self._on_fetch_end)
        await asyncio.shield(self._fetch_task)

    def _on_fetch_end(self, task: asyncio.Task[None]) -> None:
        self._fetch_task = None
        if not task.cancelled():
            task.exception()  # Every waiting caller receives the exception.

    async def _fetch_keys(self) -> None:
        start = "while fetching token verification keys: "
        try:
            within = "while getting externally supported jwt signing keys: "
            found = await self._call("FetchKeys", Empty(), PublicKeys, _PATIENCE, start + within)
            if found.seconds <= 0:
                raise SignerError(f"{start}found invalid refresh hint ({found.seconds}s)")
            if not found.keys:
                raise SignerError(f"{start}found no keys")
            if found.at is None:
                raise SignerError(f"{start}invalid data timestamp: proto: invalid nil Timestamp")
            keys = tuple((each.id, _public(each, start), each.hidden) for each in found.keys)
        except SignerError as error:
            self._fetches.inc(error.code)
            raise
        self._fetches.inc("OK")
        self._fetched[()] = now().timestamp()
        before, self._known = self._known, _KeySet(keys, found.at, now().timestamp() + found.seconds)
        # Any client can cause a fetch by an unknown key's id, so an unchanged key set keeps the cached lookups.
        if before.keys != keys:
            for notify in self._listeners:
                notify()

    @on_loop
    async def _call(self, method: str, request: Any, answer: type[Answer], seconds: float, start: str = "") -> Answer:
        """Call the signer once it can be reached.

        Raises SignerError with a text that begins with `start`.
        """
        await asyncio.to_thread(import_module, "apiserver.authentication.tokens.signer_channel")
        from apiserver.authentication.tokens.signer_channel import CallError, SignerChannel

        if self._channel is None:
            self._channel = SignerChannel(self._path)
        path, begin, code = f"/{SERVICE}/{method}", perf_counter(), "OK"
        try:
            with outside(), timers(Timer.MACHINE):
                async with asyncio.timeout(seconds):
                    return await self._channel.call(path, request, answer, seconds)
        except TimeoutError as error:
            code = "DeadlineExceeded"
            raise SignerError(f"{start}rpc error: code = {code} desc = context deadline exceeded", code) from error
        except CallError as error:
            code = error.code
            raise SignerError(f"{start}{error}", code) from error
        finally:
            self._took.observe(perf_counter() - begin, path, code)


def _public(found: PublicKey, start: str) -> Public:
    """Load a public key. Raise SignerError with a text that begins with `start`."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if not found.id or len(found.id.encode()) > _LONGEST_ID:
        raise SignerError(f"{start}found invalid public key id {go_quote(found.id)}")
    if not found.key:
        raise SignerError(f"{start}found empty public key")
    try:
        key: Any = load_der_public_key(found.key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignerError(f"{start}while parsing external public keys: {error}") from error
    if not can_sign_tokens(key):
        raise SignerError(f"{start}while parsing external public keys: no RSA or elliptic key that signs tokens")
    return key  # type: ignore[no-any-return]
