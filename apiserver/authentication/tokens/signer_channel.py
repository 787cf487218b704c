"""The gRPC connection to a token signer.

This module loads grpclib. Errors have grpc-go's texts.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final, TypeVar

from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.protocol import H2Protocol

from kubedra.driver.codec import MessageCodec, code_name
from kubedra.driver.wire import WireError

__all__ = ["CallError", "SignerChannel"]

Answer = TypeVar("Answer")

#: Seconds between attempts to reach the signer.
_AGAIN: Final = 0.2


class CallError(Exception):
    """Error of a call; `code` as Go names it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {text}")
        self.code = code


class SignerChannel(Channel):
    """Channel to a Unix socket; `@NAME` is an abstract one."""

    def __init__(self, path: str) -> None:
        super().__init__(path=path, codec=MessageCodec())
        self._address = "\0" + path[1:] if path.startswith("@") else path

    async def _create_connection(self) -> H2Protocol:
        # uvloop accepts no address with a zero byte, but it accepts a connected socket.
        opened = socket.socket(socket.AF_UNIX)
        try:
            opened.setblocking(False)
            await self._loop.sock_connect(opened, self._address)
            _, protocol = await self._loop.create_unix_connection(self._protocol_factory, sock=opened)
        except BaseException:
            opened.close()
            raise
        return protocol

    async def call(self, path: str, request: Any, answer: type[Answer], seconds: float) -> Answer:
        """Call the signer once it can be reached.

        Raises CallError. The caller limits the time.
        """
        while True:
            try:
                unary = UnaryUnaryMethod(self, path, type(request), answer)
                async with unary.open(timeout=seconds + 1) as stream:
                    await stream.send_message(request, end=True)
                    found: Answer | None = await stream.recv_message()
                if found is None:
                    raise CallError("Internal", "the signer ended the call without an answer")
                return found
            except OSError:  # The signer is not listening.
                await asyncio.sleep(_AGAIN)
            except GRPCError as error:
                raise CallError(code_name(error.status), error.message or "") from error
            except (ProtocolError, StreamTerminatedError) as error:
                raise CallError("Unavailable", "error reading from server: EOF") from error
            except WireError as error:
                raise CallError("Internal", f"grpc: failed to unmarshal the received message: {error}") from error

    def end(self) -> None:
        """Close the channel if it was ever connected."""
        if self._protocol is not None:
            self.close()
